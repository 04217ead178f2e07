"""Spark task that rebuilds one root file: its kept records with all child rows, renumbered, as parts of their own.

It reads the decisions that were written for the window, gives the kept records ids that fit together, and writes
the adjusted count of each as an attribute.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from neve.errors import InvalidWeight
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otap.folder import part_path
from neve.otap.part_reader import CHUNK_ROWS, PartReader
from neve.otap.star_rows import NONE, ids_of, to_id_column
from neve.otap.tables import RESOURCE_ATTRS, SCOPE_ATTRS, STARS, is_attrs
from neve.otap.writer import conform_to_schema, put_file, write_file
from neve.reservoir.otap.root_files import WITHOUT_ID, times_of
from neve.reservoir.weights import ATTRIBUTE, DOUBLE, STRING, attributes_of, is_valid_weight, parse_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.lake.config import S3Config
    from neve.otap.part_reader import PartFiles
    from neve.otap.star_rows import Ids, StarRows
    from neve.reservoir.otap.root_files import RootFile
    from neve.reservoir.windows import Window


@dataclass(frozen=True)
class Decisions:
    """Decisions about a window, in the files that they were written to."""

    path: str
    s3: S3Config

    def count(self) -> int:
        """Return the number of records to keep."""
        return int(self._rows.count_rows())

    def about(self, part: str) -> KeptRecords:
        """Return the decisions about a part; a decision without a part is about the only one."""
        mine = (ds.field("part") == part) | ds.field("part").is_null()
        rows = self._rows.to_table(filter=mine).sort_by("id")
        return KeptRecords(ids_of(rows.column("id")), rows)

    @cached_property
    def _rows(self) -> ds.Dataset:
        filesystem, inner = resolve_filesystem(self.path, self.s3)
        return ds.dataset(inner, filesystem=filesystem, format="parquet")


@dataclass(frozen=True)
class KeptRecords:
    """Decisions about the kept records of a part, in the order of their ids."""

    ids: Ids
    rows: pa.Table

    def holds(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Return a mask of the ids that are kept."""
        return np.isin(ids, self.ids)

    def about(self, ids: Ids) -> pa.Table:
        """Return the decisions about kept records."""
        return self.rows.take(pa.array(np.searchsorted(self.ids, ids)))


LARGEST_SHARED = (1 << 16) - 1  # the largest id of a resource or a scope


@dataclass(frozen=True)
class Numbering:
    """Rules for new ids and for the attribute of the adjusted count."""

    ids: Literal["keep", "renumber"] = "keep"
    adjusted_count: Literal["double", "string"] = "double"

    def tables(self, star: StarRows, adjusted: npt.NDArray[np.float64], *, repaired: bool) -> dict[str, pa.Table]:
        """Return the tables of kept records; `adjusted` is the adjusted count of each.

        If ids of resources had to be repaired, the repaired ids do not fit the column, and new ids are assigned.
        """
        old = ids_of(star.rows.column("id"))
        new = np.arange(len(old)) if self.ids == "renumber" else _complete_ids(old)
        renumber = self.ids == "renumber" or repaired
        resources, scopes = (_SharedIds.of(ids, renumber=renumber) for ids in (star.resources, star.scopes))
        tables = {
            star.root: _root(star.rows, new, resources.new, scopes.new),
            RESOURCE_ATTRS: _sort_rows(RESOURCE_ATTRS, resources.move_rows(star.child(RESOURCE_ATTRS))),
            SCOPE_ATTRS: _sort_rows(SCOPE_ATTRS, scopes.move_rows(star.child(SCOPE_ATTRS))),
        }
        known = {star.root: (old, new)}
        for child in STARS[star.root].children:
            if not child.is_shared:
                rows, ids = self._child(star.child(child.table), *known[child.parent])
                known[child.table] = ids
                tables[child.table] = rows
        own = attributes_of(star.root)
        tables[own] = self._add_counts(own, tables[own], new, adjusted)
        return {
            table: _sort_rows(table, rows) if is_attrs(table) else conform_to_schema(table, rows)
            for table, rows in tables.items()
            if rows.num_rows
        }

    def _child(self, rows: pa.Table, old: Ids, new: Ids) -> tuple[pa.Table, tuple[Ids, Ids]]:
        """Return renumbered child rows, and their own ids before and after."""
        rows = _set_column(rows, "parent_id", pa.array(_map_ids(ids_of(rows.column("parent_id")), old, new)))
        if "id" not in rows.column_names:
            return rows, (old[:0], new[:0])
        before = ids_of(rows.column("id"))
        after = before
        if self.ids == "renumber":
            after = np.where(before == NONE, NONE, np.cumsum(before != NONE) - 1)
            rows = _set_column(rows, "id", to_id_column(after, pa.uint32()))
        return rows, (before, after)

    def _add_counts(self, table: str, rows: pa.Table, ids: Ids, adjusted: npt.NDArray[np.float64]) -> pa.Table:
        """Return attributes with the adjusted count of each record, in place of an earlier count."""
        others = rows.filter(pc.not_equal(rows.column("key"), ATTRIBUTE))
        text = self.adjusted_count == "string"
        counts = pa.array([repr(float(one)) for one in adjusted]) if text else pa.array(adjusted, pa.float64())
        columns = {
            "parent_id": pa.array(ids, pa.uint32()),
            "key": pa.array([ATTRIBUTE] * len(ids)),
            "type": pa.array(np.full(len(ids), STRING if text else DOUBLE, np.uint8)),
            "str" if text else "double": counts,
        }
        return pa.concat_tables([conform_to_schema(table, others), conform_to_schema(table, pa.table(columns))])


