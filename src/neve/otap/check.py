"""Validity check of an OTAP folder: columns, attributes and references of every table in every part.

Columns must be those of their table. Attributes must be sorted, unique for each parent, with values in the column
of their type. Every child must have its parent. Files are read piece by piece, and only the columns that are
checked. Only the ids of a part are held in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError
from neve.otap.check_report import Findings, Kind, Report
from neve.otap.folder import list_folder, list_parts, select_part
from neve.otap.ids import (
    EXPORTER,
    SPECIFICATION,
    Runs,
    distinct_sorted,
    find_row_offsets,
    find_unmatched,
    infer_offsets,
)
from neve.otap.parquet import count_nulls, open_file, read_part_id
from neve.otap.part_reader import extract_ids
from neve.otap.star_rows import NONE, ids_of
from neve.otap.tables import DEFAULTS, RESOURCE_ATTRS, SCOPE_ATTRS, STARS, is_attrs, schema
from neve.otap.writer import find_first_unsorted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow.fs as pafs
    import pyarrow.parquet as pq

    from neve.otap.folder import Listing, OtapFile
    from neve.otap.ids import Ints, Offsets
    from neve.otap.tables import Star

    IdColumns = tuple[Ints, Ints, Ints]  # of the rows, of their resources, of their scopes


def check_columns(table: str, found: pa.Schema, path: str, findings: Findings) -> bool:
    """Report missing columns and columns of a wrong type, and return whether there are none."""
    before = findings.count
    for column in schema(table):
        if column.name in found.names:
            for problem in _misfits(column.name, found.field(column.name).type, column.type):
                findings.add(Kind.WRONG_TYPE, table, f"{problem} in {path}")
        elif not (column.nullable or (table, column.name) in DEFAULTS):
            findings.add(Kind.COLUMN_MISSING, table, f"{column.name} in {path}")
    return findings.count == before


def check_nulls(table: str, parquet: pq.ParquetFile, path: str, findings: Findings) -> None:
    """Report nulls in required columns, from the footer. The columns of the file must have passed `check_columns`."""
    for column in schema(table):
        if not column.nullable and column.name in parquet.schema_arrow.names and (table, column.name) not in DEFAULTS:
            kind = Kind.NO_PARENT if column.name == "parent_id" else Kind.NO_VALUE
            findings.add(kind, table, f"{column.name} in {path}", count_nulls(parquet, column.name))


def _misfits(place: str, found: pa.DataType, wanted: pa.DataType) -> Iterable[str]:
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        for column in wanted:
            if found.get_field_index(column.name) >= 0:
                yield from _misfits(f"{place}.{column.name}", found.field(column.name).type, column.type)
    elif not _fits(found.value_type if pa.types.is_dictionary(found) else found, wanted):
        yield f"{place} is {found}, expected {wanted}"


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column may have a type: ids may be narrower, texts of any layout, times in a zone."""
    kinds = pa.types
    if kinds.is_fixed_size_binary(wanted) and kinds.is_fixed_size_binary(found):
        return bool(found == wanted)
    if kinds.is_timestamp(wanted):
        return bool(kinds.is_timestamp(found) and found.unit == "ns")
    if kinds.is_duration(wanted):  # Parquet has no such type: without Arrow's own schema it is a whole number
        return bool(found == wanted or found == pa.int64())
    families = (kinds.is_unsigned_integer, kinds.is_signed_integer, _is_text, _is_bytes)
    family = next((is_member for is_member in families if is_member(wanted)), None)
    return bool(family(found) if family else found == wanted)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_fixed_size_binary(kind) or kind in (pa.binary(), pa.large_binary(), pa.binary_view())


# The column of a value, by its type.
VALUE_COLUMNS = {1: "str", 2: "int", 3: "double", 4: "bool", 5: "ser", 6: "ser", 7: "bytes"}
TYPES = (0, *VALUE_COLUMNS)
VALUES = ("type", *dict.fromkeys(VALUE_COLUMNS.values()))


