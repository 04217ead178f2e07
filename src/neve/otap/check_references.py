"""Whether rows find their resource and their scope, and by which convention of ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from neve.otap.ids import EXPORTER, SPECIFICATION, offsets_of, placed, unmatched
from neve.otap.joins import NONE
from neve.otap.report import Findings, Kind
from neve.otap.runs import Runs
from neve.otap.tables import RESOURCE_ATTRS, SCOPE_ATTRS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neve.otap.ids import Offsets
    from neve.otap.runs import Ints

    IdColumns = tuple[Ints, Ints, Ints]  # of the rows, of their resources, of their scopes

LOST = {RESOURCE_ATTRS: Kind.NO_RESOURCE, SCOPE_ATTRS: Kind.NO_SCOPE}


@dataclass
class References:
    """The references of a part's rows, file by file, to parents that are known already."""

    parents: Mapping[str, Ints]
    findings: Findings
    offsets: Offsets | None = None
    _used: dict[str, list[Ints]] = field(default_factory=dict)

    @property
    def convention(self) -> str:
        """How rows find what they refer to."""
        return EXPORTER if self.offsets else SPECIFICATION

    def find_convention(self, files: Iterable[IdColumns]) -> None:
        """Tell the convention from the rows of all root tables of the part."""
        runs = [Runs.of(ids, nested) for ids, *nested in files]
        if runs:
            self.offsets = offsets_of(Runs.joined(runs), [self.parents[table] for table in LOST])

    def follow(self, root: str, columns: IdColumns, findings: Findings) -> None:
        """Follow the references of a file's rows."""
        ids, *nested = columns
        shift = np.zeros(len(ids), np.int64)
        if self.offsets:
            shift, guessed = placed(ids, nested, self.offsets)
            findings.add(Kind.GUESSED, root, "nothing tells where its batch begins", int(guessed.sum()))
        for (table, kind), refers in zip(LOST.items(), nested, strict=True):
            self._used.setdefault(table, []).append(np.unique((refers + shift)[refers != NONE]))
            lost = unmatched(refers, self.parents[table], shift)
            if lost.any():
                row = int(np.flatnonzero(lost)[0])
                example = f"{table} has no parent_id {refers[row] + shift[row]}, of the row with id {ids[row]}"
                findings.add(kind, root, example, int(lost.sum()))

    def find_unused(self) -> None:
        """Find parents that no row refers to, once all rows were followed."""
        for table in LOST:
            unused = np.setdiff1d(
                self.parents[table], np.concatenate([np.zeros(0, np.int64), *self._used.get(table, [])])
            )
            if len(unused):
                self.findings.add(Kind.UNUSED, table, f"parent_id {unused[0]}", len(unused))
