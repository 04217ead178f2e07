"""Delete files and rewrites of a table, committed without a JVM; pyiceberg by itself commits none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyiceberg.manifest import DataFileContent, FileFormat, construct_partition_summaries, write_manifest_list
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from neve.lake.read.file_values import PATH_ID
from neve.lake.write.table_writer import Target, write_files, write_position_deletes
from tests.lake.manifests import Entry, Manifests, file_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

SUMMARIES = 13  # place of the partition summaries among the values of a listed manifest


def delete_rows(table: Table, data: DataFile, positions: Sequence[int], **more: Any) -> str:
    """Mark rows of a data file as deleted in a snapshot of its own; the path of the file that says so."""
    content = write_position_deletes(
        Target.of(table), data.file_path, np.array(positions, dtype=np.int64), data.spec_id, ()
    )
    path = data.file_path.encode()
    values: dict[str, Any] = {
        "content": DataFileContent.POSITION_DELETES,
        "record_count": len(positions),
        "lower_bounds": {PATH_ID: path},
        "upper_bounds": {PATH_ID: path},
    }
    partition = [data.partition[place] for place in range(len(data.partition))]
    file = file_of(content["file-path"], content["file-size-in-bytes"], partition, **(values | more))
    commit_deletes(table, file, data.spec_id)
    return str(content["file-path"])


def equality_deletes(data: DataFile) -> DataFile:
    """A file that deletes rows of a data file's partition by their values; it exists in the metadata only."""
    partition = [data.partition[place] for place in range(len(data.partition))]
    return file_of("nowhere.parquet", 1, partition, content=DataFileContent.EQUALITY_DELETES, equality_ids=[1])


def deletion_vector(data: DataFile) -> DataFile:
    """A file of the newer form; it exists in the metadata only."""
    partition = [data.partition[place] for place in range(len(data.partition))]
    content = DataFileContent.POSITION_DELETES
    return file_of("nowhere.puffin", 1, partition, content=content, file_format=FileFormat.PUFFIN)


def commit_deletes(table: Table, file: DataFile, spec_id: int) -> None:
    """Add a delete file in one snapshot."""
    commit_files(table, Operation.DELETE, [file], spec_id)


def rewrite_files(table: Table) -> None:
    """Write all rows to new files in one snapshot of the operation of compactions."""
    table.refresh()
    files = write_files(Target.of(table), table.scan().to_arrow())
    commit_files(table, Operation.REPLACE, files, table.spec().spec_id)


def commit_files(table: Table, operation: Operation, files: Sequence[DataFile], spec_id: int) -> None:
    """Commit one snapshot: delete files are added to those that there are, data files replace all of them."""
    table.refresh()
    parent = table.current_snapshot()
    assert parent is not None
    number, sequence = max(one.snapshot_id for one in table.snapshots()) + 1, table.last_sequence_number + 1
    folder = f"{table.location()}/metadata"
    manifests = Manifests(folder, table.io, table.schema())
    are_deletes = operation == Operation.DELETE
    manifest = manifests.write(
        table.specs()[spec_id], [*map(Entry, files)], sequence=sequence, deletes=are_deletes, snapshot_id=number
    )
    manifest.min_sequence_number = sequence
    partitions = [file.partition for file in files]
    manifest[SUMMARIES] = construct_partition_summaries(table.specs()[spec_id], table.schema(), partitions)
    place = f"{folder}/snap-{number}.avro"
    with write_manifest_list(2, table.io.new_output(place), number, parent.snapshot_id, sequence, "deflate") as writer:
        writer.add_manifests([*(parent.manifests(table.io) if are_deletes else ()), manifest])
    snapshot = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=parent.snapshot_id,
        sequence_number=sequence,
        manifest_list=place,
        summary=Summary(operation),
        schema_id=table.schema().schema_id,
    )
    head = SetSnapshotRefUpdate.model_validate(
        {"ref-name": "main", "type": SnapshotRefType.BRANCH, "snapshot-id": number}
    )
    table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), head))
    table.refresh()
