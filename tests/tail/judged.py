"""Spans judged in this process, without a lake: the same SQL and the same policies as a cycle's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io

from neve.ingest.arrival import set_received
from neve.ingest.batch_writer import build_repeat_rows
from neve.ingest.deduplication import DuplicateFilter
from neve.lake.tables import iceberg_schema
from neve.lake.write.layout import PartitionSlice
from neve.model.signals import Signal
from neve.model.tables import SPAN_REPEATS, SPANS
from neve.otlp import Intake, decode
from neve.tail.column_mapping import map_columns
from neve.tail.config import SourceConfig
from neve.tail.decisions import build_open_rows
from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.policy.evaluate.verdicts import DROPPED, SAMPLED
from neve.tail.span_aggregation import MERGED_TRACES, CycleTables
from neve.tail.span_order import add_order_remark
from neve.tail.span_repeats import select_repeats_sql
from neve.tail.span_source import SpanReader
from neve.tail.trace_summary import SummaryQuery, build_traces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.policy.tree import PolicySet

WORDS = {SAMPLED: "sampled", DROPPED: "dropped"}
FAR = 4 * 10**18  # nanoseconds since 1970: no span is refused for being of the future
SECOND = 10**9


@dataclass(frozen=True)
class Arrival:
    """A message, and when it arrived, in seconds."""

    message: bytes
    second: int = 0


class Spans:
    """Spans of OTLP messages, as the tables have them after some runs of ingestion.

    The rows of each run are stored in any order. Repeats are dropped as ingestion drops them, and those of spans of an
    earlier run, or of an earlier write of the same run, are in the table of repeats.
    """

    def __init__(self, messages: Sequence[bytes], runs: int = 1) -> None:
        self.rejected = 0
        self.runs: list[pa.Table] = []
        self.repeats: list[pa.Table] = []
        self._sieve = DuplicateFilter(load_file_io({}, "/"), {}, keeps_repeats=True)
        for run in range(runs):
            some = messages[run * len(messages) // runs : (run + 1) * len(messages) // runs]
            self.ingest([Arrival(message, run) for message in some])
        self.reader = SpanReader(iceberg_schema(SPANS), map_columns(iceberg_schema(SPANS), SourceConfig()))

    @classmethod
    def of(cls, runs: Sequence[Sequence[Arrival]], writes: int = 1) -> Spans:
        """Return the spans of some runs, each of which writes its rows in so many parts."""
        spans = cls([], 0)
        for run in runs:
            spans.ingest(run, writes)
        return spans

    @property
    def dropped(self) -> int:
        """The number of repeats."""
        return self._sieve.dropped

    def ingest(self, arrivals: Sequence[Arrival], writes: int = 1) -> None:
        """Ingest messages in one run, which a cycle follows."""
        decoded = decode(Signal.TRACES, [one.message for one in arrivals], Intake("acme", FAR))
        self.rejected += len(decoded.rejected)
        batch = set_received(decoded, [FAR + one.second * SECOND for one in arrivals] or [FAR])
        order = np.random.default_rng(len(self.runs)).permutation(batch.num_rows)
        kept, dropped = [SPANS.schema.empty_table()], [SPAN_REPEATS.schema.empty_table()]
        for part in np.array_split(order, writes):
            kept.append(self._sieve(PartitionSlice(None, pa.Table.from_batches([batch]).take(pa.array(part)))).rows)
            if (repeats := self._sieve.take_repeats()) is not None:
                dropped.append(build_repeat_rows(repeats, "batch", FAR))
        self.runs.append(pa.concat_tables(kept))
        self.repeats.append(pa.concat_tables(dropped))

    @property
    def rows(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables(self.runs)

    @cached_property
    def trace_ids(self) -> set[str]:
        """The ids of the traces that are in the table, in hex."""
        return {one.hex() for one in self.rows.column("trace_id").to_pylist()}

    def without(self, *columns: str) -> Spans:
        """Return the same spans with nulls in some columns, as an older release wrote them."""
        spans = Spans([])
        spans.runs, spans.repeats = [_clear(rows, columns) for rows in self.runs], self.repeats
        return spans

    def judge(self, policies: PolicySet) -> dict[str, tuple[str, str | None]]:
        """What is decided about each trace by its id in hex, and by which policy."""
        return {trace: (decision, policy) for trace, (decision, policy, _reason) in self.explain(policies).items()}

    def explain(self, policies: PolicySet) -> dict[str, tuple[str, str | None, str]]:
        """The same with the reason; each run is a cycle, and open traces are stored between cycles."""
        summary = SummaryQuery(policies, "event")
        found = self._summarize(summary)
        traces = build_traces(found, summary, np.zeros(found.num_rows, np.int64))
        verdicts, _state = PolicyEvaluator(policies).judge(traces, LimitState())
        names = [policy.name for policy in policies.policies]
        reasons = add_order_remark(pa.array(verdicts.reasons(), pa.string()), traces.unordered)
        return {
            trace_id.hex(): (WORDS.get(int(decision), "not_sampled"), names[place] if place >= 0 else None, reason)
            for trace_id, decision, place, reason in zip(
                found.column("trace_id").to_pylist(),
                verdicts.decision,
                verdicts.policy,
                reasons.to_pylist(),
                strict=True,
            )
        }

    def _summarize(self, summary: SummaryQuery) -> pa.Table:
        found: pa.Table | None = None
        with TemporaryDirectory() as folder:
            path = Path(folder) / "open.parquet"
            for rows, repeats in zip_longest(self.runs, self.repeats, fillvalue=SPAN_REPEATS.schema.empty_table()):
                with duckdb.connect() as connection:
                    connection.register("rows", rows)
                    connection.register("repeats", repeats)
                    tables = CycleTables(connection, summary)
                    tables.begin()
                    tables.add_relation(self.reader, "rows")
                    tables.add_repeats(select_repeats_sql("repeats") if summary.counts_repeats else "")
                    tables.add_open_traces([str(path)] if path.exists() else [])
                    tables.merge(whole=False)
                    found = connection.execute(f"FROM {MERGED_TRACES}").to_arrow_table()
                if found.num_rows:
                    pq.write_table(build_open_rows(found, summary, "s"), path)
        assert found is not None
        return found


def _clear(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    for name in columns:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pa.nulls(rows.num_rows, rows.schema.field(place).type))
    return rows