@dataclass
class AttrsCheck:
    """Check of the attributes of one table of a part, piece by piece.

    It stores eight bytes of each attribute: its parent and key.
    """

    table: str
    findings: Findings
    _keys: dict[str, int] = field(default_factory=dict)
    _seen: list[Ints] = field(default_factory=list)
    _last: tuple[str, pa.Table] | None = None

    def add(self, rows: pa.Table, path: str) -> None:
        """Check the next rows of a file, with parent, key and value."""
        rows = rows.set_column(rows.column_names.index("key"), "key", rows.column("key").cast(pa.string()))
        self._check_order(rows, path)
        check_values(self.table, rows, path, self.findings)
        parents, codes = ids_of(rows.column("parent_id")), self._codes(rows.column("key"))
        self._seen.append((parents << 32 | codes)[parents != NONE])

    def finish(self) -> Ints:
        """Report keys that a parent has more than once, and return the distinct parents."""
        pairs = np.sort(np.concatenate([np.zeros(0, np.int64), *self._seen]))
        again = pairs[1:][pairs[1:] == pairs[:-1]]
        if len(again):
            key = list(self._keys)[int(again[0]) & 0xFFFFFFFF]
            self.findings.add(Kind.DUPLICATE_KEY, self.table, f"parent_id {again[0] >> 32}, key {key!r}", len(again))
        return distinct_sorted(pairs >> 32)

    def _codes(self, keys: pa.ChunkedArray) -> Ints:
        """Return keys as small numbers: there are few of them, and they repeat."""
        encoded = keys.fill_null("").combine_chunks().dictionary_encode()
        mine = [self._keys.setdefault(key, len(self._keys)) for key in encoded.dictionary.to_pylist()]
        return np.array(mine, np.int64)[np.asarray(encoded.indices)] if mine else np.zeros(0, np.int64)

    def _check_order(self, rows: pa.Table, path: str) -> None:
        """Report the first row that is out of order, also between the previous piece and this one."""
        order = rows.select(["parent_id", "key"]).drop_null()
        before = self._last[1].cast(order.schema) if self._last and self._last[0] == path else order.slice(0, 0)
        wrong = find_first_unsorted(pa.concat_tables([before, order]))
        if wrong is not None:
            self.findings.add(Kind.NOT_SORTED, self.table, path)
        self._last = path, order.slice(max(order.num_rows - 1, 0))


def check_values(table: str, rows: pa.Table, path: str, findings: Findings) -> None:
    """Report values of an unknown type, and values in a column of another type; a missing column is empty."""
    kinds = ids_of(rows.column("type"))
    unknown = ~np.isin(kinds, TYPES)
    if unknown.any():
        findings.add(Kind.UNKNOWN_TYPE, table, f"type {_type_name(kinds[unknown][0])} in {path}", int(unknown.sum()))
    for column in set(rows.column_names) & set(VALUE_COLUMNS.values()):
        expected = np.isin(kinds, [kind for kind, name in VALUE_COLUMNS.items() if name == column])
        is_set = np.asarray(pc.is_valid(rows.column(column)))
        wrong = (expected != is_set) & ~unknown
        if wrong.any():
            kind = kinds[wrong][0]
            state = "set" if is_set[wrong][0] else "null"
            findings.add(Kind.MISFIT, table, f"{column} is {state} where type is {kind} in {path}", int(wrong.sum()))


def _type_name(kind: int) -> str:
    return "null" if kind == NONE else str(kind)


LOST = {RESOURCE_ATTRS: Kind.NO_RESOURCE, SCOPE_ATTRS: Kind.NO_SCOPE}


