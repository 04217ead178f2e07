"""Plan the files of a table that a scan must read, from Iceberg metadata alone.

A plan marks the files that have only rows of the requested time range, and has the reason why DuckDB can't read the
table, if there is one. DuckDB matches columns by their ids but members of structs by their names, so these must never
have changed their meaning.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import And
from pyiceberg.expressions.literals import TimestampLiteral
from pyiceberg.manifest import FileFormat
from pyiceberg.types import ListType, MapType, StructType, TimestamptzType
from pyiceberg.utils.datetime import datetime_to_micros

from neve.lake.calendar import EPOCH
from neve.lake.read.manifest_cache import DeleteFiles, ManifestCache, count_live_files
from neve.lake.read.snapshot_files import holds_deletes
from neve.predicate.expressions import all_of, compare_column
from neve.predicate.pruning import Pruner
from neve.query.planning.tenancy import TENANT, FileOwners, check_tenant
from neve.query.request import TimeRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType

    from neve.lake.read.manifest_cache import FileEntry
    from neve.query.planning.scans import Scan


# Columns are matched by their ids. Members of structs within columns are matched by their names, so these must never
# have changed their meaning.

NAME_MAPPING = "schema.name-mapping.default"
PLAIN_NAME = re.compile(r"^[A-Za-z_]\w*$", re.ASCII)  # other names are escaped in files
Member = tuple[int, tuple[str, ...], int]


def duckdb_obstacle(metadata: TableMetadata, files: Iterable[FileEntry]) -> str:
    """Return the reason to read these files with Spark, or an empty text if there is none."""
    schema = metadata.schema()
    if any(column.initial_default is not None for column in schema.fields):
        return "a column has a default for files that lack it, which only Spark fills in"
    if NAME_MAPPING in metadata.properties:
        return f"files may have columns without ids ({NAME_MAPPING}), which only Spark finds"
    others = {str(entry.file_format.value) for entry in files} - {FileFormat.PARQUET.value}
    if others:
        return f"files are {', '.join(sorted(others)).lower()}, which only Spark reads"
    return _find_renamed_member(schema, metadata.schemas)


def _find_renamed_member(schema: Schema, history: Iterable[Schema]) -> str:
    """Return a struct member that did not have one name and one id in the whole history of the table."""
    now = set(_struct_members(schema))
    names = {(column, path): number for column, path, number in now}
    numbers = {(column, number): path for column, path, number in now}
    for column, path, number in {member for older in history for member in _struct_members(older)} | now:
        is_same = names.get((column, path), number) == number and numbers.get((column, number), path) == path
        if not is_same or not all(map(PLAIN_NAME.match, path)):
            return f"{'.'.join((schema.find_column_name(column) or '', *path))} was renamed, which only Spark follows"
    return ""


def _struct_members(schema: Schema) -> Iterator[Member]:
    """Yield all members of structs: the id of the column, the names from there on, and the id of the member."""
    for column in schema.fields:
        for path, number in _nested_members(column.field_type, ()):
            yield column.field_id, path, number


def _nested_members(kind: IcebergType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    match kind:
        case StructType():
            for member in kind.fields:
                yield (*path, member.name), member.field_id
                yield from _nested_members(member.field_type, (*path, member.name))
        case ListType():
            yield from _nested_members(kind.element_type, (*path, "element"))
        case MapType():
            yield from _nested_members(kind.key_type, (*path, "key"))
            yield from _nested_members(kind.value_type, (*path, "value"))


TIME = "timestamp"


def time_bounds(schema: Schema, time: TimeRange) -> list[tuple[str, int]]:
    """Return the comparisons that rows must pass, with times in microseconds. A table without a timestamp has none."""
    if TIME not in schema.column_names or not isinstance(schema.find_type(TIME), TimestamptzType):
        return []
    ends = ((">=", time.since), ("<", time.until))
    return [(operator, to_micros(moment)) for operator, moment in ends if moment is not None]


def to_micros(moment: datetime) -> int:
    """Return microseconds since 1970. A time without a zone is in UTC."""
    return datetime_to_micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def time_predicate(schema: Schema, time: TimeRange) -> BooleanExpression:
    """Return the predicate for rows of a time range."""
    return all_of(
        [compare_column(TIME, operator, TimestampLiteral(moment)) for operator, moment in time_bounds(schema, time)]
    )


def time_span(schema: Schema, entries: Iterable[FileEntry]) -> tuple[datetime | None, datetime | None]:
    """Return the earliest and the latest timestamp of some files, from their bounds."""
    if TIME not in schema.column_names or not isinstance(schema.find_type(TIME), TimestamptzType):
        return None, None
    column = schema.find_field(TIME).field_id
    found = [(entry.lower_bounds.get(column), entry.upper_bounds.get(column)) for entry in entries]
    known = [
        (_bound_moment(lower), _bound_moment(upper))
        for lower, upper in found
        if lower is not None and upper is not None
    ]
    return min((first for first, _ in known), default=None), max((last for _, last in known), default=None)


def _bound_moment(bound: bytes) -> datetime:
    return EPOCH + timedelta(microseconds=int(from_bytes(TimestamptzType(), bound)))


def make_inside_check(schema: Schema, time: TimeRange) -> Callable[[FileEntry], bool]:
    """Return a check whether all rows of a file are in a time range, by its bounds. Such rows need no check each."""
    bounds = time_bounds(schema, time)
    if not bounds:
        return lambda _entry: True
    column = schema.find_field(TIME)

    def is_inside(entry: FileEntry) -> bool:
        lower, upper = entry.lower_bounds.get(column.field_id), entry.upper_bounds.get(column.field_id)
        has_nulls = not column.required and entry.null_value_counts.get(column.field_id) != 0
        if lower is None or upper is None or has_nulls:
            return False
        first, last = (int(from_bytes(TimestamptzType(), bound)) for bound in (lower, upper))
        return all(first >= moment if operator == ">=" else last < moment for operator, moment in bounds)

    return is_inside


def make_outside_check(schema: Schema, time: TimeRange) -> Callable[[FileEntry], bool]:
    """Return a check whether no row of a file is in a time range, by its bounds alone: cheaper than an expression."""
    bounds = time_bounds(schema, time)
    if not bounds:
        return lambda _entry: False
    column = schema.find_field(TIME).field_id

    def is_outside(entry: FileEntry) -> bool:
        lower, upper = entry.lower_bounds.get(column), entry.upper_bounds.get(column)
        if lower is None or upper is None:
            return False
        first, last = (int.from_bytes(bound, "little", signed=True) for bound in (lower, upper))
        return any(last < moment if operator == ">=" else first >= moment for operator, moment in bounds)

    return is_outside


OWNERS = 64  # organizations and tables whose manifests are remembered
FEW_FILES = 50  # of a manifest: each is examined sooner than the manifest
READ_AT_ONCE = 8  # files that are read for an id sooner than the index
COUNTED_AT_MOST = 20_000  # files that are examined in one plan only to count pruned files

Tokens = tuple[tuple[str, frozenset[str]], ...]
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PlannedFile:
    """A data file, its delete files, and rows `[first, end)` that may match (none: all).

    `is_inside` is true if all of its rows are in the planned time range. `owner` is the organization to which all of
    its rows are known to belong, if there is one.
    """

    path: str
    bytes: int
    rows: int
    deletes: tuple[str, ...] = ()
    ranges: Ranges = ()
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    is_inside: bool = False
    owner: str | None = None


@dataclass(frozen=True)
class FilePlan:
    """Files to read of a table at a snapshot. `only_spark` is the reason why DuckDB can't read them."""

    table: str
    snapshot: int | None
    files: tuple[PlannedFile, ...]
    bytes: int
    pruned_files: int
    pruned_bytes: int
    only_spark: str = ""
    time: TimeRange = field(default_factory=TimeRange)


