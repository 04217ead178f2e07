"""The table of judged traces, from which everything that a simulation tells is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.model.tail import DECISIONS
from neve.tail.decisions import SAMPLED
from neve.tail.policy.traces import MAX_THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import duckdb
    import pyarrow as pa

    from neve.tail.simulate.period import Period

# A column and how it is made from a row of decisions. `weight` is how many traces one stands for before these policies
# are asked: 1 but for those that their sender sampled. With it the truth and the estimate speak of the same traces.
COLUMNS = {
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
START = "start_time_unix_nano"
READ = (
    *("organization_id", "trace_id", "decision", "policy", "span_count", "has_error", "service_name", "operation_name"),
    *("duration_ms", "head_threshold", "adjusted_count", START),
)


@dataclass(frozen=True)
class Judged:
    """A table of judged traces, by its name in a DuckDB."""

    connection: duckdb.DuckDBPyConnection
    name: str

    def begin(self) -> None:
        """Make the table, empty."""
        self._add(self.connection, f"CREATE TABLE {self.name} AS", DECISIONS.schema.empty_table(), "true")

    def fill(self, batches: Iterable[pa.Table], period: Period) -> Iterator[int]:
        """Add rows of decisions as they come, those of traces that count; how many came, after each batch."""
        # Batches come from a statement of this connection that is still running, so they go in through another one.
        writer, done = self.connection.cursor(), 0
        try:
            for batch in batches:
                self._add(writer, f"INSERT INTO {self.name}", batch, period.holds(START))
                done += batch.num_rows
                yield done
        finally:
            writer.close()

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT; there are few where it groups by what few traces differ in."""
        return self.connection.execute(sql).fetchall()

    @staticmethod
    def _add(writer: duckdb.DuckDBPyConnection, make: str, batch: pa.Table, where: str) -> None:
        listed = ", ".join(f"{made} AS {name}" for name, made in COLUMNS.items())
        writer.register("batch", batch.select(READ))
        writer.execute(f"{make} SELECT {listed} FROM batch WHERE {where}")
        writer.unregister("batch")
