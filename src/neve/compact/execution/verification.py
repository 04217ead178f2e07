"""Verify a rewrite: the number of rows and an order-independent hash of them must be the same before and after."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import pyarrow as pa
from pyiceberg.types import ListType, MapType, StructType

from neve.compact.plan import Executor
from neve.compact.planning.context import RECORD_ID
from neve.errors import LakeError
from neve.lake.write.encoding import decode_dictionaries
from neve.lake.write.layout import find_sort_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

    from neve.compact.plan import Group
    from neve.lake.write.data_file_json import DataFileJson


Verify = Literal["sample", "full", "count"]

SAMPLED = 4
HASHED_AT_ONCE = 50_000


@dataclass(frozen=True)
class Fingerprint:
    """Row count and hash. The sum of the fingerprints of two sets of rows is the fingerprint of both."""

    rows: int = 0
    hash: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(self.rows + other.rows, self.hash + other.hash)


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


class RowsDiffer(LakeError):
    """Raised when the written rows differ from the read rows. Nothing is published then."""


@dataclass(frozen=True)
class RewrittenGroup:
    """The new files of a group, not yet in the table."""

    group_id: str
    executor: Executor
    added: tuple[DataFileJson, ...]
    before: Fingerprint
    after: Fingerprint
    seconds: float
    cpu_seconds: float = 0.0
    removed_deletes: tuple[DataFileJson, ...] = ()
    has_equality_deletes: bool = False
    duplicates: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of the new files."""
        return sum(int(file["file-size-in-bytes"]) for file in self.added)

    def verify(self, group: Group) -> RewrittenGroup:
        """Return the group if no row was lost, added or changed. Raises `RowsDiffer` otherwise."""
        if self.before != self.after:
            raise RowsDiffer(
                f"group {self.group_id} of {group.partition.label or 'the table'}: read {self.before.rows} rows "
                f"(hash {self.before.hash:x}), wrote {self.after.rows} (hash {self.after.hash:x})",
                hint="nothing was published, and the files that were read are untouched; this is a bug in Neve",
            )
        return self

    def as_document(self) -> dict[str, Any]:
        """Return the form for the journal."""
        return {
            **vars(self),
            "executor": self.executor.value,
            "added": list(self.added),
            "removed_deletes": list(self.removed_deletes),
            "before": _to_document(self.before),
            "after": _to_document(self.after),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> RewrittenGroup:
        """Return the group of a document of the journal."""
        return cls(
            **{
                **document,
                "executor": Executor(document["executor"]),
                "added": tuple(document["added"]),
                "removed_deletes": tuple(document["removed_deletes"]),
                "before": _from_document(document["before"]),
                "after": _from_document(document["after"]),
            }
        )


def _to_document(fingerprint: Fingerprint) -> dict[str, Any]:
    # A hash has more bits than a JSON number reliably keeps.
    return {"rows": fingerprint.rows, "hash": str(fingerprint.hash)}


def _from_document(document: Mapping[str, Any]) -> Fingerprint:
    return Fingerprint(document["rows"], int(document["hash"]))
