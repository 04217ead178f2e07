"""What stays the same when rows are moved: their number, and a hash of them that does not depend on their order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import duckdb
import pyarrow as pa
from pyiceberg.types import ListType, MapType, StructType

from neve.compact.facts import RECORD_ID
from neve.lake.encoding import plain
from neve.lake.layout import sort_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

Verify = Literal["sample", "full", "count"]

SAMPLED = 4
HASHED_AT_ONCE = 50_000


@dataclass(frozen=True)
class Fingerprint:
    """Rows counted and hashed; the fingerprints of two sets of rows add up to that of both."""

    rows: int = 0
    hash: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(self.rows + other.rows, self.hash + other.hash)


def hashed_columns(schema: Schema, order: SortOrder, verify: Verify) -> tuple[str, ...]:
    """The columns that a fingerprint looks at.

    A sample is `record_id`, which is a hash of the whole record already, or a few plain columns, with those that the
    rows are sorted by.
    """
    if verify == "count":
        return ()
    if verify == "full":
        return tuple(field.name for field in schema.fields)
    names = [field.name for field in schema.fields if not isinstance(field.field_type, StructType | ListType | MapType)]
    first = [RECORD_ID] if RECORD_ID in names else []
    return tuple(dict.fromkeys([*first, *sort_columns(schema, order), *names]))[:SAMPLED]


def fingerprint(rows: pa.Table, columns: Sequence[str]) -> Fingerprint:
    """The fingerprint of some rows."""
    if not columns or not rows.num_rows:
        return Fingerprint(rows.num_rows)
    # Registered by name: DuckDB would look for a variable of that name otherwise, also in other frames.
    connection = _engine()
    connection.register("moved", rows.select(list(columns)))
    listed = ", ".join(f'"{name}"' for name in columns)
    try:
        [found] = connection.execute(f"SELECT count(*), sum(hash({listed})::HUGEINT) FROM moved").fetchall()  # noqa: S608
    finally:
        connection.unregister("moved")
    return Fingerprint(int(found[0]), int(found[1]))


class Counting:
    """A fingerprint that grows piece by piece; small pieces are hashed together, because each time costs the same."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.rows = 0
        self._columns = list(columns)
        self._known = Fingerprint()
        self._waiting: list[pa.Table] = []

    def add(self, piece: pa.Table) -> None:
        """More rows."""
        self.rows += piece.num_rows
        if self._columns:
            self._waiting.append(plain(piece.select(self._columns)))
            if sum(one.num_rows for one in self._waiting) >= HASHED_AT_ONCE:
                self._hash()

    def end(self) -> Fingerprint:
        """The fingerprint of all rows."""
        self._hash()
        return Fingerprint(self.rows, self._known.hash)

    def _hash(self) -> None:
        if self._waiting:
            self._known += fingerprint(pa.concat_tables(self._waiting), self._columns)
            self._waiting = []


def total(pieces: Iterable[Fingerprint]) -> Fingerprint:
    """All of them together."""
    return sum(pieces, Fingerprint())


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One for each process: a task is one thread of one core."""
    return duckdb.connect(config={"threads": 1})