@dataclass(frozen=True)
class _SharedIds:
    """Resources or scopes: their ids in the records before and after."""

    old: Ids
    new: Ids

    @classmethod
    def of(cls, old: Ids, *, renumber: bool) -> _SharedIds:
        has = old != NONE
        if not has.any() or (not renumber and old.max() <= LARGEST_SHARED):
            return cls(old, old)
        new = old.copy()
        new[has] = np.unique(old[has], return_inverse=True)[1]
        return cls(old, new)

    def move_rows(self, rows: pa.Table) -> pa.Table:
        """Return their attributes under their new ids."""
        return _set_column(rows, "parent_id", pa.array(_map_ids(ids_of(rows.column("parent_id")), self.old, self.new)))


def _complete_ids(ids: Ids) -> Ids:
    """Assign new ids, after the existing ones, to records without an id: their new attribute needs one."""
    missing = ids == NONE
    return np.where(missing, max(int(ids.max(initial=NONE)), NONE) + np.cumsum(missing), ids)


def _map_ids(ids: Ids, old: Ids, new: Ids) -> Ids:
    """Map old ids to new ones.

    Every id must be among the old ones.
    """
    if not len(ids):
        return ids
    order = np.argsort(old, kind="stable")
    return new[order[np.searchsorted(old[order], ids)]]


def _root(rows: pa.Table, ids: Ids, resources: Ids, scopes: Ids) -> pa.Table:
    rows = _set_column(rows, "id", pa.array(ids, pa.uint32()))
    for name, shared in (("resource", resources), ("scope", scopes)):
        struct = rows.column(name).combine_chunks()
        parts = dict(zip(struct.type.names, struct.flatten(), strict=True)) | {"id": to_id_column(shared, pa.uint16())}
        fields = list(struct.type)
        children = [parts[field.name] for field in fields]
        rebuilt = pa.StructArray.from_arrays(children, fields=fields, mask=struct.is_null())
        rows = _set_column(rows, name, rebuilt)
    return rows


def _set_column(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, column)


def _sort_rows(table: str, rows: pa.Table) -> pa.Table:
    rows = conform_to_schema(table, rows)
    return rows.take(pc.sort_indices(rows, [("parent_id", "ascending"), ("key", "ascending")]))


DECISIONS = "decisions"
# If each record of a batch has a resource of its own, no more fit: ids of resources have 16 bits.
MOST_REPAIRED = LARGEST_SHARED + 1 - CHUNK_ROWS


@dataclass(frozen=True)
class Piece:
    """A root file of a window, with its index among the window's files, and the files of its part."""

    file: RootFile
    ordinal: int
    part: PartFiles


@dataclass(frozen=True)
class Rebuilt:
    """Result of a piece: files under the staging folder, by table, and the number of records."""

    files: tuple[tuple[str, str], ...]
    records: int
    kept: int
    bytes: int
    counted_as_one: int
    guessed: int


