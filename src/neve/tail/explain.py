"""Explain one trace: past decisions, whether it is still open, and how the policies vote on it now.

The spans of the trace are found by its id, and only the columns that the policies need are read. The DuckDB
connection and the file list of a snapshot are shared between traces, so that judging one more trace costs one
catalog lookup and one statement over the files of one bucket.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.expressions import In, Reference
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import BinaryType, FixedType, StringType, UUIDType

from neve.lake.calendar import EPOCH
from neve.lake.duckdb import open_scratch_database, quote_literal, to_duckdb_path
from neve.lake.read.snapshot_files import scan_paths
from neve.model.decision_tables import DECISIONS, OPEN_TRACES
from neve.tail.cycle_files import list_trace_files
from neve.tail.judge import has_limits
from neve.tail.new_files import list_all_files
from neve.tail.policy.evaluate.batch_evaluator import VOTE_WORDS, PolicyEvaluator, explain_votes
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.span_order import REMARK
from neve.tail.span_repeats import find_repeats
from neve.tail.trace_summary import build_traces, extract_integers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from neve.tail.new_files import SpanFile
    from neve.tail.policy.evaluate.batch_evaluator import Vote
    from neve.tail.policy.evaluate.verdicts import Verdicts
    from neve.tail.selector import TailSelector
    from neve.tail.span_source import SpanReader, SpanSource


@dataclass(frozen=True)
class TraceFileList:
    """Data files of a snapshot, with the reader for them."""

    snapshot_id: int | None
    files: Sequence[SpanFile]
    reader: SpanReader
    repeats: str = ""  # subquery of repeats of stored spans


@dataclass
class TraceFileIndex:
    """Index of data files by trace id, with the list of all files cached until the table changes."""

    source: SpanSource
    _file_list: TraceFileList | None = field(default=None, init=False)

    def of(self, trace_id: bytes) -> TraceFileList:
        """Return the files of the newest snapshot that may contain a trace's spans."""
        table = self.source.now()
        file_list = self._all(table)
        name = self.source.reader.columns.names["trace_id"]
        encodings = encode_trace_id(table.schema().find_field(name).field_type, trace_id)
        if not file_list.files or not encodings:
            return file_list
        buckets = _find_buckets(table, name, encodings)
        if buckets is not None:
            some = [file for file in file_list.files if file.bucket is None or file.bucket in buckets]
        else:
            row_filter = In(term=Reference(name), literals=set(encodings))
            paths = set(scan_paths(table, row_filter))
            some = [file for file in file_list.files if file.path in paths]
        return replace(file_list, files=some)

    def _all(self, table: Table) -> TraceFileList:
        current = table.metadata.current_snapshot_id
        if self._file_list is None or self._file_list.snapshot_id != current:
            found = list_all_files(table, None, "to look for a trace")
            repeats = find_repeats(self.source, found.repeats)
            self._file_list = TraceFileList(current, found.files, self.source.reader, repeats)
        return self._file_list


def encode_trace_id(kind: IcebergType, trace_id: bytes) -> list[Any]:
    """List the values that an id may have in a column of a type, or return an empty list if any value is possible."""
    if isinstance(kind, BinaryType | FixedType):
        return [trace_id]
    if isinstance(kind, UUIDType):
        return [UUID(bytes=trace_id)]
    if isinstance(kind, StringType):
        texts = [trace_id.hex(), str(UUID(bytes=trace_id))]
        return [*texts, *(text.upper() for text in texts)]
    return []


def _find_buckets(table: Table, name: str, encodings: Sequence[Any]) -> set[int | None] | None:
    """Return the buckets of an id, or `None` if the table has none, has some of another column, or changed them."""
    fields = [part for spec in table.metadata.specs().values() for part in spec.fields]
    transforms = {
        (part.source_id, part.transform.num_buckets) for part in fields if isinstance(part.transform, BucketTransform)
    }
    column = table.schema().find_field(name)
    if len(transforms) != 1 or next(iter(transforms))[0] != column.field_id:
        return None
    ((_column, count),) = transforms
    bucket = BucketTransform(count).transform(column.field_type)
    return {bucket(encoding) for encoding in encodings}


