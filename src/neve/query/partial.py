"""Answers from the files that can be read, when some can't."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from neve.query.failures import StoreAway

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.query.prepared import Prepared
    from neve.query.scan.files import FilePlan, PlannedFile

AT_A_TIME = 16


def without_unreadable(prepared: Prepared) -> Prepared:
    """The same, without the files that can't be opened; raises `StoreAway` when that is all of them."""
    plans, lost = {}, 0
    for number, plan in prepared.plans.items():
        kept = _readable(prepared.tables[number], plan)
        lost += len(plan.files) - len(kept)
        plans[number] = replace(plan, files=kept, bytes=sum(file.bytes for file in kept))
    total = sum(len(plan.files) for plan in prepared.plans.values())
    if lost and lost == total:
        raise StoreAway(f"none of {total} files can be read", hint="`neve doctor` says what is reachable")
    if not lost:
        return prepared
    notes = (*prepared.statistics.notes, f"{lost} of {total} files can't be read; their rows are missing")
    return replace(prepared, plans=plans, statistics=replace(prepared.statistics, partial=True, notes=notes))


def _readable(table: Table, plan: FilePlan) -> tuple[PlannedFile, ...]:
    def opens(file: PlannedFile) -> bool:
        try:
            with table.io.new_input(file.path).open() as opened:
                opened.read(4)
        except OSError:
            return False
        return True

    with ThreadPoolExecutor(AT_A_TIME) as threads:
        return tuple(file for file, good in zip(plan.files, threads.map(opens, plan.files), strict=True) if good)
