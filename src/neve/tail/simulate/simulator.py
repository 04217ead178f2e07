"""The simulator: replay past traces of a period through one or two policy sets and report what would be kept.

Spans are aggregated and traces judged as in a cycle, into a private scratch table.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.types import IntegerType, LongType, TimestampType, TimestamptzType

from neve.lake.calendar import EPOCH, now_utc
from neve.lake.duckdb import open_scratch_database
from neve.model.decision_tables import DECISIONS
from neve.tail.claims import NoClaims
from neve.tail.column_mapping import NANOS_PER_UNIT
from neve.tail.decisions import DROPPED, NOT_SAMPLED, SAMPLED, DecisionContext
from neve.tail.judge import MICROS, CycleJudge, Readiness, compute_horizon
from neve.tail.new_files import NewFiles, list_all_files, split_into_chunks
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD
from neve.tail.simulate.analysis import (
    SpanCost,
    compare_simulations,
    compute_errors,
    compute_estimates,
    compute_policy_volumes,
    compute_volumes,
)
from neve.tail.simulate.report import Simulation
from neve.tail.span_aggregation import (
    KNOWN_TRACES,
    LATE_TRACES,
    MERGED_TRACES,
    CycleTables,
    aggregate_spans,
    choose_engine,
)
from neve.tail.span_repeats import find_repeats
from neve.tail.span_source import OWN_COLUMNS, SpanSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import duckdb
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig
    from neve.tail.policy.tree import PolicySet
    from neve.tail.selector import Progress
    from neve.tail.simulate.report import Comparison, Volume


# Column by which files of the lake's own tables are laid out. Files have no bounds for the column of nanoseconds.
TIME_COLUMN = "timestamp"


@dataclass(frozen=True)
class Period:
    """Period of traces by start time, from `since` inclusive to `until` exclusive, where `None` is no bound."""

    since: datetime | None = None
    until: datetime | None = None

    def holds(self, start_ns: str) -> str:
        """Return an SQL condition for traces in the period, by the start of the first span."""
        bounds = [(self.since, ">="), (self.until, "<")]
        parts = [f"{start_ns} {sign} {to_nanos(moment)}" for moment, sign in bounds if moment is not None]
        return " AND ".join(parts) or "true"

    def widen(self, micros: int) -> Period:
        """Return the period in which spans of its traces may be, for a maximum duration of a trace.

        Traces that began before the period are not counted. They are judged so that limits and moving averages are
        realistic.
        """
        wider = timedelta(microseconds=micros)
        return Period(_shift_time(self.since, -wider), _shift_time(self.until, wider))

    def list_files(self, source: SpanSource, table: Table) -> NewFiles:
        """Return the files that may contain spans of the period, or all files if the table has no bounds for it."""
        return list_all_files(table, None, "a simulation", self._row_filter(source, table))

    def _row_filter(self, source: SpanSource, table: Table) -> BooleanExpression:
        columns = source.reader.columns
        is_own = {field.name for field in table.schema().fields} >= OWN_COLUMNS
        name = TIME_COLUMN if is_own else columns.names["start"]
        written = _choose_encoder(table, name, columns.units.get("start", ""))
        found: BooleanExpression = AlwaysTrue()
        if written is None:
            return found
        step = timedelta(milliseconds=1)  # a column may be truncated to less than what `holds` compares
        if self.since is not None:
            found = And(found, GreaterThanOrEqual(term=Reference(name), value=written(self.since - step)))
        if self.until is not None:
            found = And(found, LessThanOrEqual(term=Reference(name), value=written(self.until + step)))
        return found


def to_nanos(moment: datetime) -> int:
    """Convert a time to nanoseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


def _choose_encoder(table: Table, name: str, unit: str) -> Callable[[datetime], str | int] | None:
    """Return a function that encodes a time for a column, or `None` if the column can't be used to select files."""
    kind = table.schema().find_field(name).field_type
    if isinstance(kind, TimestamptzType):
        return datetime.isoformat
    if isinstance(kind, TimestampType):
        return lambda moment: moment.replace(tzinfo=None).isoformat()
    if isinstance(kind, LongType | IntegerType) and unit in NANOS_PER_UNIT:
        return lambda moment: to_nanos(moment) // NANOS_PER_UNIT[unit]
    return None


def _shift_time(moment: datetime | None, by: timedelta) -> datetime | None:
    try:
        return None if moment is None else moment + by
    except OverflowError:
        return None


