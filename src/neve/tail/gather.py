"""The first half of a cycle: new spans are summed up, and what is known of their traces is put with them.

All of it is SQL in a DuckDB that works through a file, so that memory does not grow with the number of traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.duck import literal
from neve.lake.duck_files import file_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb

    from neve.tail.news import Chunk
    from neve.tail.reading import SpanReader
    from neve.tail.summary import Summary

NEW, OPEN, KNOWN = "new_traces", "open_before", "known"
MERGED, LATE = "merged", "late"
# What is remembered of a decision, for when more spans of its trace come.
DECIDED = {
    "decision": "VARCHAR",
    "policy": "VARCHAR",
    "revision": "INTEGER",
    "adjusted_count": "DOUBLE",
    "threshold": "VARCHAR",
    "taken_by": "VARCHAR",
    "policies_hash": "VARCHAR",
}
SLICE_ROWS = 150_000  # summaries that are merged at once: what needs memory for each trace
_TRACE = "(organization_id, trace_id)"  # two organizations may have traces of one id


@dataclass(frozen=True)
class Gathering:
    """One cycle's tables: `new_traces`, then `merged` (undecided) and `late` (decided before)."""

    connection: duckdb.DuckDBPyConnection
    summary: Summary

    def begin(self) -> None:
        """Make the tables, empty."""
        kinds = self._kinds()
        for name in (NEW, OPEN):
            self.connection.execute(f"CREATE TABLE {name} ({', '.join(kinds)})")
        decided = [f"{name} {kind}" for name, kind in DECIDED.items()]
        self.connection.execute(f"CREATE TABLE {KNOWN} ({', '.join([*kinds, *decided])})")

    def sum_up(self, reader: SpanReader, chunk: Chunk) -> None:
        """Add the summaries of a lot of files."""
        spans = reader.spans(chunk.files, self.summary.span_columns)
        self.connection.execute(f"INSERT INTO {NEW} BY NAME {self.summary.of_spans(spans)}")

    def sum_up_rows(self, reader: SpanReader, relation: str) -> None:
        """Add the summaries of rows that this DuckDB has under a name."""
        spans = reader.spans_of(relation, self.summary.span_columns)
        self.connection.execute(f"INSERT INTO {NEW} BY NAME {self.summary.of_spans(spans)}")

    def take(self, paths: Sequence[str]) -> None:
        """Add summaries that others made, from files."""
        if paths:
            self.connection.execute(f"INSERT INTO {NEW} BY NAME SELECT * FROM read_parquet({file_list(paths)})")

    def recall_open(self, paths: Sequence[str]) -> None:
        """Add the traces that were open after the last cycle."""
        if paths:
            self.connection.execute(
                f"INSERT INTO {OPEN} BY NAME SELECT {self.stored()} FROM read_parquet({file_list(paths)})"
            )

    def recall_known(self, paths: Sequence[str], selector: str, before_cycle: int, since_us: int | None) -> None:
        """Add what was decided before about the traces that have new spans: the newest decision of each.

        What was decided before `since_us` is forgotten. A trace that is open again goes on as that.
        """
        if not paths:
            return
        since = "" if since_us is None else f"AND epoch_us(decided_at) >= {since_us} "
        rows = (
            f"SELECT {self.stored()}, {', '.join(DECIDED)} "
            f"FROM read_parquet({file_list(paths)}) WHERE selector = {literal(selector)} AND cycle < {before_cycle} "
            f"{since}AND {_TRACE} IN (SELECT {_TRACE} FROM {NEW}) AND {_TRACE} NOT IN (SELECT {_TRACE} FROM {OPEN})"
        )
        newest = "row_number() OVER (PARTITION BY organization_id, trace_id ORDER BY cycle DESC, revision DESC) = 1"
        self.connection.execute(f"INSERT INTO {KNOWN} BY NAME {rows} QUALIFY {newest}")

    @property
    def new_spans(self) -> int:
        """How many spans were summed up."""
        return self._one(f"SELECT coalesce(sum(span_count), 0)::BIGINT FROM {NEW}")

    def merge(self, *, whole: bool) -> None:
        """Put together what is new and what was known: into `merged` what is undecided, into `late` the rest.

        `whole`: the new summaries are of all spans, those that were seen before among them.
        """
        count = self._one(f"SELECT (SELECT count(*) FROM {NEW}) + (SELECT count(*) FROM {OPEN})")
        slices = max(1, -(-count // SLICE_ROWS))
        for place in range(slices):
            mine = f"hash(trace_id) % {slices} = {place}"
            every = f"(SELECT * FROM {NEW} WHERE {mine} UNION ALL SELECT * FROM {OPEN} WHERE {mine})"
            undecided = f"FROM {every} AS t ANTI JOIN {KNOWN} USING (organization_id, trace_id)"
            make = f"CREATE TABLE {MERGED} AS" if place == 0 else f"INSERT INTO {MERGED}"
            self.connection.execute(f"{make} {self.summary.of_summaries(f'(SELECT t.* {undecided})')}")
            self._merge_late(mine, whole=whole, first=place == 0)
        for name in (NEW, OPEN):
            self.connection.execute(f"DROP TABLE {name}")

    def _merge_late(self, mine: str, *, whole: bool, first: bool) -> None:
        known = f"{KNOWN}.organization_id = n.organization_id AND {KNOWN}.trace_id = n.trace_id"
        new = f"(SELECT n.* FROM (SELECT * FROM {NEW} WHERE {mine}) AS n SEMI JOIN {KNOWN} ON {known})"
        kept = ", ".join(self.summary.columns)
        both = new if whole else f"({new[1:-1]} UNION ALL SELECT {kept} FROM {KNOWN} WHERE {mine})"
        make = f"CREATE TABLE {LATE} AS" if first else f"INSERT INTO {LATE}"
        self.connection.execute(
            f"{make} SELECT n.*, {', '.join(f'k.{name}' for name in DECIDED)}, "
            f"n.span_count - k.span_count AS late_spans FROM ({self.summary.of_summaries(both)}) AS n "
            f"JOIN {KNOWN} AS k USING (organization_id, trace_id) WHERE n.span_count > k.span_count"
        )

    def _kinds(self) -> Iterable[str]:
        numbers = dict.fromkeys(self.summary.columns, "BIGINT")
        others = {
            "organization_id": "VARCHAR",
            "trace_id": "BLOB",
            "has_error": "BOOLEAN",
            "root": "STRUCT(place BIGINT, service VARCHAR, operation VARCHAR)",
        }
        keys = {name: "VARCHAR[]" for name in self.summary.columns if name.startswith("key_")}
        return [f"{name} {kind}" for name, kind in {**numbers, **others, **keys}.items()]

    def stored(self) -> str:
        """A summary from the columns of the lake's own tables."""
        columns = {
            "start_ns": "start_time_unix_nano",
            "end_ns": "end_time_unix_nano",
            "first_us": "epoch_us(first_seen)",
            "last_us": "epoch_us(last_seen)",
            "root_us": "epoch_us(root_seen)",
            "root": "{place: root_order, service: service_name, operation: operation_name}",
            **{f"facts_{word}": f"facts[{word + 1}]" for word in range(self.summary.words)},
            **{f"key_{place}": f"sampling_keys[{place + 1}]" for place in range(len(self.summary.policies.keys))},
        }
        return ", ".join(f"{columns[name]} AS {name}" if name in columns else name for name in self.summary.columns)

    def _one(self, sql: str) -> int:
        row = self.connection.execute(sql).fetchone()
        return int(row[0]) if row else 0