@dataclass
class References:
    """Check of the references of a part's rows, file by file, to known parents."""

    parents: Mapping[str, Ints]
    findings: Findings
    offsets: Offsets | None = None
    _used: dict[str, list[Ints]] = field(default_factory=dict)

    @property
    def convention(self) -> str:
        """The convention of the part's ids."""
        return EXPORTER if self.offsets else SPECIFICATION

    def find_convention(self, files: Iterable[IdColumns]) -> None:
        """Infer the convention from the rows of all root tables of the part."""
        runs = [Runs.of(ids, nested) for ids, *nested in files]
        if runs:
            self.offsets = infer_offsets(Runs.join(runs), [self.parents[table] for table in LOST])

    def follow(self, root: str, columns: IdColumns, findings: Findings) -> None:
        """Check the references of a file's rows."""
        ids, *nested = columns
        shift = np.zeros(len(ids), np.int64)
        if self.offsets:
            shift, guessed = find_row_offsets(ids, nested, self.offsets)
            findings.add(Kind.GUESSED, root, "the start of its batch is unknown", int(guessed.sum()))
        for (table, kind), refers in zip(LOST.items(), nested, strict=True):
            self._used.setdefault(table, []).append(np.unique((refers + shift)[refers != NONE]))
            lost = find_unmatched(refers, self.parents[table], shift)
            if lost.any():
                row = int(np.flatnonzero(lost)[0])
                example = f"{table} has no parent_id {refers[row] + shift[row]}, of the row with id {ids[row]}"
                findings.add(kind, root, example, int(lost.sum()))

    def find_unused(self) -> None:
        """Report parents that no row refers to, after all rows were checked."""
        for table in LOST:
            unused = np.setdiff1d(
                self.parents[table], np.concatenate([np.zeros(0, np.int64), *self._used.get(table, [])])
            )
            if len(unused):
                self.findings.add(Kind.UNUSED, table, f"parent_id {unused[0]}", len(unused))


PIECE_ROWS = 64 * 1024
ROOT_IDS = ("id", "resource.id", "scope.id")
NO_IDS = np.zeros(0, np.int64)


def check_folder(base: str, filesystem: pafs.FileSystem, star: Star) -> Report:
    """Check the tables of one star in all parts of a folder."""
    listing = list_folder(base, filesystem)
    if star.root not in listing:
        raise InputError(f"no table {star.root} in {base}", hint=f"the folder has {', '.join(listing)}")
    findings = Findings()
    for path in listing.ignored:
        findings.add(Kind.NOT_PARQUET, "", path)
    rows = dict.fromkeys(star.tables, 0)
    conventions = {}
    for part in list_parts(listing, star.tables):
        conventions[part] = _PartCheck(select_part(listing, part), filesystem, star, findings, rows).run()
    files = {table: len(listing.get(table, ())) for table in star.tables}
    return Report(base, star.root, files, rows, conventions, findings.problems())