# Columns, and their expressions over a row of decisions. `weight` is the number of traces that one represents before
# these policies are evaluated: 1 except for traces that their sender sampled. With it, the actual value and the
# estimate refer to the same traces.
JUDGED_COLUMNS = {
    "organization_id": "organization_id",
    "trace_id": "trace_id",
    "decision": "decision",
    "policy": "policy",
    "kept": f"decision = '{SAMPLED}'",
    "spans": "span_count",
    "has_error": "has_error",
    "service": "coalesce(service_name, '')",
    "operation": "coalesce(operation_name, '')",
    "duration_ms": "greatest(duration_ms, 0.0)",
    "weight": f"{MAX_THRESHOLD}.0 / ({MAX_THRESHOLD} - head_threshold)",
    "adjusted": "coalesce(adjusted_count, 0.0)",
}
START_COLUMN = "start_time_unix_nano"
READ_COLUMNS = (
    *("organization_id", "trace_id", "decision", "policy", "span_count", "has_error", "service_name", "operation_name"),
    *("duration_ms", "head_threshold", "adjusted_count", START_COLUMN),
)


@dataclass(frozen=True)
class JudgedTraces:
    """Table of judged traces, by its name in a DuckDB."""

    connection: duckdb.DuckDBPyConnection
    name: str

    def begin(self) -> None:
        """Create the empty table."""
        self._add(self.connection, f"CREATE TABLE {self.name} AS", DECISIONS.schema.empty_table(), "true")

    def fill(self, batches: Iterable[pa.Table], period: Period) -> Iterator[int]:
        """Insert the decisions about traces in the period, and yield the number of processed rows after each batch."""
        # Batches come from a running statement of this connection, so another connection inserts them.
        writer, done = self.connection.cursor(), 0
        try:
            for batch in batches:
                self._add(writer, f"INSERT INTO {self.name}", batch, period.holds(START_COLUMN))
                done += batch.num_rows
                yield done
        finally:
            writer.close()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT, which should group by columns with few distinct values."""
        return self.connection.execute(sql).fetchall()

    @staticmethod
    def _add(writer: duckdb.DuckDBPyConnection, make: str, batch: pa.Table, where: str) -> None:
        listed = ", ".join(f"{context} AS {name}" for name, context in JUDGED_COLUMNS.items())
        writer.register("batch", batch.select(READ_COLUMNS))
        writer.execute(f"{make} SELECT {listed} FROM batch WHERE {where}")
        writer.unregister("batch")


@dataclass(frozen=True)
class PastTraces:
    """Input of a simulation, which is the same for all compared policies."""

    period: Period
    snapshot_id: int | None
    now: datetime

    @property
    def now_us(self) -> int:
        """Time for the completeness of traces, in microseconds."""
        return round(self.now.timestamp() * MICROS)


@dataclass(frozen=True)
class ReplayResult:
    """Judged traces of one policy set, and what was read for them."""

    judged: JudgedTraces
    new_files: NewFiles
    engine: str
    open: int  # traces of the period that are not complete
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Replayer:
    """Judge of past traces in one DuckDB, with a table for each policy set."""

    connection: duckdb.DuckDBPyConnection
    config: TailConfig
    past: PastTraces
    progress: Progress

    def replay(self, source: SpanSource, name: str) -> ReplayResult:
        """Judge past traces by the policies of a source."""
        readiness = Readiness.of(self.config, source.summary.policies)
        wider = self.past.period.widen(max(readiness.longest_us, round(self.config.max_duration_seconds * MICROS)))
        new_files = wider.list_files(source, source.now(self.past.snapshot_id))
        engine = choose_engine(self.config, new_files)
        new_spans = self._gather(source, new_files, engine, name)
        remarks = (*source.summary.policies.remarks, *_note_missing_trace_ids(source, new_files, new_spans))
        self.connection.execute(f"DELETE FROM {MERGED_TRACES} WHERE NOT ({wider.holds('start_ns')})")
        judge = self._build_judge(source, readiness)
        judged = self._judge(judge, name)
        waiting = self._count(f"WHERE NOT ({judge.is_ready}) AND {self.past.period.holds('start_ns')}")
        for table in (MERGED_TRACES, LATE_TRACES, KNOWN_TRACES):
            self.connection.execute(f"DROP TABLE {table}")
        return ReplayResult(judged, new_files, engine, waiting, remarks)

    def _gather(self, source: SpanSource, new_files: NewFiles, engine: str, name: str) -> int:
        """Aggregate and merge the spans and their repeats. Return the number of spans in the files."""
        tables = CycleTables(self.connection, source.summary)
        tables.begin()
        chunks = split_into_chunks(new_files.files, self.config.chunk_rows)
        report = partial(self.progress, f"{name}: spans")
        aggregate_spans(engine, source.lake, tables, source.reader, chunks, report)
        new_spans = tables.new_spans
        tables.add_repeats(find_repeats(source, new_files.repeats))
        tables.merge(whole=True)
        return new_spans

    def _build_judge(self, source: SpanSource, readiness: Readiness) -> CycleJudge:
        policies, now_us = source.summary.policies, self.past.now_us
        return CycleJudge(
            connection=self.connection,
            summary=source.summary,
            readiness=readiness,
            policies=policies,
            window_seconds=self.config.window_seconds,
            claims=NoClaims(self.config.name),
            context=DecisionContext(
                self.config.name, source.name, self.past.snapshot_id, None, policies.fingerprint, 0, now_us
            ),
            since_us=0,
            until_us=compute_horizon(policies, self.config.window_seconds, now_us, 0),
        )

    def _judge(self, judge: CycleJudge, name: str) -> JudgedTraces:
        judged = JudgedTraces(self.connection, f"judged_{name}")
        judged.begin()
        total = self._count(f"WHERE {judge.is_ready}")
        for done in judged.fill(judge.decide_ready(), self.past.period):
            self.progress(f"{name}: traces", done, total)
        return judged

    def _count(self, where: str) -> int:
        found = self.connection.execute(f"SELECT count(*) FROM {MERGED_TRACES} {where}").fetchone()
        return int(found[0]) if found else 0


def _note_missing_trace_ids(source: SpanSource, new_files: NewFiles, new_spans: int) -> tuple[str, ...]:
    """Return a remark on spans without a trace id, which no policy can keep.

    There is none if rows were deleted or belong to other organizations, as these can't be distinguished.
    """
    if source.reader.organization or any(file.deletes for file in new_files.files):
        return ()
    missing = new_files.rows - new_spans
    return (f"{missing:,} spans have no trace id and can't be sampled",) if missing > 0 else ()


ALL_TIME = Period()


@dataclass(frozen=True)
class Simulator:
    """Simulator of policies on the traces of a period, which writes nothing to the lake.

    A trace is judged by all its current spans, in the windows in which traces became ready. The simulation does not
    model that a selector would have decided before the last span arrived, and revised its decision then.
    """

    lake: Lake  # lake of the spans
    config: TailConfig
    period: Period = ALL_TIME
    price: float | None = None  # for a million spans; `None`: the configured one
    clock: Callable[[], datetime] = now_utc
    progress: Progress = field(default=lambda _step, _done, _total: None)

    def simulate(self, policies: PolicySet) -> Simulation:
        """Simulate the decisions of policies."""
        source = self._source(policies)
        with self._replayer(source) as replayer:
            simulation, _replay = self._simulate(replayer, source, "new")
        return simulation

    def compare(self, new: PolicySet, old: PolicySet) -> Comparison:
        """Simulate the decisions of two policy sets about the same traces, and compare them."""
        source, other = self._source(new), self._source(old)
        with self._replayer(source) as replayer:
            simulation, replay = self._simulate(replayer, source, "new")
            other_simulation, other_replay = self._simulate(replayer, other, "old")
            return compare_simulations(
                (simulation, replay.judged), (other_simulation, other_replay.judged), self._scale(replay)
            )

    def _source(self, policies: PolicySet) -> SpanSource:
        return SpanSource.of(self.lake, self.config, policies)

    @contextmanager
    def _replayer(self, source: SpanSource) -> Iterator[Replayer]:
        config = self.config
        past = PastTraces(self.period, source.now().metadata.current_snapshot_id, self.clock())
        with open_scratch_database(
            self.lake.s3, on_s3=source.on_s3, memory_mb=config.memory_mb, threads=config.threads
        ) as connection:
            yield Replayer(connection, config, past, self.progress)

    def _simulate(self, replayer: Replayer, source: SpanSource, name: str) -> tuple[Simulation, ReplayResult]:
        began, policies = time.monotonic(), source.summary.policies
        replay = replayer.replay(source, name)
        judged, past, scale = replay.judged, replayer.past, self._scale(replay)
        found = compute_volumes(judged, scale)
        simulation = Simulation(
            source=source.name,
            snapshot_id=past.snapshot_id,
            since=_format_time(past.period.since),
            until=_format_time(past.period.until),
            judged_at=past.now.isoformat(),
            policies_hash=policies.fingerprint,
            semantics=policies.semantics.value,
            price=scale.price_per_million,
            files=len(replay.new_files.files),
            engine=replay.engine,
            before=_sum_volumes(found, scale),
            kept=found[SAMPLED],
            not_sampled=found[NOT_SAMPLED],
            dropped=found[DROPPED],
            open=replay.open,
            policies=compute_policy_volumes(judged, policies),
            errors=compute_errors(judged),
            estimates=compute_estimates(judged),
            seconds=time.monotonic() - began,
            remarks=replay.remarks,
        )
        return simulation, replay

    def _scale(self, replay: ReplayResult) -> SpanCost:
        new_files = replay.new_files
        price = self.config.price_per_million_spans if self.price is None else self.price
        return SpanCost(new_files.bytes / new_files.rows if new_files.rows else 0.0, price)


def _sum_volumes(found: dict[str, Volume], scale: SpanCost) -> Volume:
    return scale.volume(sum(one.traces for one in found.values()), sum(one.spans for one in found.values()))


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