@dataclass(frozen=True)
class Rebuild:
    """Rebuild of pieces of a window.

    `decisions` is the location of the decisions, or empty if all records pass.
    """

    signal: str
    window: Window
    generation: int
    staging: str
    decisions: str
    method: str
    numbering: Numbering
    weights: Literal["adjusted_count", "one"]
    invalid_weights: Literal["refuse", "one"]
    rows_per_file: int
    s3: S3Config

    def __call__(self, piece: Piece) -> Rebuilt:
        """Rebuild one piece."""
        kept = Decisions(self.decisions, self.s3).about(piece.file.part) if self.decisions else None
        reader = PartReader(piece.part, self.s3)
        files: list[tuple[str, str]] = []
        records = rows = size = ones = 0

        def keep(batch: pa.Table, start: int) -> npt.NDArray[np.bool_]:
            nonlocal records
            times = times_of(batch, self.signal)
            mine = (times >= self.window.start_ns) & (times < self.window.end_ns)
            records += int(mine.sum())
            return mine if kept is None else mine & kept.holds(_decision_ids(batch, start, piece.ordinal))

        most = self.rows_per_file if piece.part.offsets is None else min(self.rows_per_file, MOST_REPAIRED)
        for number, (star, places) in enumerate(reader.select(self.signal, piece.file.path, keep, most)):
            part = self._part(piece, number)
            if kept is None:
                adjusted, wrong = self._weights(star)
                ones += wrong
            else:
                decided = kept.about(_decision_ids(star.rows, places, piece.ordinal))
                adjusted = np.asarray(decided.column("adjusted"))
            tables = self.numbering.tables(star, adjusted, repaired=piece.part.offsets is not None)
            if kept is not None:
                files.append((DECISIONS, self._write_decisions(decided, tables[self.signal].column("id"), part)))
            written = self._write(tables, part)
            files += [(table, path) for table, path, _bytes in written]
            size += sum(each for _table, _path, each in written)
            rows += star.rows.num_rows
        return Rebuilt(tuple(files), records, rows, size, ones, reader.guessed)

    def _part(self, piece: Piece, number: int) -> str:
        """Return the id of a new part.

        It depends on the window and the file, so that a repeated run gives the same id.
        """
        name = f"{self.signal}/{self.window}/{self.window.seconds}/{piece.file.path}/{number}"
        return str(uuid5(NAMESPACE_URL, name))

    def _file(self, part: str, table: str) -> str:
        return str(uuid5(NAMESPACE_URL, f"{part}/{table}/{self.generation}"))

    def _write(self, tables: dict[str, pa.Table], part: str) -> list[tuple[str, str, int]]:
        filesystem, base = resolve_filesystem(self.staging, self.s3)
        millis = self.window.start_ns // 1_000_000
        written = []
        for table, rows in tables.items():
            path = part_path("", table, part, millis, self._file(part, table))
            written.append((table, path, write_file(filesystem, base + path, table, rows, part).bytes))
        return written

    def _write_decisions(self, decided: pa.Table, ids: pa.ChunkedArray, part: str) -> str:
        """Write decisions with the ids of records in the sample, and the original ids beside them."""
        count = decided.num_rows
        rows = pa.table(
            {
                "window_start": pa.array([self.window.start] * count, pa.timestamp("us", "UTC")),
                "window_end": pa.array([self.window.end] * count, pa.timestamp("us", "UTC")),
                "group": decided.column("group"),
                "part": pa.array([part] * count),
                "id": ids.cast(pa.int64()),
                "source_part": decided.column("part"),
                "source_id": decided.column("id"),
                "weight": decided.column("weight"),
                "adjusted": decided.column("adjusted"),
                "method": pa.array([self.method] * count),
            }
        )
        filesystem, base = resolve_filesystem(self.staging, self.s3)
        path = f"/_neve/decisions/{self.signal}/{self.window}-{self._file(part, DECISIONS)}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd")
        put_file(filesystem, base + path, sink.getvalue())
        return path

    def _weights(self, star: StarRows) -> tuple[npt.NDArray[np.float64], int]:
        """Return the weights of records, 1 by default, and the number of records with an invalid weight."""
        attributes = star.child(attributes_of(self.signal))
        attributes_with_count = attributes.filter(pc.equal(attributes.column("key"), ATTRIBUTE))
        if not attributes_with_count.num_rows or self.weights == "one":
            return np.ones(star.rows.num_rows), 0
        values = parse_numbers(attributes_with_count)
        wrong = ~is_valid_weight(values)
        if wrong.any() and self.invalid_weights == "refuse":
            row = attributes_with_count.slice(int(np.flatnonzero(wrong)[0]), 1).to_pylist()[0]
            value = next((row[name] for name in ("str", "int", "double", "bool") if row[name] is not None), None)
            raise InvalidWeight(
                f"record {row['parent_id']} of {self.signal} has {ATTRIBUTE} = {value!r}, "
                "expected a finite number above 0",
                hint="set reservoir.invalid_weights: one to count such records as 1",
            )
        ids = ids_of(star.rows.column("id"))
        order = np.argsort(ids, kind="stable")
        places = order[np.searchsorted(ids[order], ids_of(attributes_with_count.column("parent_id")))]
        weights = np.zeros(star.rows.num_rows)
        np.maximum.at(weights, places, np.where(wrong, 1.0, values))
        return np.where(weights == 0, 1.0, weights), len(np.unique(places[wrong]))


def _decision_ids(rows: pa.Table, places: int | Ids, ordinal: int) -> Ids:
    """Return the ids of records in decisions: their own, else a negative one from their place in the file."""
    ids = ids_of(rows.column("id"))
    at = np.arange(places, places + len(ids)) if isinstance(places, int) else places
    return np.where(ids == NONE, -1 - ordinal * WITHOUT_ID - at, ids)