@dataclass
class _PartCheck:
    """Check of one part: the ids of the rows of each table, and the parents that rows refer to."""

    listing: Listing
    filesystem: pafs.FileSystem
    star: Star
    findings: Findings
    rows: dict[str, int]
    ids: dict[str, Ints] = field(default_factory=dict)
    parents: dict[str, Ints] = field(default_factory=dict)

    def run(self) -> str:
        """Check all tables, and return the convention of the part's ids."""
        sound = {table: self._find_valid(table, self.findings) for table in self.star.tables}
        for table in self.star.tables:
            if is_attrs(table):
                self._check_attrs(table, sound[table])
            else:
                self._check_rows(table, sound[table])
        for child in self.star.children:
            if not child.is_shared:
                self._match(child.table, child.parent)
        return self._follow_references(sound[self.star.root])

    def _find_valid(self, table: str, findings: Findings) -> list[OtapFile]:
        """Return the files of a table whose columns are valid, and report problems of the others."""
        sound, parts = [], set()
        for file in self.listing.get(table, ()):
            try:
                with open_file(file.path, self.filesystem) as parquet:
                    parts.add(file.part or read_part_id(parquet.schema_arrow))
                    if table in self.rows:
                        self.rows[table] += parquet.metadata.num_rows
                    if check_columns(table, parquet.schema_arrow, file.path, findings):
                        check_nulls(table, parquet, file.path, findings)
                        sound.append(file)
            except InputError as error:
                findings.add(Kind.UNREADABLE, table, error.message)
        if table in STARS and len(parts) > 1:
            findings.add(Kind.MIXED_PARTS, table, ", ".join(sorted(parts)))
        return sound

    def _check_attrs(self, table: str, files: Sequence[OtapFile]) -> None:
        check = AttrsCheck(table, self.findings)
        for file in files:
            for rows in self._pieces(file, ("parent_id", "key", *VALUES)):
                check.add(rows, file.path)
        self.parents[table] = check.finish()

    def _check_rows(self, table: str, files: Sequence[OtapFile]) -> None:
        """Collect the ids of a table, each once, and the parents that its rows refer to, if any."""
        ids, parents = [NO_IDS], [NO_IDS]
        for file in files:
            for rows in self._pieces(file, ("id", "parent_id", "body")):
                if "id" in rows.column_names:
                    ids.append(ids_of(rows.column("id")))
                if "parent_id" in rows.column_names:
                    parents.append(ids_of(rows.column("parent_id")))
                if "body" in rows.column_names:
                    check_values(table, _body_values(rows.column("body")), file.path, self.findings)
        self.ids[table] = self._distinct(table, np.concatenate(ids))
        named = np.concatenate(parents)
        self.parents[table] = distinct_sorted(np.sort(named[named != NONE]))

    def _distinct(self, table: str, ids: Ints) -> Ints:
        ids = np.sort(ids[ids != NONE])
        again = ids[1:][ids[1:] == ids[:-1]]
        if len(again):
            self.findings.add(Kind.DUPLICATE_ID, table, f"id {again[0]}", len(again))
        return distinct_sorted(ids)

    def _match(self, table: str, parent: str) -> None:
        """Report children whose parent is missing."""
        lost = np.setdiff1d(self.parents[table], self.ids[parent], assume_unique=True)
        if not len(lost):
            return
        if not self.listing.get(parent):
            self.findings.add(Kind.NO_ROOT, table, f"the part has no file of {parent}", len(lost))
        elif not len(self.ids[parent]):
            self.findings.add(Kind.NO_IDS, table, f"no row of {parent} has an id, but a row has parent_id {lost[0]}")
        else:
            self.findings.add(Kind.DANGLING, table, f"no row of {parent} has the id {lost[0]}", len(lost))

    def _follow_references(self, files: Sequence[OtapFile]) -> str:
        """Check the references of all rows, and return the convention of the part's ids.

        Rows of the other root tables of the part have the same resources: their references are followed too, but their
        problems are not reported.
        """
        references = References({table: self.parents[table] for table in LOST}, self.findings)
        ignored = Findings()
        others = [file for root in STARS if root != self.star.root for file in self._find_valid(root, ignored)]
        references.find_convention(self._root_ids(file) for file in (*files, *others))
        for file in (*files, *others):
            findings = self.findings if file.table == self.star.root else ignored
            references.follow(file.table, self._root_ids(file), findings)
        references.find_unused()
        return references.convention

    def _root_ids(self, file: OtapFile) -> IdColumns:
        columns = [extract_ids(rows) for rows in self._pieces(file, ROOT_IDS)] or [(NO_IDS, NO_IDS, NO_IDS)]
        ids, resources, scopes = (np.concatenate(column) for column in zip(*columns, strict=True))
        return ids, resources, scopes

    def _pieces(self, file: OtapFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield some columns of a file, as far as it has them, and report damage."""
        try:
            with open_file(file.path, self.filesystem) as parquet:
                for batch in parquet.iter_batches(PIECE_ROWS, columns=list(columns), use_threads=False):
                    yield pa.Table.from_batches([batch])
        except InputError as error:
            self.findings.add(Kind.UNREADABLE, file.table, error.message)


def _body_values(column: pa.ChunkedArray) -> pa.Table:
    """Return the values of logs that have a body, as columns."""
    present = column.filter(pc.is_valid(column)).combine_chunks()
    return pa.table(dict(zip(present.type.names, present.flatten(), strict=True)))
