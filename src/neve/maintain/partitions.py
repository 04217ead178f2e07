"""What a table's manifests say of its partitions: whose they are, of when, and how large."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import DateType, TimestampType, TimestamptzType

from neve.lake.calendar import EPOCH, Unit
from neve.lake.statistics import TIME_COLUMNS
from neve.maintain.retention_plan import PartitionFacts
from neve.model.tables import ORGANIZATION

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

UNITS: dict[type, Unit] = {HourTransform: "hour", DayTransform: "day", MonthTransform: "month", YearTransform: "year"}
TIMES = (TimestamptzType, TimestampType, DateType)
Place = int | None


@dataclass(frozen=True)
class Layout:
    """Where a table keeps the time and the organization of its rows.

    `organization` is there only where today's partition spec parts the rows by it; files of older specs may not.
    """

    time: NestedField
    organization: NestedField | None
    unit: Unit | None

    @property
    def by_organization(self) -> bool:
        """Whether new files are of one organization each."""
        return self.organization is not None


def layout_of(table: Table, column: str = "") -> Layout | None:
    """The layout by the partition specs; none where there is no such column, or no time in it."""
    fields = {field.name: field for field in table.schema().fields}
    names = (column,) if column else TIME_COLUMNS
    time = next((fields[name] for name in names if name in fields), None)
    if time is None or not isinstance(time.field_type, TIMES):
        return None
    organization = fields.get(ORGANIZATION.name)
    specs = [spec for spec in table.specs().values() if spec.fields] or [table.spec()]
    units = {_unit(spec, time) for spec in specs}
    parted = organization is not None and _place_of(table.spec(), organization) is not None
    return Layout(time, organization if parted else None, units.pop() if len(units) == 1 else None)


def partitions_of(table: Table, layout: Layout) -> tuple[PartitionFacts, ...]:
    """The partitions of the current snapshot that have data files."""
    snapshot = table.current_snapshot()
    found: dict[tuple[str | None, int | None, bool], PartitionFacts] = {}
    for manifest in snapshot.manifests(table.io) if snapshot else []:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            if file.content == DataFileContent.DATA:
                facts = _facts(file, table.specs()[file.spec_id], layout)
                key = (facts.organization, facts.period, facts.mixed)
                found[key] = _sum(found[key], facts) if key in found else facts
    return tuple(found.values())


def _facts(file: DataFile, spec: PartitionSpec, layout: Layout) -> PartitionFacts:
    owner = _place_of(spec, layout.organization) if layout.organization else None
    time = next((place for place, field in enumerate(spec.fields) if _counts(field, layout.time)), None)
    period = file.partition[time] if layout.unit and time is not None else None
    return PartitionFacts(
        None if owner is None else file.partition[owner],
        period,
        files=1,
        rows=file.record_count,
        bytes=file.file_size_in_bytes,
        earliest=_earliest(file, layout.time),
        mixed=owner is None,
    )


def _earliest(file: DataFile, time: NestedField) -> datetime | None:
    lower = (file.lower_bounds or {}).get(time.field_id)
    if lower is None or isinstance(time.field_type, DateType):
        return None
    return EPOCH + timedelta(microseconds=int(from_bytes(TimestamptzType(), lower)))


def _sum(one: PartitionFacts, other: PartitionFacts) -> PartitionFacts:
    unknown = one.earliest is None or other.earliest is None
    return PartitionFacts(
        one.organization,
        one.period,
        one.files + other.files,
        one.rows + other.rows,
        one.bytes + other.bytes,
        None if unknown else min(one.earliest, other.earliest),  # type: ignore[type-var]
        one.mixed,
    )


def _unit(spec: PartitionSpec, time: NestedField) -> Unit | None:
    return next((UNITS[type(field.transform)] for field in spec.fields if _counts(field, time)), None)


def _counts(field: object, time: NestedField) -> bool:
    return getattr(field, "source_id", None) == time.field_id and type(getattr(field, "transform", None)) in UNITS


def _place_of(spec: PartitionSpec, column: NestedField) -> Place:
    return next(
        (
            place
            for place, field in enumerate(spec.fields)
            if field.source_id == column.field_id and isinstance(field.transform, IdentityTransform)
        ),
        None,
    )
