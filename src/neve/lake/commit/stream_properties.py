"""Stream positions in snapshot summaries, and the table properties that repeat them and the batch ids.

The properties are set in the same commit.

Neve's own expiry keeps the snapshots that are needed. Another program's expiry does not. Without these properties a
stream would restart from the beginning, or a batch would be written twice. A property lives as long as its table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.lake.read.history import read_summary, walk_history
from neve.model.commits import BATCH_ID, BATCHES_PROPERTY, POSITIONS, POSITIONS_PROPERTY, STREAM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

FIRST_SEQUENCE = (
    1  # the sequence number of a table's first snapshot; pyiceberg's expiry may leave any snapshot without a parent
)
BATCHES_KEPT = 200  # per table; the next run finishes a batch that was killed


@dataclass(frozen=True)
class StreamProperty:
    """The positions of a stream in a table property, and the commit that set it."""

    key: str
    snapshot_id: int
    sequence: int
    positions: object

    @property
    def positions_json(self) -> str:
        """The positions in the format of a summary."""
        return json.dumps(self.positions, sort_keys=True, separators=(",", ":"))


def build_properties(metadata: TableMetadata, snapshot_id: int, *, remember_batch: bool) -> dict[str, str]:
    """Return the properties to set with a snapshot that is in the metadata but not committed yet."""
    snapshot = metadata.snapshot_by_id(snapshot_id)
    summary = read_summary(snapshot)
    found: dict[str, str] = {}
    if snapshot and STREAM in summary and POSITIONS in summary:
        found[f"{POSITIONS_PROPERTY}{summary[STREAM]}"] = json.dumps(
            {
                "snapshot": snapshot_id,
                "sequence": snapshot.sequence_number or 0,
                "positions": json.loads(summary[POSITIONS]),
            },
            sort_keys=True,
            separators=(",", ":"),
        )
    if remember_batch and BATCH_ID in summary:
        batches = {**_parse_batches(metadata.properties), summary[BATCH_ID]: snapshot_id}
        found[BATCHES_PROPERTY] = json.dumps(dict(list(batches.items())[-BATCHES_KEPT:]), separators=(",", ":"))
    return found


def find_remembered_batch(table: Table, batch_id: str) -> int | None:
    """Return the snapshot that a batch was committed in. The snapshot may have expired."""
    return _parse_batches(table.metadata.properties).get(batch_id)


def read_stream_properties(table: Table) -> dict[str, StreamProperty]:
    """Return the stream positions in a table's properties, by stream."""
    return {
        key.removeprefix(POSITIONS_PROPERTY): _parse_stream_property(key, value)
        for key, value in table.metadata.properties.items()
        if key.startswith(POSITIONS_PROPERTY)
    }


def find_stream_summary(table: Table, stream: str) -> dict[str, str] | None:
    """Return the summary of the last commit of a stream in the current history; other branches don't count.

    If another program expired its snapshot, use the table's properties. Raises `LakeError` if they do not match the
    current state.
    """
    line: list[Snapshot] = []
    for snapshot in walk_history(table):
        summary = read_summary(snapshot)
        if summary.get(STREAM) == stream:
            return summary
        line.append(snapshot)
    return _find_summary_in_properties(table, stream, line)


def _find_summary_in_properties(table: Table, stream: str, line: list[Snapshot]) -> dict[str, str] | None:
    """Return the last summary of a stream from the properties, if the current history has no snapshot of the stream.

    If the history is complete, the stream is not in it: it is new, or the table was rolled back to a state before it.
    If snapshots are missing, the property counts. Raises `LakeError` if it refers to a snapshot that is not in the
    history: then the position of the table is unknown.
    """
    key = f"{POSITIONS_PROPERTY}{stream}"
    value = table.metadata.properties.get(key)
    if value is None or not line or (line[-1].sequence_number or 0) <= FIRST_SEQUENCE:
        return None
    found = _parse_stream_property(key, value)
    was_rolled_back = (line[0].sequence_number or 0) < found.sequence
    if was_rolled_back or table.metadata.snapshot_by_id(found.snapshot_id) is not None:
        raise LakeError(
            f"the position of the stream {stream} in {'.'.join(table.name())} is unknown: snapshots before "
            f"{line[-1].snapshot_id} have expired, and the table property {key} names snapshot {found.snapshot_id}, "
            "which is not an ancestor of the current state",
            hint="the table was rolled back, and its snapshots were expired by another program. Set the table to the "
            f"snapshot {found.snapshot_id} again, or unset the property {key}: then everything that the source still "
            "has is read again",
        )
    return {STREAM: stream, POSITIONS: found.positions_json}


def _parse_batches(properties: Mapping[str, str]) -> dict[str, int]:
    return dict(json.loads(properties.get(BATCHES_PROPERTY, "{}")))


def _parse_stream_property(key: str, value: str) -> StreamProperty:
    document = json.loads(value)
    return StreamProperty(key, document["snapshot"], document["sequence"], document["positions"])
