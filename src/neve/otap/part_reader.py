"""Reader of a part: its ids and their convention, and its root rows in bounded chunks, each with all child rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError
from neve.otap.ids import SPECIFICATION, Runs, find_row_offsets, infer_offsets
from neve.otap.parquet import PARENT, Bounds, open_location, parent_bounds
from neve.otap.star_rows import NONE, RECORD_ID, Ids, StarRows, ids_of
from neve.otap.tables import IDS, RESOURCE_ATTRS, SCOPE_ATTRS, STARS, schema
from neve.otap.writer import conform_to_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from neve.lake.config import S3Config
    from neve.otap.ids import Offsets

    Keep = Callable[[pa.Table, int], npt.NDArray[np.bool_]]

SHARED = ("resource", "scope")


def infer_part_offsets(s3: S3Config, files: Mapping[str, Sequence[str]]) -> Offsets | None:
    """Infer the offsets of a part's batches; None if its ids follow the specification.

    Only columns of ids are read, and not even those if all root files declare their convention. An unreadable file is
    skipped here: the reader of its rows reports it.
    """
    roots = [path for root in STARS for path in files.get(root, ())]
    if all(_is_as_specified(path, s3) for path in roots):
        return None
    runs = []
    for path in roots:
        with suppress(InputError):
            ids, *nested = read_ids(path, s3)
            runs.append(Runs.of(ids, nested))
    parents = [_parents(s3, files.get(table, ())) for table in (RESOURCE_ATTRS, SCOPE_ATTRS)]
    return infer_offsets(Runs.join(runs), parents) if runs else None


def _is_as_specified(path: str, s3: S3Config) -> bool:
    """Return whether a root file declares that its ids follow the specification, as files of Neve do."""
    try:
        with open_location(path, s3) as file:
            metadata = file.schema_arrow.metadata or {}
    except InputError:
        return False
    return bool(metadata.get(IDS.encode()) == SPECIFICATION.encode())


def read_ids(path: str, s3: S3Config) -> tuple[Ids, Ids, Ids]:
    """Return the ids of a root file's rows, of their resources and of their scopes."""
    return extract_ids(_read_columns(path, s3, ("id", *(f"{name}.id" for name in SHARED))))


def extract_ids(rows: pa.Table) -> tuple[Ids, Ids, Ids]:
    """Return the ids of root rows, of their resources and of their scopes; `NONE` for a missing column."""
    none = np.full(rows.num_rows, NONE, dtype=np.int64)
    own = ids_of(rows.column("id")) if "id" in rows.column_names else none
    resource, scope = (_nested_ids(rows, name, none) for name in SHARED)
    return own, resource, scope


def _nested_ids(rows: pa.Table, name: str, none: Ids) -> Ids:
    if name not in rows.column_names or rows.schema.field(name).type.get_field_index("id") < 0:
        return none
    return ids_of(pc.struct_field(rows.column(name), "id"))


def _parents(s3: S3Config, paths: Sequence[str]) -> Ids:
    found = [np.empty(0, np.int64)]
    for path in paths:
        with suppress(InputError):
            found.append(np.unique(ids_of(_read_columns(path, s3, ("parent_id",)).column("parent_id"))))
    return np.unique(np.concatenate(found))


def _read_columns(path: str, s3: S3Config, columns: Sequence[str]) -> pa.Table:
    with open_location(path, s3) as file:
        return file.read(columns=list(columns), use_threads=False)


CHUNK_ROWS = 20_000  # rows of one message; equal records of one chunk are separate records, as in a message
CHILD_ROWS = 64 * 1024  # child rows that are filtered together; those of other parents are dropped at once


@dataclass(frozen=True)
class PartFiles:
    """Files of a part by table, and the offsets of its batches if it breaks the specification. It can be pickled."""

    files: Mapping[str, Sequence[str]]
    offsets: Offsets | None = None


