"""The metadata of a table on this machine, without pyiceberg's tables, which take longer to import than to use.

Metadata files are JSON, and pyiceberg's native module reads manifests. Names and meanings are those of pyiceberg's
tables, so that functions of metadata take both. Schemas, partition specs and manifests are pyiceberg's own, which is
imported in part when the first of them is needed. Whatever is unusual is left to pyiceberg: it raises `ValueError`,
`KeyError` or `TypeError` here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.transforms import Transform

UNREADABLE = (OSError, ValueError, KeyError, TypeError, OverflowError)  # errors that leave a table to pyiceberg
OLDEST_FORMAT = 2
DELETED, DELETES = 2, 1  # status of a manifest entry; content of a manifest
AVRO_MAGIC, SYNC_BYTES = b"Obj\x01", 16
NO_SNAPSHOT = -1  # as some writers note it


class Operation(StrEnum):
    """Operation of a snapshot."""

    APPEND = "append"
    REPLACE = "replace"
    OVERWRITE = "overwrite"
    DELETE = "delete"


@dataclass(frozen=True)
class LocalSummary:
    """Summary of a snapshot."""

    operation: Operation
    additional_properties: Mapping[str, str]


@dataclass(frozen=True)
class LocalSnapshot:
    """A snapshot of a table."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    manifest_list: str
    summary: LocalSummary | None
    schema_id: int | None = None

    def manifests(self, io: FileIO) -> list[ManifestFile]:
        """Return the manifests of the snapshot."""
        from pyiceberg.manifest import read_manifest_list  # noqa: PLC0415 - most readers of metadata need no manifest

        return list(read_manifest_list(io.new_input(self.manifest_list)))


class SortDirection(StrEnum):
    """Direction of a sort field."""

    ASC = "asc"
    DESC = "desc"


class NullOrder(StrEnum):
    """Place of rows without a value."""

    NULLS_FIRST = "nulls-first"
    NULLS_LAST = "nulls-last"


@dataclass(frozen=True)
class LocalSortField:
    """A field of a sort order."""

    source_id: int
    transform: Transform[Any, Any]
    direction: SortDirection
    null_order: NullOrder


@dataclass(frozen=True)
class LocalSortOrder:
    """A sort order of a table."""

    order_id: int
    fields: tuple[LocalSortField, ...]


@dataclass(frozen=True)
class LocalMetadata:
    """The metadata of a table, as its last commit wrote it."""

    document: Mapping[str, Any]
    snapshots: list[LocalSnapshot]
    current_snapshot_id: int | None
    properties: Mapping[str, str]

    def snapshot_by_id(self, snapshot_id: int) -> LocalSnapshot | None:
        """Return a snapshot, or `None` if the table does not retain it."""
        return next((one for one in self.snapshots if one.snapshot_id == snapshot_id), None)

    def current_snapshot(self) -> LocalSnapshot | None:
        """Return the current snapshot, if there is one."""
        return None if self.current_snapshot_id is None else self.snapshot_by_id(self.current_snapshot_id)

    @property
    def table_uuid(self) -> str:
        """The id that the table keeps when it is renamed."""
        return str(self.document["table-uuid"])

    @property
    def current_schema_id(self) -> int:
        """The id of the current schema."""
        return int(self.document["current-schema-id"])

    @property
    def format_version(self) -> int:
        """The version of the table format."""
        return int(self.document["format-version"])

    @property
    def default_sort_order_id(self) -> int:
        """The id of the sort order of new files."""
        return int(self.document["default-sort-order-id"])

    @property
    def default_spec_id(self) -> int:
        """The id of the partition spec of new files."""
        return int(self.document["default-spec-id"])

    @cached_property
    def schemas(self) -> list[Schema]:
        """The schemas that the table has had."""
        from pyiceberg.schema import Schema  # noqa: PLC0415 - most readers of metadata need no schema

        return [Schema.model_validate(one) for one in self.document["schemas"]]

    def schema(self) -> Schema:
        """Return the current schema."""
        return next(one for one in self.schemas if one.schema_id == self.current_schema_id)

    @cached_property
    def partition_specs(self) -> list[PartitionSpec]:
        """The partition specs that the table has had."""
        from pyiceberg.partitioning import PartitionSpec  # noqa: PLC0415 - as for schemas

        return [PartitionSpec.model_validate(one) for one in self.document["partition-specs"]]

    def specs(self) -> dict[int, PartitionSpec]:
        """Return the partition specs by their ids."""
        return {one.spec_id: one for one in self.partition_specs}


