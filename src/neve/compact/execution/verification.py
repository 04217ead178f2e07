"""Verify a rewrite: the number of rows and an order-independent hash of them must be the same before and after."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

import duckdb
import pyarrow as pa
from pyiceberg.types import ListType, MapType, StructType

from neve.compact.execution.rewritten_group import Fingerprint
from neve.compact.planning.context import RECORD_ID
from neve.lake.write.encoding import decode_dictionaries
from neve.lake.write.sort_columns import find_sort_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder


Verify = Literal["sample", "full", "count"]

SAMPLED = 4
HASHED_AT_ONCE = 50_000


def choose_hashed_columns(schema: Schema, order: SortOrder, verify: Verify) -> tuple[str, ...]:
    """Return the columns that a fingerprint covers.

    A sample is `record_id`, which is a hash of the whole record already, or a few plain columns with the sort columns.
    """
    if verify == "count":
        return ()
    if verify == "full":
        return tuple(field.name for field in schema.fields)
    names = [field.name for field in schema.fields if not isinstance(field.field_type, StructType | ListType | MapType)]
    first = [RECORD_ID] if RECORD_ID in names else []
    return tuple(dict.fromkeys([*first, *find_sort_columns(schema, order), *names]))[:SAMPLED]


def fingerprint_rows(rows: pa.Table, columns: Sequence[str]) -> Fingerprint:
    """Return the fingerprint of some rows."""
    if not columns or not rows.num_rows:
        return Fingerprint(rows.num_rows)
    # Registered by name: otherwise DuckDB would search for a variable of that name, also in other frames.
    connection = _connect()
    connection.register("moved", rows.select(list(columns)))
    listed = ", ".join(f'"{name}"' for name in columns)
    try:
        [found] = connection.execute(f"SELECT count(*), sum(hash({listed})::HUGEINT) FROM moved").fetchall()  # noqa: S608
    finally:
        connection.unregister("moved")
    return Fingerprint(int(found[0]), int(found[1]))


class FingerprintCounter:
    """A fingerprint that is computed piece by piece.

    Small pieces are hashed together, because each call has a fixed cost.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.rows = 0
        self._columns = list(columns)
        self._known = Fingerprint()
        self._waiting: list[pa.Table] = []

    def add(self, piece: pa.Table) -> None:
        """Add rows."""
        self.rows += piece.num_rows
        if self._columns:
            self._waiting.append(decode_dictionaries(piece.select(self._columns)))
            if sum(one.num_rows for one in self._waiting) >= HASHED_AT_ONCE:
                self._hash()

    def end(self) -> Fingerprint:
        """Return the fingerprint of all rows."""
        self._hash()
        return Fingerprint(self.rows, self._known.hash)

    def _hash(self) -> None:
        if self._waiting:
            self._known += fingerprint_rows(pa.concat_tables(self._waiting), self._columns)
            self._waiting = []


def sum_fingerprints(pieces: Iterable[Fingerprint]) -> Fingerprint:
    """Return the sum of fingerprints."""
    return sum(pieces, Fingerprint())


@cache
def _connect() -> duckdb.DuckDBPyConnection:
    """Return a connection, one per process: a task is one thread of one core."""
    return duckdb.connect(config={"threads": 1})