@dataclass
class PartReader:
    """Reader of the root files of a part with their child rows."""

    part: PartFiles
    s3: S3Config
    guessed: int = 0  # rows without an id whose batch is unknown
    _bounds: dict[str, list[Bounds]] = field(default_factory=dict)

    def chunks(self, root: str, path: str) -> Iterator[StarRows]:
        """Yield the rows of a root file in chunks, in file order, each with all child rows."""
        shifts = self._shifts(path)
        start = 0
        for rows in self._root_rows(root, path):
            yield self._star(root, rows, 0 if shifts is None else shifts[start : start + rows.num_rows])
            start += rows.num_rows

    def select(self, root: str, path: str, keep: Keep, rows: int) -> Iterator[tuple[StarRows, Ids]]:
        """Yield the rows of a root file that `keep` selects, about `rows` at a time, and their places in the file.

        `keep` is called with rows and the place of the first of them. Only children of kept rows are read.
        """
        shifts = self._shifts(path)
        gathered: list[pa.Table] = []
        places: list[Ids] = []
        start = count = 0
        for batch in self._root_rows(root, path):
            chosen = np.flatnonzero(keep(batch, start))
            gathered.append(batch.take(pa.array(chosen)))
            places.append(chosen + start)
            start, count = start + batch.num_rows, count + len(chosen)
            if count >= rows:
                yield self._build_stars(root, gathered, np.concatenate(places), shifts)
                gathered, places, count = [], [], 0
        if count:
            yield self._build_stars(root, gathered, np.concatenate(places), shifts)

    def _build_stars(self, root: str, rows: list[pa.Table], places: Ids, shifts: Ids | None) -> tuple[StarRows, Ids]:
        return self._star(root, pa.concat_tables(rows), 0 if shifts is None else shifts[places]), places

    def _shifts(self, path: str) -> Ids | None:
        """Return the shift of each row's resource and scope; a row without an id is placed by its neighbours."""
        if self.part.offsets is None:
            return None
        ids, *nested = read_ids(path, self.s3)
        shifts, guessed = find_row_offsets(ids, nested, self.part.offsets)
        self.guessed += int(guessed.sum())
        return shifts

    def _root_rows(self, root: str, path: str) -> Iterator[pa.Table]:
        with open_location(path, self.s3) as file:
            names = file.schema_arrow.names
            columns = [name for name in names if name in (*schema(root).names, RECORD_ID)]
            for batch in file.iter_batches(CHUNK_ROWS, columns=columns, use_threads=False):
                rows = conform_to_schema(root, batch)
                yield rows.append_column(RECORD_ID, batch.column(RECORD_ID)) if RECORD_ID in columns else rows

    def _star(self, root: str, rows: pa.Table, shift: Ids | int) -> StarRows:
        ids, *nested = extract_ids(rows)
        resources, scopes = (np.where(each == NONE, NONE, each + shift) for each in nested)
        parents: dict[str, Ids] = {root: ids}
        children = {
            RESOURCE_ATTRS: self._child(RESOURCE_ATTRS, resources),
            SCOPE_ATTRS: self._child(SCOPE_ATTRS, scopes),
        }
        for child in STARS[root].children:
            if not child.is_shared:
                children[child.table] = found = self._child(child.table, parents[child.parent])
                if "id" in found.column_names:
                    parents[child.table] = ids_of(found.column("id"))
        return StarRows(root, rows, children, resources, scopes)

    def _child(self, table: str, parents: Ids) -> pa.Table:
        """Return the rows of a table that belong to some parents."""
        wanted = np.unique(parents[parents != NONE])
        paths = self.part.files.get(table, ()) if len(wanted) else ()
        found = [rows for path in paths for rows in self._rows_of(table, path, wanted)]
        return pa.concat_tables([schema(table).empty_table(), *found])

    def _rows_of(self, table: str, path: str, wanted: Ids) -> Iterator[pa.Table]:
        """Yield the rows of a file that belong to some parents; row groups that can't have any are not read."""
        known = self._bounds.get(path)
        if known is not None and not _find_row_groups(known, wanted):
            return
        with open_location(path, self.s3) as file:
            if known is None:
                known = self._bounds[path] = parent_bounds(file)
            groups = _find_row_groups(known, wanted)
            columns = [name for name in file.schema_arrow.names if name in schema(table).names]
            for batch in file.iter_batches(CHILD_ROWS, row_groups=groups, columns=columns, use_threads=False):
                mine = np.isin(ids_of(batch.column(PARENT)), wanted)
                if mine.any():
                    yield conform_to_schema(table, batch.filter(pa.array(mine)))


def _find_row_groups(bounds: Sequence[Bounds], wanted: Ids) -> list[int]:
    """Return the row groups that may hold children of these sorted parents."""
    found = []
    for group, known in enumerate(bounds):
        least, most = (wanted[0], wanted[-1]) if known is None else known
        if np.searchsorted(wanted, least) < np.searchsorted(wanted, most, side="right"):
            found.append(group)
    return found