@dataclass(frozen=True)
class JudgedTrace:
    """Summary of a trace's spans, and the decision of the policies on it alone, with all budgets unspent."""

    snapshot_id: int | None
    files: int  # number of files that were read
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
class TraceJudge:
    """Evaluator of single traces, which `open_trace_judge` creates."""

    selector: TailSelector
    connection: duckdb.DuckDBPyConnection

    @cached_property
    def files(self) -> TraceFileIndex:
        """Index of the data files."""
        return TraceFileIndex(self.selector.source)

    @cached_property
    def evaluator(self) -> PolicyEvaluator:
        """Evaluator of the selector's policies."""
        return PolicyEvaluator(self.selector.policies, self.selector.config.window_seconds)

    def evaluate(self, organization: str, trace_id: bytes) -> JudgedTrace | None:
        """Evaluate the policies on a trace as it is now, or return `None` if it has no spans."""
        found = self.files.of(trace_id)
        rows = self._summary(found, organization, trace_id)
        if rows is None or not rows.num_rows:
            return None
        traces = build_traces(rows, self.selector.source.summary, extract_integers(rows, "ready_us"))
        verdicts, _state = self.evaluator.judge(traces, LimitState())
        row = {**rows.to_pylist()[0], "is_unordered": traces.unordered is not None and bool(traces.unordered[0])}
        return _build_judged_trace(found, row, verdicts, explain_votes(self.evaluator, traces, verdicts))

    def _summary(self, found: TraceFileList, organization: str, trace_id: bytes) -> pa.Table | None:
        """Build the summary of a trace in the same way as a cycle."""
        if not found.files:
            return None
        summary, readiness = self.selector.source.summary, self.selector.readiness
        mine = f"WHERE trace_id = unhex('{trace_id.hex()}') AND organization_id = {quote_literal(organization)}"
        spans = found.reader.spans(found.files, summary.span_columns)
        query = summary.of_spans(f"(SELECT * FROM {spans} {mine})")
        if found.repeats:
            repeats = summary.of_repeats(f"(SELECT * FROM {found.repeats} {mine})")
            both = summary.of_summaries(f"({query} UNION ALL BY NAME {repeats})")
            query = f"SELECT * FROM ({both}) WHERE root IS NOT NULL"
        return self.connection.execute(
            f"SELECT *, {readiness.at} AS ready_us, {readiness.because} AS ready_because FROM ({query})"
        ).to_arrow_table()


@contextmanager
def open_trace_judge(selector: TailSelector) -> Iterator[TraceJudge]:
    """Open a judge of single traces, with its own DuckDB."""
    config = selector.config
    on_s3 = selector.source.on_s3 or selector.lake.lake.on_s3
    with open_scratch_database(
        selector.spans.s3, on_s3=on_s3, memory_mb=config.memory_mb, threads=config.threads
    ) as connection:
        connection.execute("SET parquet_metadata_cache = true")  # otherwise half of the time is spent on footers
        yield TraceJudge(selector, connection)


