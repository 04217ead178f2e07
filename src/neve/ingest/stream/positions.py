"""How far a stream is, by what the tables say.

A position is the number of the first thing of a partition that is not in the table: a segment of a writer in the raw
zone, an offset of a topic's partition in Kafka. Each commit of a stream carries the positions that it leads to. Batches
are taken one after the other, each into every table before the next begins; so everything below a table's position that
belongs into the table is there, and a batch that comes again is told from a new one row by row, for each table alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from neve.lake.changes import newest_of
from neve.lake.commits import TableMoved
from neve.model.commits import POSITIONS, STREAM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from neve.lake.commits import Guard

Positions = dict[str, int]


def read_positions(table: Table, stream: str) -> Positions:
    """The positions that the table's current state was led to; those of an abandoned line of snapshots don't count."""
    words = newest_of(table, stream)
    return dict(json.loads(words[POSITIONS])) if words else {}


def unmoved(stream: str, positions: Positions) -> Guard:
    """The stream must still be where it was when the batch was read: another one with its name may be at work."""

    def check(table: Table) -> None:
        found = read_positions(table, stream)
        if found != positions:
            raise TableMoved(f"stream {stream} is at {found} in {table.name()[-1]}, expected {positions}")

    return check


def furthest(*several: Mapping[str, int]) -> Positions:
    """The larger position of each partition.

    >>> furthest({"a": 1, "b": 5}, {"a": 3})
    {'a': 3, 'b': 5}
    """
    merged: Positions = {}
    for positions in several:
        for partition, position in positions.items():
            merged[partition] = max(position, merged.get(partition, 0))
    return merged


def summary_of(stream: str, positions: Positions) -> dict[str, str]:
    """What a commit says about the stream that it belongs to."""
    return {STREAM: stream, POSITIONS: json.dumps(positions, sort_keys=True, separators=(",", ":"))}
