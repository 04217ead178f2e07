"""Table properties that repeat what snapshot summaries say of streams and batches, set in the same commit.

Positions of streams and ids of batches stand in snapshot summaries. Neve's own expiry keeps those that are needed.
Another program's expiry does not know of them, and a stream would begin anew, or a batch be written twice. A property
lives as long as its table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.model.commits import BATCH_ID, BATCHES_PROPERTY, POSITIONS, POSITIONS_PROPERTY, STREAM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

FIRST = 1  # the sequence number of a table's first snapshot; pyiceberg's expiry makes any snapshot one without parent
BATCHES_KEPT = 200  # by each table; a batch that was killed is finished by the next run


@dataclass(frozen=True)
class StreamProperty:
    """The positions of a stream as a table property has them, and the commit that set it."""

    key: str
    snapshot_id: int
    sequence: int
    positions: object

    @property
    def words(self) -> str:
        """The positions as a summary has them."""
        return json.dumps(self.positions, sort_keys=True, separators=(",", ":"))


def properties_for(metadata: TableMetadata, snapshot_id: int, *, remember_batch: bool) -> dict[str, str]:
    """The properties that are set along with a snapshot, which is in the metadata already but not committed yet."""
    snapshot = metadata.snapshot_by_id(snapshot_id)
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
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
        batches = {**_batches(metadata.properties), summary[BATCH_ID]: snapshot_id}
        found[BATCHES_PROPERTY] = json.dumps(dict(list(batches.items())[-BATCHES_KEPT:]), separators=(",", ":"))
    return found


def remembered_batch(table: Table, batch_id: str) -> int | None:
    """The snapshot that a batch was committed in, though it may be gone."""
    return _batches(table.metadata.properties).get(batch_id)


def stream_properties(table: Table) -> dict[str, StreamProperty]:
    """What the properties of a table say, by stream."""
    return {
        key.removeprefix(POSITIONS_PROPERTY): _read(key, value)
        for key, value in table.metadata.properties.items()
        if key.startswith(POSITIONS_PROPERTY)
    }


def words_of_stream(table: Table, stream: str, line: list[Snapshot]) -> dict[str, str] | None:
    """What the last commit of a stream said, where none in the line of the current snapshot is of that stream.

    Where the line is known to its very beginning, the stream is not in it: it is new, or the table was rolled back to
    before it. Where snapshots are missing the property counts. Raises `LakeError` where it speaks of a snapshot that is
    not in the line: then nobody knows how far the table is.
    """
    key = f"{POSITIONS_PROPERTY}{stream}"
    value = table.metadata.properties.get(key)
    if value is None or not line or (line[-1].sequence_number or 0) <= FIRST:
        return None
    found = _read(key, value)
    was_rolled_back = (line[0].sequence_number or 0) < found.sequence
    if was_rolled_back or table.metadata.snapshot_by_id(found.snapshot_id) is not None:
        raise LakeError(
            f"nobody knows how far the stream {stream} is in {'.'.join(table.name())}: snapshots before "
            f"{line[-1].snapshot_id} are gone, and the table property {key} speaks of snapshot {found.snapshot_id}, "
            "which the current state does not come from",
            hint="the table was rolled back, and its snapshots were expired by another program. Set the table to the "
            f"snapshot {found.snapshot_id} again, or unset the property {key}: then everything that the source still "
            "has is read again",
        )
    return {STREAM: stream, POSITIONS: found.words}


def _batches(properties: Mapping[str, str]) -> dict[str, int]:
    return dict(json.loads(properties.get(BATCHES_PROPERTY, "{}")))


def _read(key: str, value: str) -> StreamProperty:
    told = json.loads(value)
    return StreamProperty(key, told["snapshot"], told["sequence"], told["positions"])