def _build_judged_trace(
    found: TraceFileList, row: dict[str, Any], verdicts: Verdicts, votes: tuple[Vote, ...]
) -> JudgedTrace:
    place = int(verdicts.policy[0])
    return JudgedTrace(
        snapshot_id=found.snapshot_id,
        files=len(found.files),
        spans=row["span_count"],
        duration_ms=(row["end_ns"] - row["start_ns"]) / 1e6,
        has_error=row["has_error"],
        service=row["root"]["service"],
        operation=row["root"]["operation"],
        begin=to_datetime(row["start_ns"] // 1000),
        end=to_datetime(row["end_ns"] // 1000),
        first_seen=to_datetime(row["first_us"]),
        last_seen=to_datetime(row["last_us"]),
        root_seen=None if row["root_us"] is None else to_datetime(row["root_us"]),
        ready_at=to_datetime(row["ready_us"]),
        ready_because=row["ready_because"],
        decision=VOTE_WORDS[int(verdicts.decision[0])],
        policy=votes[place].policy if place >= 0 else None,
        reason=verdicts.reason(0) + (REMARK if row["is_unordered"] else ""),
        probability=float(verdicts.probability[0]),
        adjusted_count=float(verdicts.adjusted_count[0]),
        votes=votes,
    )


def to_datetime(micros: int) -> datetime:
    """Convert microseconds since 1970 to a datetime."""
    return EPOCH + timedelta(microseconds=micros)


UNKNOWN, UNSEEN, OPEN, DECIDED = "unknown", "unseen", "open", "decided"


@dataclass(frozen=True)
class DecisionRecord:
    """Row of the table of decisions."""

    decided_at: datetime
    selector: str
    revision: int
    kind: str
    decision: str
    policy: str | None
    reason: str
    adjusted_count: float
    probability: float
    threshold: str | None
    late_spans: int
    taken_by: str | None
    ready_at: datetime
    ready_because: str
    span_count: int
    duration_ms: float
    has_error: bool
    source: str
    source_snapshot_id: int | None
    policies_hash: str
    cycle: int


@dataclass(frozen=True)
class OpenTrace:
    """Undecided trace of a selector, with `ready_at` only for the selector that explains the trace."""

    selector: str
    span_count: int
    has_error: bool
    first_seen: datetime
    last_seen: datetime
    root_seen: datetime | None
    ready_at: datetime | None = None
    ready_because: str = ""


@dataclass(frozen=True)
class TraceExplanation:
    """Everything that is known about a trace."""

    organization: str
    trace_id: str
    selector: str
    decisions: tuple[DecisionRecord, ...]
    open: tuple[OpenTrace, ...]
    now: JudgedTrace | None
    tables: tuple[str, ...]  # tables that were read
    policies_hash: str
    semantics: str
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """State of the trace: decided, open, unseen (it has spans that no cycle has read) or unknown."""
        if self.decisions:
            return DECIDED
        if self.open:
            return OPEN
        return UNSEEN if self.now else UNKNOWN

    def as_document(self) -> dict[str, Any]:
        """Return the explanation as a JSON document, with times as text."""
        document: dict[str, Any] = _format_times({"state": self.state, **asdict(self)})
        return document


def explain_trace(selector: TailSelector, organization: str, trace_id: bytes) -> TraceExplanation:
    """Load the decisions and open traces of all selectors, and evaluate this selector's policies."""
    lake = selector.lake
    with open_trace_judge(selector) as traces:
        made, left = (
            _select_rows(lake.table(table.name), organization, trace_id) for table in (DECISIONS, OPEN_TRACES)
        )
        decisions = _load_decisions(traces.connection, made) if made else ()
        waiting = _load_open_traces(traces, left) if left else ()
        now = traces.evaluate(organization, trace_id)
    return TraceExplanation(
        organization=organization,
        trace_id=trace_id.hex(),
        selector=selector.config.name,
        decisions=decisions,
        open=waiting,
        now=now,
        tables=(selector.source.name, DECISIONS.name, OPEN_TRACES.name),
        policies_hash=selector.policies.fingerprint,
        semantics=selector.policies.semantics.value,
        notes=tuple(_build_notes(selector, decisions, now)),
    )


def _load_decisions(connection: duckdb.DuckDBPyConnection, rows: str) -> tuple[DecisionRecord, ...]:
    """Load every revision of every selector, in the order of decision."""
    file_list = ", ".join(DecisionRecord.__annotations__)
    found = connection.execute(
        f"SELECT {file_list} FROM {rows} ORDER BY decided_at, selector, revision"
    ).to_arrow_table()
    return tuple(DecisionRecord(**row) for row in found.to_pylist())


def _load_open_traces(traces: TraceJudge, rows: str) -> tuple[OpenTrace, ...]:
    readiness, mine = traces.selector.readiness, traces.selector.config.name
    names = ("selector", "span_count", "has_error", "first_seen", "last_seen", "root_seen")
    micros = ", ".join(f"epoch_us({of}_seen) AS {of}_us" for of in ("first", "last", "root"))
    found = traces.connection.execute(
        f"SELECT {', '.join(names)}, {readiness.at} AS ready_us, {readiness.because} AS ready_because "
        f"FROM (SELECT *, {micros} FROM {rows}) ORDER BY selector"
    ).to_arrow_table()
    return tuple(_build_open_trace(row, mine) for row in found.to_pylist())


def _build_open_trace(row: dict[str, Any], mine: str) -> OpenTrace:
    """Build an open trace, with `ready_at` only for this selector, as the waits of others are unknown here."""
    is_mine, ready_us = row["selector"] == mine, row.pop("ready_us")
    ready = {"ready_at": to_datetime(ready_us)} if is_mine else {"ready_because": ""}
    return OpenTrace(**row | ready)


def _select_rows(table: Table, organization: str, trace_id: bytes) -> str:
    """Return a subquery in parentheses with the rows of one trace in a table of the selector, or empty."""
    mine = f"trace_id = unhex('{trace_id.hex()}') AND organization_id = {quote_literal(organization)}"
    paths = ", ".join(quote_literal(to_duckdb_path(path)) for path in list_trace_files(table, organization, trace_id))
    return f"(SELECT * FROM read_parquet([{paths}]) WHERE {mine})" if paths else ""


def _build_notes(
    selector: TailSelector, decisions: tuple[DecisionRecord, ...], now: JudgedTrace | None
) -> Iterator[str]:
    """Yield notes that are needed to interpret the explanation."""
    mine = [one for one in decisions if one.selector == selector.config.name]
    if mine and mine[-1].policies_hash != selector.policies.fingerprint:
        yield "the trace was decided by other policies than the current ones"
    if now is None and decisions:
        yield "its spans are no longer in the table: the policies can't be evaluated"
    more = now.spans - mine[-1].span_count if now is not None and mine else 0
    if more > 0:
        yield f"{more:,} more span{'' if more == 1 else 's'} arrived after its last decision"
    if now is not None and has_limits(selector.policies):
        yield "limits and rates by key depend on other traces: here each policy is evaluated on this trace alone"


def _format_times(value: Any) -> Any:
    """Convert times to text, at any depth."""
    if isinstance(value, dict):
        return {key: _format_times(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_format_times(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime) else value