class LocalTable:
    """Table on this machine. It has all attributes of pyiceberg's, which it opens when one of them is needed."""

    def __init__(
        self,
        identifier: tuple[str, ...],
        location: str,
        open_whole: Callable[[], Table],
        catalog_properties: Mapping[str, str] | None = None,
    ) -> None:
        self.identifier = identifier
        self.metadata_location = location
        self.metadata = _read_metadata(location)
        self._open_whole = open_whole
        self._catalog_properties = catalog_properties or {}

    @cached_property
    def whole(self) -> Table:
        """The table of pyiceberg."""
        return self._open_whole()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a protocol of Python, such as copying
            raise AttributeError(name)
        return getattr(self.whole, name)

    def name(self) -> tuple[str, ...]:
        """Return the identifier of the table."""
        return self.identifier

    def current_snapshot(self) -> LocalSnapshot | None:
        """Return the current snapshot, if there is one."""
        return self.metadata.current_snapshot()

    def snapshot_by_id(self, snapshot_id: int) -> LocalSnapshot | None:
        """Return a snapshot, or `None` if the table does not retain it."""
        return self.metadata.snapshot_by_id(snapshot_id)

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the table."""
        return self.metadata.properties

    def schema(self) -> Schema:
        """Return the current schema."""
        return self.metadata.schema()

    def location(self) -> str:
        """Return the folder of the table."""
        return str(self.metadata.document["location"])

    def specs(self) -> dict[int, PartitionSpec]:
        """Return the partition specs that the table has had, by their ids."""
        return self.metadata.specs()

    def spec(self) -> PartitionSpec:
        """Return the partition spec of new files."""
        return self.specs()[self.metadata.default_spec_id]

    def sort_order(self) -> LocalSortOrder:
        """Return the sort order of new files."""
        try:
            orders = {int(one["order-id"]): one for one in self.metadata.document["sort-orders"]}
            return _parse_sort_order(orders[self.metadata.default_sort_order_id])
        except UNREADABLE:
            return cast("LocalSortOrder", self.whole.sort_order())

    def schemas(self) -> dict[int, Schema]:
        """Return the schemas that the table has had, by their ids."""
        return {one.schema_id: one for one in self.metadata.schemas}

    @cached_property
    def io(self) -> FileIO:
        """Access to the files of the table."""
        from pyiceberg.io import load_file_io  # noqa: PLC0415 - most readers of metadata need no files

        return load_file_io({**self._catalog_properties, **self.properties}, self.metadata_location)

    def field_id(self, *names: str) -> int | None:
        """Return the id of the first column that has one of the names."""
        document = self.metadata.document
        schema = {one["schema-id"]: one for one in document["schemas"]}[document["current-schema-id"]]
        return next((one["id"] for one in schema["fields"] if one["name"] in names), None)

    def data_files(self) -> Iterator[Any]:
        """Yield the data files of the current snapshot, with the attributes of pyiceberg's. Deletes are not read."""
        from pyiceberg_core import manifest  # noqa: PLC0415 - most readers of metadata need no files

        snapshot = self.current_snapshot()
        for one in _parse_avro(manifest.read_manifest_list, snapshot.manifest_list) if snapshot else []:
            has_files = one.added_files_count != 0 or one.existing_files_count != 0
            if has_files and one.content != DELETES:
                entries = _parse_avro(manifest.read_manifest_entries, one.manifest_path)
                yield from (entry.data_file for entry in entries if entry.status != DELETED)


def _parse_sort_order(document: Mapping[str, Any]) -> LocalSortOrder:
    from pyiceberg.transforms import parse_transform  # noqa: PLC0415 - most readers of metadata need no sort order

    fields = [
        LocalSortField(
            one["source-id"],
            parse_transform(one["transform"]),
            SortDirection(one["direction"]),
            NullOrder(one["null-order"]),
        )
        for one in document["fields"]
    ]
    return LocalSortOrder(document["order-id"], tuple(fields))


def _parse_snapshot(document: Mapping[str, Any]) -> LocalSnapshot:
    summary: dict[str, str] | None = document.get("summary")
    return LocalSnapshot(
        snapshot_id=document["snapshot-id"],
        parent_snapshot_id=document.get("parent-snapshot-id"),
        sequence_number=document["sequence-number"],
        timestamp_ms=document["timestamp-ms"],
        manifest_list=document["manifest-list"],
        summary=_parse_summary(summary) if summary else None,
        schema_id=document.get("schema-id"),
    )


def _parse_summary(summary: Mapping[str, str]) -> LocalSummary:
    words = {key: value for key, value in summary.items() if key != "operation"}
    return LocalSummary(Operation(summary["operation"]), words)


def _read_metadata(location: str) -> LocalMetadata:
    document: dict[str, Any] = json.loads(_read_file(location))
    if document["format-version"] < OLDEST_FORMAT:
        raise ValueError("the metadata has an older format")
    current: int | None = document.get("current-snapshot-id")
    return LocalMetadata(
        document,
        snapshots=[_parse_snapshot(one) for one in document.get("snapshots") or []],
        current_snapshot_id=None if current == NO_SNAPSHOT else current,
        properties=document.get("properties") or {},
    )


def _parse_avro(parse: Callable[[bytes], Any], place: str) -> list[Any]:
    """Return the entries of an Avro file. Raises `ValueError` if it is not whole: the native module would panic."""
    data = _read_file(place)
    if not data.startswith(AVRO_MAGIC) or data.count(data[-SYNC_BYTES:]) == 1:  # each block ends with the same marker
        raise ValueError("not a whole Avro file")
    try:
        return list(parse(data).entries())
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a class without a module to import it from
            raise
        raise ValueError("the native module can't read the file") from error


def _read_file(place: str) -> bytes:
    """Read a local file. Raises `ValueError` if it is elsewhere."""
    path = place.removeprefix("file://") if place.startswith("file:///") else place
    if not path.startswith("/"):
        raise ValueError("not a local path")
    with open(path, "rb") as file:
        return file.read()
