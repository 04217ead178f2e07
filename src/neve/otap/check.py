"""Whether a folder is valid OTAP: every table as it should be, every child with its parent, in every part.

Files are read piece by piece, and only the columns that are looked at. What is kept of a part are its ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError
from neve.otap.check_attrs import VALUES, AttrsCheck, check_values
from neve.otap.check_columns import check_columns, check_nulls
from neve.otap.check_references import LOST, References
from neve.otap.folder import list_folder, of_part, parts_of
from neve.otap.footers import opened_file, told_part
from neve.otap.joins import NONE, ids_of
from neve.otap.part_ids import ids_in
from neve.otap.report import Findings, Kind, Report
from neve.otap.runs import distinct
from neve.otap.tables import STARS, is_attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.fs as pafs

    from neve.otap.check_references import IdColumns
    from neve.otap.folder import Listing, OtapFile
    from neve.otap.runs import Ints
    from neve.otap.tables import Star

PIECE_ROWS = 64 * 1024
ROOT_IDS = ("id", "resource.id", "scope.id")
NO_IDS = np.zeros(0, np.int64)


def check_folder(base: str, filesystem: pafs.FileSystem, star: Star) -> Report:
    """Check the tables of one star in all parts of a folder."""
    listing = list_folder(base, filesystem)
    if star.root not in listing:
        raise InputError(f"no table {star.root} in {base}", hint=f"there is {', '.join(listing)}")
    findings = Findings()
    for path in listing.ignored:
        findings.add(Kind.NOT_PARQUET, "", path)
    rows = dict.fromkeys(star.tables, 0)
    conventions = {}
    for part in parts_of(listing, star.tables):
        conventions[part] = _PartCheck(of_part(listing, part), filesystem, star, findings, rows).run()
    files = {table: len(listing.get(table, ())) for table in star.tables}
    return Report(base, star.root, files, rows, conventions, findings.problems())


@dataclass
class _PartCheck:
    """One part: the ids that the rows of a table have, and the parents that the rows of a table name."""

    listing: Listing
    filesystem: pafs.FileSystem
    star: Star
    findings: Findings
    rows: dict[str, int]
    ids: dict[str, Ints] = field(default_factory=dict)
    parents: dict[str, Ints] = field(default_factory=dict)

    def run(self) -> str:
        """Look at all tables; the convention of the part's ids."""
        sound = {table: self._sound(table, self.findings) for table in self.star.tables}
        for table in self.star.tables:
            if is_attrs(table):
                self._look_at_attrs(table, sound[table])
            else:
                self._look_at_rows(table, sound[table])
        for child in self.star.children:
            if not child.is_shared:
                self._match(child.table, child.parent)
        return self._follow_references(sound[self.star.root])

    def _sound(self, table: str, findings: Findings) -> list[OtapFile]:
        """The files of a table whose columns are right; what is wrong with the others is told."""
        sound, parts = [], set()
        for file in self.listing.get(table, ()):
            try:
                with opened_file(file.path, self.filesystem) as parquet:
                    parts.add(file.part or told_part(parquet.schema_arrow))
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

    def _look_at_attrs(self, table: str, files: Sequence[OtapFile]) -> None:
        check = AttrsCheck(table, self.findings)
        for file in files:
            for rows in self._pieces(file, ("parent_id", "key", *VALUES)):
                check.add(rows, file.path)
        self.parents[table] = check.finish()

    def _look_at_rows(self, table: str, files: Sequence[OtapFile]) -> None:
        """The ids of a table, each once, and the parents that its rows name, if they have any."""
        ids, parents = [NO_IDS], [NO_IDS]
        for file in files:
            for rows in self._pieces(file, ("id", "parent_id", "body")):
                if "id" in rows.column_names:
                    ids.append(ids_of(rows.column("id")))
                if "parent_id" in rows.column_names:
                    parents.append(ids_of(rows.column("parent_id")))
                if "body" in rows.column_names:
                    check_values(table, _bodies(rows.column("body")), file.path, self.findings)
        self.ids[table] = self._distinct(table, np.concatenate(ids))
        named = np.concatenate(parents)
        self.parents[table] = distinct(np.sort(named[named != NONE]))

    def _distinct(self, table: str, ids: Ints) -> Ints:
        ids = np.sort(ids[ids != NONE])
        again = ids[1:][ids[1:] == ids[:-1]]
        if len(again):
            self.findings.add(Kind.DUPLICATE_ID, table, f"id {again[0]}", len(again))
        return distinct(ids)

    def _match(self, table: str, parent: str) -> None:
        """Find children whose parent is not there."""
        lost = np.setdiff1d(self.parents[table], self.ids[parent], assume_unique=True)
        if not len(lost):
            return
        if not self.listing.get(parent):
            self.findings.add(Kind.NO_ROOT, table, f"there is no file of {parent} in the part", len(lost))
        elif not len(self.ids[parent]):
            self.findings.add(Kind.NO_IDS, table, f"no row of {parent} has an id, but parent_id {lost[0]} is named")
        else:
            self.findings.add(Kind.DANGLING, table, f"no row of {parent} has the id {lost[0]}", len(lost))

    def _follow_references(self, files: Sequence[OtapFile]) -> str:
        """Rows of the other root tables of the part have the same resources: they are followed, too, but not judged."""
        references = References({table: self.parents[table] for table in LOST}, self.findings)
        unheard = Findings()
        others = [file for root in STARS if root != self.star.root for file in self._sound(root, unheard)]
        references.find_convention(self._root_ids(file) for file in (*files, *others))
        for file in (*files, *others):
            told = self.findings if file.table == self.star.root else unheard
            references.follow(file.table, self._root_ids(file), told)
        references.find_unused()
        return references.convention

    def _root_ids(self, file: OtapFile) -> IdColumns:
        columns = [ids_in(rows) for rows in self._pieces(file, ROOT_IDS)] or [(NO_IDS, NO_IDS, NO_IDS)]
        ids, resources, scopes = (np.concatenate(column) for column in zip(*columns, strict=True))
        return ids, resources, scopes

    def _pieces(self, file: OtapFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of a file, as far as it has them; where it turns out to be damaged, that is told."""
        try:
            with opened_file(file.path, self.filesystem) as parquet:
                for batch in parquet.iter_batches(PIECE_ROWS, columns=list(columns), use_threads=False):
                    yield pa.Table.from_batches([batch])
        except InputError as error:
            self.findings.add(Kind.UNREADABLE, file.table, error.message)


def _bodies(column: pa.ChunkedArray) -> pa.Table:
    """The values of logs that have a body, as columns."""
    present = column.filter(pc.is_valid(column)).combine_chunks()
    return pa.table(dict(zip(present.type.names, present.flatten(), strict=True)))