WordIndex = Callable[[str, str, Sequence[PlannedFile], Tokens], Sequence[PlannedFile]]


class FilePlanner:
    """Planner of scans that uses Iceberg metadata alone. Manifests are read once.

    An `index` removes files that can't contain the words of a scan, or narrows them to rows.
    """

    def __init__(self, index: WordIndex | None = None, manifests: ManifestCache | None = None) -> None:
        self._index = index
        self._manifests = manifests or ManifestCache()
        self._owners: OrderedDict[tuple[Any, ...], Pruner] = OrderedDict()
        self._lock = threading.Lock()

    def plan(self, table: Table, scan: Scan, organization: str, time: TimeRange, since_sequence: int = 0) -> FilePlan:
        """Return the files of the current snapshot that may contain rows of the organization that match the scan.

        Files of commits up to the sequence number `since_sequence` are left out. They do not count as pruned.
        """
        schema = table.schema()
        own = self._prune_owner(table, organization)
        wanted = Pruner(table.metadata, And(scan.predicate, time_predicate(schema, time)))
        found = _Candidates(make_outside_check(schema, time))
        for manifest in self._manifests.of(table):
            is_old = (manifest.sequence_number or 0) <= since_sequence and not holds_deletes(manifest)
            if not (since_sequence and is_old) and own.manifest(manifest):
                self._look_into(table, manifest, own, wanted, found)
        found.data = [entry for entry in found.data if entry.sequence > since_sequence]
        return self._finish(table, scan, organization, time, found)

    def find_owned_files(self, table: Table, organization: str) -> list[FileEntry]:
        """Return the data files that may contain rows of the organization."""
        own = self._prune_owner(table, organization)
        return [
            entry
            for manifest in self._manifests.of(table)
            if not holds_deletes(manifest) and own.manifest(manifest)
            for entry in self._manifests.entries(table, manifest)
            if own.file(entry)
        ]

    def _prune_owner(self, table: Table, organization: str) -> Pruner:
        """Return the pruner for files of an organization, which remembers its results for a version of the table."""
        metadata = table.metadata
        key = (metadata.table_uuid, metadata.current_schema_id, metadata.current_snapshot_id, organization)
        with self._lock:
            if key not in self._owners:
                self._owners[key] = Pruner(metadata, tenant_predicate(table, organization))
                if len(self._owners) > OWNERS:
                    self._owners.popitem(last=False)
            self._owners.move_to_end(key)
            return self._owners[key]

    def _look_into(self, table: Table, manifest: ManifestFile, own: Pruner, wanted: Pruner, found: _Candidates) -> None:
        is_held = self._manifests.holds(manifest) and count_live_files(manifest) <= FEW_FILES
        is_wanted = (is_held and not holds_deletes(manifest)) or wanted.manifest(manifest)
        if holds_deletes(manifest):
            if is_wanted:
                some = self._manifests.entries(table, manifest)
                found.deletes += [
                    entry
                    for entry in some
                    if own.partition(entry.spec_id, entry.partition)
                    and wanted.partition(entry.spec_id, entry.partition)
                ]
            return
        if not is_wanted and not self._manifests.holds(manifest):
            found.counted += count_live_files(manifest)
            if found.counted > COUNTED_AT_MOST:  # the owner of these files is not examined, so none is counted
                return
        for entry in self._manifests.entries(table, manifest):
            if not own.file(entry):
                continue
            if is_wanted and not found.is_outside(entry) and wanted.file(entry):
                found.data.append(entry)
            else:
                found.prune(entry.file_size_in_bytes)

    def _finish(self, table: Table, scan: Scan, organization: str, time: TimeRange, found: _Candidates) -> FilePlan:
        deletes = DeleteFiles(found.deletes)
        is_inside, owners = make_inside_check(table.schema(), time), FileOwners(table.metadata)
        files: Sequence[PlannedFile] = [
            _plan_file(entry, deletes, is_inside(entry), owners.of(entry)) for entry in found.data
        ]
        words = (*scan.tokens, *(scan.ids if len(files) > READ_AT_ONCE else ()))
        if self._index is not None and words:
            candidates = {file.path: file for file in files}
            files = self._index(scan.table, organization, files, words)
            for path in candidates.keys() - {file.path for file in files}:
                found.prune(candidates[path].bytes)
        return FilePlan(
            table=table.name()[-1],
            snapshot=table.metadata.current_snapshot_id,
            files=tuple(files),
            bytes=sum(file.bytes for file in files),
            pruned_files=found.pruned_files,
            pruned_bytes=found.pruned_bytes,
            only_spark=deletes.only_spark or duckdb_obstacle(table.metadata, found.data),
            time=time,
        )


@dataclass
class _Candidates:
    """Files found so far."""

    is_outside: Callable[[FileEntry], bool]
    data: list[FileEntry] = field(default_factory=list)
    deletes: list[FileEntry] = field(default_factory=list)
    pruned_files: int = 0
    pruned_bytes: int = 0
    counted: int = 0

    def prune(self, size: int) -> None:
        """Count a file of the organization as pruned."""
        self.pruned_files += 1
        self.pruned_bytes += size


def tenant_predicate(table: Table, organization: str) -> BooleanExpression:
    """Return the predicate for the organization's rows. Raises `QueryError` if the table can't identify them."""
    check_tenant(table.schema(), table.name()[-1])
    return compare_column(TENANT, "=", organization)


def _plan_file(entry: FileEntry, deletes: DeleteFiles, inside: bool, owner: str | None) -> PlannedFile:
    return PlannedFile(
        path=entry.file_path,
        bytes=entry.file_size_in_bytes,
        rows=entry.record_count,
        deletes=deletes.of(entry),
        spec_id=entry.spec_id,
        partition=entry.partition,
        is_inside=inside,
        owner=owner,
    )
