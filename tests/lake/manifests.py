"""Manifests as tests want them: of data files and of delete files, with whatever sequence numbers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest,
)
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO, OutputFile
    from pyiceberg.partitioning import PartitionSpec

PATH_FIELD = 2147483546
_numbers = itertools.count()


class DeleteManifestWriter(ManifestWriterV2):
    """pyiceberg writes no manifests of delete files by itself."""

    def content(self) -> ManifestContent:
        """What the manifest holds."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class OlderManifestWriter(ManifestWriterV2):
    """Writes entries without a column for the sequence number of the file, as early writers of version 2 did."""

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """The writer of a file that has one column less."""
        entries = self._with_partition(2)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=Schema(*(field for field in entries.fields if field.name != "file_sequence_number")),
            record_schema=entries,
            schema_name="manifest_entry",
            metadata=self._meta,
        )

    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        """The entry as it is, whatever it lacks."""
        return entry


@dataclass(frozen=True)
class Entry:
    """A file and the sequence numbers that its entry says; without one it has its manifest's."""

    file: DataFile
    sequence: int | None = None
    file_sequence: int | None = None
    status: ManifestEntryStatus = ManifestEntryStatus.ADDED


@dataclass(frozen=True)
class Listed:
    """A snapshot that has these manifests."""

    files: Sequence[ManifestFile]

    def manifests(self, _io: FileIO) -> list[ManifestFile]:
        """The manifests."""
        return list(self.files)


@dataclass(frozen=True)
class Manifests:
    """Writes manifests into a folder."""

    folder: str
    io: FileIO
    schema: Schema

    def write(
        self,
        spec: PartitionSpec,
        entries: Sequence[Entry],
        *,
        sequence: int,
        deletes: bool = False,
        version: int = 2,
        snapshot_id: int = 1,
        older: bool = False,
    ) -> ManifestFile:
        """A manifest that a snapshot lists with a sequence number."""
        output = self.io.new_output(f"{self.folder}/m{next(_numbers)}.avro")
        with self._writer(spec, output, snapshot_id, version, deletes=deletes, older=older) as writer:
            for entry in entries:
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=entry.status,
                        snapshot_id=snapshot_id,
                        sequence_number=entry.sequence,
                        file_sequence_number=entry.file_sequence,
                        data_file=entry.file,
                    )
                )
        return self._listed(spec, output, len(entries), sequence, snapshot_id, deletes=deletes)

    def _writer(
        self, spec: PartitionSpec, output: OutputFile, snapshot_id: int, version: int, *, deletes: bool, older: bool
    ) -> ManifestWriter:
        if deletes:
            return DeleteManifestWriter(spec, self.schema, output, snapshot_id, "deflate")
        if older:
            return OlderManifestWriter(spec, self.schema, output, snapshot_id, "deflate")
        return write_manifest(version, spec, self.schema, output, snapshot_id, "deflate")  # type: ignore[arg-type]

    @staticmethod
    def _listed(
        spec: PartitionSpec, output: OutputFile, files: int, sequence: int, snapshot_id: int, *, deletes: bool
    ) -> ManifestFile:
        return ManifestFile.from_args(
            manifest_path=output.location,
            manifest_length=len(output),
            partition_spec_id=spec.spec_id,
            content=ManifestContent.DELETES if deletes else ManifestContent.DATA,
            sequence_number=sequence,
            min_sequence_number=0,
            added_snapshot_id=snapshot_id,
            added_files_count=files,
            existing_files_count=0,
            deleted_files_count=0,
            added_rows_count=0,
            existing_rows_count=0,
            deleted_rows_count=0,
            partitions=[],
            key_metadata=None,
        )


def file_of(path: str, size: int, partition: Sequence[object] = (), **more: Any) -> DataFile:
    """A data file, or another one where its content is given."""
    values: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_path": path,
        "file_format": FileFormat.PARQUET,
        "partition": Record(*partition),
        "record_count": 100,
        "file_size_in_bytes": size,
        "column_sizes": {},
        "value_counts": {},
        "null_value_counts": {},
        "nan_value_counts": {},
        "lower_bounds": {},
        "upper_bounds": {},
        "key_metadata": None,
        "split_offsets": None,
        "equality_ids": None,
        "sort_order_id": None,
        "spec_id": 0,
    }
    return DataFile.from_args(**(values | more))
