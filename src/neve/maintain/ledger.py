"""Batches that ingestion has planned and not finished: tables must go on to recognise them by their id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.errors import TableMissing
from neve.model.tables import INGESTED_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.lake.lake import Lake

PLANNED = "planned"


def unfinished(lines: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The batches that have planned lines and no others.

    >>> sorted(unfinished([("a", "planned"), ("b", "planned"), ("b", "done")]))
    ['a']
    """
    planned: set[str] = set()
    ended: set[str] = set()
    for batch, state in lines:
        (planned if state == PLANNED else ended).add(batch)
    return frozenset(planned - ended)


def unfinished_batches(lake: Lake) -> frozenset[str]:
    """Those of every organization, by the ledger of ingestion; none where a catalog has no such table."""
    try:
        table = lake.table(INGESTED_FILES.name)
    except TableMissing:
        return frozenset()
    if table.current_snapshot() is None:
        return frozenset()
    rows = table.scan(selected_fields=("batch_id", "state")).to_arrow()
    return unfinished(zip(rows.column("batch_id").to_pylist(), rows.column("state").to_pylist(), strict=True))
