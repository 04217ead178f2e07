"""Spans judged in this process, without a lake: the same SQL and the same policies as a cycle's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from neve.lake.tables import iceberg_schema
from neve.model.signals import Signal
from neve.model.tables import SPANS
from neve.otlp import Intake, decode
from neve.tail.batches import traces_of
from neve.tail.config import SourceConfig
from neve.tail.mapping import map_columns
from neve.tail.policy.decide import Judge
from neve.tail.policy.state import LimitState
from neve.tail.policy.verdicts import DROPPED, SAMPLED
from neve.tail.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.policy.tree import PolicySet

WORDS = {SAMPLED: "sampled", DROPPED: "dropped"}
FAR = 4 * 10**18  # nanoseconds since 1970: no span is refused for being of the future


class Spans:
    """Spans of OTLP messages, as the table has them."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        decoded = decode(Signal.TRACES, messages, Intake("acme", FAR))
        self.rejected = len(decoded.rejected)
        self.rows = pa.Table.from_batches([decoded.batch])
        self.columns = map_columns(iceberg_schema(SPANS), SourceConfig())
        self._connection = duckdb.connect()
        self._connection.register("rows", self.rows)

    @property
    def trace_ids(self) -> set[str]:
        """The ids of the traces that are in the table, in hex."""
        return {one.hex() for one in self.rows.column("trace_id").to_pylist()}

    def judge(self, policies: PolicySet) -> dict[str, tuple[str, str | None]]:
        """What is decided about each trace by its id in hex, and by which policy."""
        summary = Summary(policies, "event")
        spans = f"(SELECT {self.columns.select(summary.span_columns)} FROM rows)"
        found = self._connection.execute(summary.of_spans(spans)).to_arrow_table()
        traces = traces_of(found, summary, np.zeros(found.num_rows, np.int64))
        verdicts, _state = Judge(policies).judge(traces, LimitState())
        names = [policy.name for policy in policies.policies]
        return {
            trace_id.hex(): (WORDS.get(int(decision), "not_sampled"), names[place] if place >= 0 else None)
            for trace_id, decision, place in zip(
                found.column("trace_id").to_pylist(), verdicts.decision, verdicts.policy, strict=True
            )
        }
