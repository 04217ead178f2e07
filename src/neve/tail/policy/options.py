"""What stands beside the policies: most of it bounds the collector's memory, and means nothing for a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from neve.tail.policy.complaints import joined
from neve.tail.policy.fields import Count, Seconds, Shape

if TYPE_CHECKING:
    from neve.tail.policy.complaints import Complaints

MOST_SHARDS = 256

MEANINGLESS = {
    "num_traces": "traces wait in a table, not in memory",
    "block_on_overflow": "traces wait in a table, which does not overflow",
    "expected_new_traces_per_sec": "nothing is set aside in memory for traces to come",
    "decision_cache": "every decision is kept in the table trace_decisions",
    "tail_storage": "spans stay in the table that they are in",
    "drop_pending_traces_on_shutdown": "traces that wait are still in the table after a restart",
    "maximum_trace_size_bytes": "a large trace takes no more memory than a small one, so it is decided like any other",
    "num_shards": "limits hold for all selectors together, however many there are",
}


class CacheShape(Shape):
    """Sizes of the collector's caches of decisions."""

    sampled_cache_size: Count = 0
    non_sampled_cache_size: Count = 0


class Options(Shape):
    """The keys of the processor, but for its policies."""

    decision_wait: Seconds | None = None
    decision_wait_after_root_received: Seconds | None = None
    sample_on_first_match: bool = False
    sampling_strategy: Literal["trace-complete", "span-ingest"] = "trace-complete"
    num_traces: Count | None = None
    block_on_overflow: bool | None = None
    expected_new_traces_per_sec: Count | None = None
    tail_storage: str | None = None
    drop_pending_traces_on_shutdown: bool | None = None
    maximum_trace_size_bytes: Count | None = None
    num_shards: Annotated[Count, Field(le=MOST_SHARDS)] | None = None
    decision_cache: CacheShape | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why what was set and accepted means nothing here."""
        named = [name for name in MEANINGLESS if name in self.model_fields_set]
        found = [f"{name} means nothing here: {MEANINGLESS[name]}" for name in named]
        if self.sampling_strategy == "span-ingest":
            found.append("sampling_strategy span-ingest means nothing here: a trace is decided when all of it is there")
        return tuple(found)


def read_options(body: dict[str, Any], path: str, complaints: Complaints) -> Options:
    """The options of a body; complains about each that is wrong and takes the default for it."""
    known = (*Options.model_fields, "policies")
    given = {key: value for key, value in body.items() if key != "policies" and value is not None}
    cache = given.pop("decision_cache", None)
    if cache is not None:
        given["decision_cache"] = complaints.checked(CacheShape, cache, joined(path, "decision_cache"))
    return complaints.checked(Options, given, path, known) or Options()
