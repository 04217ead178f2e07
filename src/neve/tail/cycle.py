"""One cycle: what is new is read and summed up, what became ready is decided, and both are committed.

Decisions are committed first, then the open traces. A cycle that was killed between the two is finished by the next:
which traces were decided follows from the position that the decisions carry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from neve.lake.writer import Target, write_files
from neve.tail.decisions import open_rows
from neve.tail.gather import MERGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.tail.judging import Judging
    from neve.tail.tally import Tally

WRITE_ROWS = 25_000


def write_decisions(table: Table, judging: Judging, tally: Tally) -> list[DataFile]:
    """Judge what is ready and write what comes of it; nothing is visible before it is committed."""
    rows = (part for some in (judging.decided(), judging.late()) for part in some)
    return list(_written(table, map(tally.add, rows)))


def write_open(table: Table, judging: Judging) -> list[DataFile]:
    """Write what stays open."""
    batches = judging.connection.execute(f"SELECT * FROM {MERGED} WHERE NOT ({judging.is_ready})").to_arrow_reader(
        WRITE_ROWS
    )
    selector = judging.made.selector
    rows = (open_rows(pa.Table.from_batches([batch]), judging.summary, selector) for batch in batches if batch.num_rows)
    return list(_written(table, rows))


def _written(table: Table, rows: Iterable[pa.Table]) -> Iterator[DataFile]:
    """Rows as files, not too few in one."""
    target = Target.of(table)
    held: list[pa.Table] = []
    for part in rows:
        held.append(part)
        if sum(one.num_rows for one in held) >= WRITE_ROWS:
            yield from write_files(target, pa.concat_tables(held))
            held = []
            pa.default_memory_pool().release_unused()
    if held:
        yield from write_files(target, pa.concat_tables(held))
