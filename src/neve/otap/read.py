"""Reading a part: root rows in chunks of bounded size, each with the rows of other tables that hang on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.otap.files import canonical
from neve.otap.ids import placed
from neve.otap.joins import NONE, Ids, ids_of
from neve.otap.parquet import PARENT, Bounds, opened, parent_bounds
from neve.otap.part_ids import id_columns, ids_in
from neve.otap.star_rows import RECORD_ID, StarRows
from neve.otap.tables import RESOURCE_ATTRS, SCOPE_ATTRS, STARS, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from neve.lake.config import S3Config
    from neve.otap.ids import Offsets

    Keep = Callable[[pa.Table, int], npt.NDArray[np.bool_]]

CHUNK_ROWS = 20_000  # what a message holds; equal records of one chunk are so many records, as in a message
CHILD_ROWS = 64 * 1024  # children that are looked at together; those of other parents are let go at once


@dataclass(frozen=True)
class PartFiles:
    """The files of a part by table, and the offsets of its batches where it breaks the specification. It pickles."""

    files: Mapping[str, Sequence[str]]
    offsets: Offsets | None = None


@dataclass
class PartReader:
    """Reads the root files of a part with what they need of the others."""

    part: PartFiles
    s3: S3Config
    guessed: int = 0  # rows without an id of which nothing tells the batch
    _bounds: dict[str, list[Bounds]] = field(default_factory=dict)

    def chunks(self, root: str, path: str) -> Iterator[StarRows]:
        """The rows of a root file, in its order, each with everything that hangs on it."""
        shifts = self._shifts(path)
        start = 0
        for rows in self._root_rows(root, path):
            yield self._star(root, rows, 0 if shifts is None else shifts[start : start + rows.num_rows])
            start += rows.num_rows

    def kept(self, root: str, path: str, keep: Keep, rows: int) -> Iterator[tuple[StarRows, Ids]]:
        """The rows of a root file that `keep` chooses, about so many at a time, and their places in the file.

        `keep` is given rows and the place of the first of them. Children are read for those alone that are kept.
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
                yield self._gathered(root, gathered, np.concatenate(places), shifts)
                gathered, places, count = [], [], 0
        if count:
            yield self._gathered(root, gathered, np.concatenate(places), shifts)

    def _gathered(self, root: str, rows: list[pa.Table], places: Ids, shifts: Ids | None) -> tuple[StarRows, Ids]:
        return self._star(root, pa.concat_tables(rows), 0 if shifts is None else shifts[places]), places

    def _shifts(self, path: str) -> Ids | None:
        """By how much resource and scope of each row are shifted; a row without an id is placed by its neighbours."""
        if self.part.offsets is None:
            return None
        ids, *nested = id_columns(path, self.s3)
        shifts, guessed = placed(ids, nested, self.part.offsets)
        self.guessed += int(guessed.sum())
        return shifts

    def _root_rows(self, root: str, path: str) -> Iterator[pa.Table]:
        with opened(path, self.s3) as file:
            names = file.schema_arrow.names
            columns = [name for name in names if name in (*schema(root).names, RECORD_ID)]
            for batch in file.iter_batches(CHUNK_ROWS, columns=columns, use_threads=False):
                rows = canonical(root, batch)
                yield rows.append_column(RECORD_ID, batch.column(RECORD_ID)) if RECORD_ID in columns else rows

    def _star(self, root: str, rows: pa.Table, shift: Ids | int) -> StarRows:
        ids, *nested = ids_in(rows)
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
        """The rows of a table that belong to some parents."""
        wanted = np.unique(parents[parents != NONE])
        paths = self.part.files.get(table, ()) if len(wanted) else ()
        found = [rows for path in paths for rows in self._rows_of(table, path, wanted)]
        return pa.concat_tables([schema(table).empty_table(), *found])

    def _rows_of(self, table: str, path: str, wanted: Ids) -> Iterator[pa.Table]:
        """The rows of a file that belong to some parents; row groups that can't have any are not read."""
        known = self._bounds.get(path)
        if known is not None and not _near(known, wanted):
            return
        with opened(path, self.s3) as file:
            if known is None:
                known = self._bounds[path] = parent_bounds(file)
            groups = _near(known, wanted)
            columns = [name for name in file.schema_arrow.names if name in schema(table).names]
            for batch in file.iter_batches(CHILD_ROWS, row_groups=groups, columns=columns, use_threads=False):
                mine = np.isin(ids_of(batch.column(PARENT)), wanted)
                if mine.any():
                    yield canonical(table, batch.filter(pa.array(mine)))


def _near(bounds: Sequence[Bounds], wanted: Ids) -> list[int]:
    """The row groups that may hold children of these parents, which are in order."""
    found = []
    for group, told in enumerate(bounds):
        least, most = (wanted[0], wanted[-1]) if told is None else told
        if np.searchsorted(wanted, least) < np.searchsorted(wanted, most, side="right"):
            found.append(group)
    return found
