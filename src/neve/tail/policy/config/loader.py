"""Load policies: build the policy tree from a collector's YAML, or the default policies if there is no file.

The defaults keep every error, every slow trace and a share of all others. Most options of the processor, beside its
policies, bound the collector's memory and have no effect on a lake.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from neve.tail.policy.config.policy_parser import ParsedPolicy, PolicyParser
from neve.tail.policy.config.problems import ConfigProblems, join_path
from neve.tail.policy.config.sections import PolicyFile, PolicySection
from neve.tail.policy.config.value_types import Count, Seconds  # noqa: TC001 - pydantic reads the annotations
from neve.tail.policy.config.yaml_document import POLICIES, expand_variables, find_body, is_valid_body, read_document
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import Drop, Holds, PolicySet

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_SHARDS = 256

IGNORED_OPTIONS = {
    "num_traces": "undecided traces are stored in a table, not in memory",
    "block_on_overflow": "undecided traces are stored in a table, which does not overflow",
    "expected_new_traces_per_sec": "no memory is reserved for traces",
    "decision_cache": "every decision is stored in the table trace_decisions",
    "tail_storage": "spans stay in their table",
    "drop_pending_traces_on_shutdown": "undecided traces are still in the table after a restart",
    "maximum_trace_size_bytes": "a large trace needs no more memory than a small one",
    "num_shards": "limits apply to all selectors together",
}


class CacheSection(PolicySection):
    """Sizes of the collector's caches of decisions."""

    sampled_cache_size: Count = 0
    non_sampled_cache_size: Count = 0


class ProcessorOptions(PolicySection):
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
    num_shards: Annotated[Count, Field(le=MAX_SHARDS)] | None = None
    decision_cache: CacheSection | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on accepted options without effect, with the reason for each."""
        named = [name for name in IGNORED_OPTIONS if name in self.model_fields_set]
        found = [f"{name} has no effect here: {IGNORED_OPTIONS[name]}" for name in named]
        if self.sampling_strategy == "span-ingest":
            found.append("sampling_strategy span-ingest has no effect here: a trace is decided when it is complete")
        return tuple(found)


def read_options(body: dict[str, Any], path: str, problems: ConfigProblems) -> ProcessorOptions:
    """Read the options, and use the default for each invalid one, which is added to the problems."""
    known = (*ProcessorOptions.model_fields, "policies")
    given = {key: value for key, value in body.items() if key != "policies" and value is not None}
    cache = given.pop("decision_cache", None)
    if cache is not None:
        given["decision_cache"] = problems.validate(CacheSection, cache, join_path(path, "decision_cache"))
    return problems.validate(ProcessorOptions, given, path, known) or ProcessorOptions()


def read_policy_file(
    path: str | Path, semantics: Semantics = Semantics.DOCUMENTED, *, processor: str | None = None
) -> PolicySet:
    """Read the policies of a file.

    Raises `ConfigError` with all problems.
    """
    return read_policies(read_document(Path(path)), semantics, str(path), processor=processor)


def read_policies(
    document: Mapping[str, object],
    semantics: Semantics = Semantics.DOCUMENTED,
    source: str = "",
    *,
    processor: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> PolicySet:
    """Read the policies of a document, of one `processor` if the configuration has several tail samplers.

    Raises `ConfigError` with all problems.
    """
    problems = ConfigProblems(source)
    body, path = find_body(document, processor, problems)
    body = expand_variables(body, environment, path, problems)
    if not is_valid_body(body, path, problems):
        problems.raise_if_any()
    options = read_options(body, path, problems)
    file = PolicyFile(semantics, problems, list(options.remarks))
    parsed = PolicyParser(file).read_all(body[POLICIES], join_path(path, POLICIES))
    problems.raise_if_any()
    ordered = PolicySet(tuple(sorted((policy.node for policy in parsed), key=lambda node: not isinstance(node, Drop))))
    return replace(
        ordered,
        semantics=semantics,
        first_match=options.sample_on_first_match,
        keys=tuple(file.keys),
        fingerprint=compute_fingerprint(parsed, options, semantics),
        remarks=tuple(file.remarks),
        facts=tuple(dict.fromkeys(node.fact for node in ordered.nodes if isinstance(node, Holds))),
        decision_wait_seconds=options.decision_wait,
        after_root_seconds=options.decision_wait_after_root_received or None,
    )


def compute_fingerprint(policies: tuple[ParsedPolicy, ...], options: ProcessorOptions, semantics: Semantics) -> str:
    """Return the SHA-256 of the deciding parts, without comments, order of keys, or completion times."""
    content = {
        "policies": [policy.canonical for policy in policies],
        "sample_on_first_match": options.sample_on_first_match,
        "semantics": semantics.value,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


SLOW_MS = 5000
PERCENTAGE = 1.0


def build_default_policies(
    slow_ms: int = SLOW_MS, percentage: float = PERCENTAGE, semantics: Semantics = Semantics.DOCUMENTED
) -> PolicySet:
    """Build policies that keep every error, every slow trace, and a percentage of all others."""
    return read_policies(
        {
            "policies": [
                {"name": "errors", "type": "error"},
                {"name": "slow", "type": "latency", "latency": {"threshold_ms": slow_ms}},
                {"name": "rest", "type": "probabilistic", "probabilistic": {"sampling_percentage": percentage}},
            ]
        },
        semantics,
        environment={},
    )
