"""Traces that are judged at once: of one organization, and of whole windows where those matter."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.tail.batches import integers

if TYPE_CHECKING:
    from collections.abc import Iterator


def by_owner(batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Rows of one organization at a time, in any order."""
    for batch in batches:
        owners = batch.column("organization_id").dictionary_encode()
        for place in range(len(owners.dictionary)):
            yield pa.Table.from_batches([batch.filter(pc.equal(owners.indices, place))])


def by_window(batches: pa.RecordBatchReader, window_us: int) -> Iterator[pa.Table]:
    """Rows of one organization, whole windows at a time; they come in the order of both."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows = pa.Table.from_batches(held)
        *whole, last = _cuts(rows, window_us)
        yield from whole
        held = last.to_batches()
    if held:
        yield pa.Table.from_batches(held)


def _cuts(rows: pa.Table, window_us: int) -> list[pa.Table]:
    """Rows cut where the organization changes, and once more before the last window, which may go on."""
    owners = pc.run_end_encode(rows.column("organization_id").combine_chunks()).run_ends.to_numpy()
    cuts = {0, *owners.tolist()}
    start = int(owners[-2]) if len(owners) > 1 else 0
    changes = np.flatnonzero(np.diff(integers(rows, "ready_us")[start:] // window_us)) + 1
    if len(changes):
        cuts.add(start + int(changes[-1]))
    edges = sorted(cuts)
    return [rows.slice(first, end - first) for first, end in itertools.pairwise(edges)]
