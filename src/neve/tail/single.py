"""A single trace, judged at once: its spans are found by its id, and only the columns that policies ask for are read.

What does not change between two traces is made once: the DuckDB, and for each snapshot of the table the list of its
files. Then a decision costs one look into the catalog and one statement over the files of one bucket of ids.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from neve.lake.calendar import EPOCH
from neve.lake.duck import literal
from neve.tail.batches import integers, traces_of
from neve.tail.policy.decide import Judge
from neve.tail.policy.state import LimitState
from neve.tail.scratch import scratch
from neve.tail.single_files import TraceFiles
from neve.tail.votes import WORDS, votes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import pyarrow as pa

    from neve.tail.job import Selector
    from neve.tail.policy.verdicts import Verdicts
    from neve.tail.single_files import Found
    from neve.tail.votes import Vote


@dataclass(frozen=True)
class JudgedTrace:
    """What is known of a trace's spans, and what the policies say to it alone, with all budgets unspent."""

    snapshot_id: int | None
    files: int  # that were looked into
    spans: int
    duration_ms: float
    has_error: bool
    service: str | None
    operation: str | None
    begin: datetime
    end: datetime
    first_seen: datetime
    last_seen: datetime
    root_seen: datetime | None
    ready_at: datetime
    ready_because: str
    decision: str
    policy: str | None
    reason: str
    probability: float
    adjusted_count: float
    votes: tuple[Vote, ...]


@dataclass(frozen=True)
class SingleTraces:
    """Judges traces one by one; from `single_traces`."""

    selector: Selector
    connection: duckdb.DuckDBPyConnection

    @cached_property
    def files(self) -> TraceFiles:
        """Where traces are."""
        return TraceFiles(self.selector.source)

    @cached_property
    def judge(self) -> Judge:
        """Who decides."""
        return Judge(self.selector.policies, self.selector.config.window_seconds)

    def judged(self, organization: str, trace_id: bytes) -> JudgedTrace | None:
        """What the policies say to a trace as it is now; nothing where it has no spans."""
        found = self.files.of(trace_id)
        rows = self._summary(found, organization, trace_id)
        if rows is None or not rows.num_rows:
            return None
        traces = traces_of(rows, self.selector.source.summary, integers(rows, "ready_us"))
        verdicts, _state = self.judge.judge(traces, LimitState())
        return _judged_trace(found, rows.to_pylist()[0], verdicts, votes_of(self.judge, traces, verdicts))

    def _summary(self, found: Found, organization: str, trace_id: bytes) -> pa.Table | None:
        """The trace's summary, as a cycle would make it."""
        if not found.files:
            return None
        summary, readiness = self.selector.source.summary, self.selector.readiness
        spans = (
            f"(SELECT * FROM {found.reader.spans(found.files, summary.span_columns)} "
            f"WHERE trace_id = unhex('{trace_id.hex()}') AND organization_id = {literal(organization)})"
        )
        return self.connection.execute(
            f"SELECT *, {readiness.at} AS ready_us, {readiness.because} AS ready_because "
            f"FROM ({summary.of_spans(spans)})"
        ).to_arrow_table()


@contextmanager
def single_traces(selector: Selector) -> Iterator[SingleTraces]:
    """Who judges single traces, with a DuckDB of its own."""
    config = selector.config
    on_s3 = selector.source.on_s3 or selector.lake.lake.on_s3
    with scratch(selector.spans.s3, on_s3=on_s3, memory_mb=config.memory_mb, threads=config.threads) as connection:
        connection.execute("SET parquet_metadata_cache = true")  # half of the time goes into footers otherwise
        yield SingleTraces(selector, connection)


def judge_trace(
    selector: Selector, organization: str, trace_id: bytes, among: SingleTraces | None = None
) -> JudgedTrace | None:
    """What a selector's policies say to one trace now; whoever asks for several opens `single_traces` once."""
    if among is not None:
        return among.judged(organization, trace_id)
    with single_traces(selector) as opened:
        return opened.judged(organization, trace_id)


def _judged_trace(found: Found, row: dict[str, Any], verdicts: Verdicts, votes: tuple[Vote, ...]) -> JudgedTrace:
    place = int(verdicts.policy[0])
    return JudgedTrace(
        snapshot_id=found.snapshot_id,
        files=len(found.files),
        spans=row["span_count"],
        duration_ms=(row["end_ns"] - row["start_ns"]) / 1e6,
        has_error=row["has_error"],
        service=row["root"]["service"],
        operation=row["root"]["operation"],
        begin=moment(row["start_ns"] // 1000),
        end=moment(row["end_ns"] // 1000),
        first_seen=moment(row["first_us"]),
        last_seen=moment(row["last_us"]),
        root_seen=None if row["root_us"] is None else moment(row["root_us"]),
        ready_at=moment(row["ready_us"]),
        ready_because=row["ready_because"],
        decision=WORDS[int(verdicts.decision[0])],
        policy=votes[place].policy if place >= 0 else None,
        reason=verdicts.reason(0),
        probability=float(verdicts.probability[0]),
        adjusted_count=float(verdicts.adjusted_count[0]),
        votes=votes,
    )


def moment(micros: int) -> datetime:
    """A time from microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)
