"""Layouts that may suit what is asked of a table; which of them do is for the estimate to say."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from pyiceberg.types import DateType, StringType

from neve.autopilot.estimate.columns import source_of
from neve.autopilot.estimate.plain import MICROS, NANOS
from neve.autopilot.layout import Layout, PartField, Promoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.types import IcebergType

    from neve.autopilot.recommend.demand import ColumnDemand, Demand
    from neve.autopilot.recommend_config import RecommendConfig

TENANT = "organization_id"
TIMES = (*MICROS, *NANOS)
TIME_TRANSFORMS = ("year", "month", "day", "hour")
BUCKETS = (4, 16, 64, 256)
MOST_ZORDERED = 3
SMALLEST_TARGET = 16 * 1024 * 1024


@dataclass(frozen=True)
class Ground:
    """What candidates are made from: the layout that is there, the demand, and what the columns are like."""

    current: Layout
    demand: Demand
    types: Mapping[str, IcebergType]
    distinct: Mapping[str, int]  # values in the sample
    files: int  # of the target size

    @property
    def tenant(self) -> tuple[PartField, ...]:
        """The partition field that stays first, where the table has one."""
        return tenant_of(self.current)

    @property
    def kept(self) -> tuple[PartField, ...]:
        """The partition fields that a table of tenants keeps: the tenant, and those of time."""
        return kept_fields(self.current)


def tenant_of(layout: Layout) -> tuple[PartField, ...]:
    """The field of the tenant, where a table is partitioned by tenants before all else."""
    first = layout.partition[:1]
    return first if first == (PartField(TENANT, "identity"),) else ()


def kept_fields(layout: Layout) -> tuple[PartField, ...]:
    """The fields that others rely on in a table of tenants: retention, compaction and rollups go by tenant and time.

    >>> fields = PartField(TENANT, "identity"), PartField("at", "day"), PartField("id", "bucket[4]")
    >>> [str(field) for field in kept_fields(Layout(fields))]
    ['organization_id', 'day(at)']
    """
    tenant = tenant_of(layout)
    return (*tenant, *(field for field in layout.partition if tenant and field.transform in TIME_TRANSFORMS))


@dataclass(frozen=True)
class Wish:
    """A column that a layout may be about; `promoted` where it is to be made of a map's key."""

    name: str
    kind: IcebergType
    asked: ColumnDemand
    promoted: Promoted | None = None

    @property
    def column(self) -> str:
        """What layouts call it."""
        return self.promoted.name if self.promoted else self.name


def wishes(ground: Ground, config: RecommendConfig) -> list[Wish]:
    """The columns that are filtered or ordered by often enough, the most wanted first."""
    found = []
    total = max(1, ground.demand.queries)
    ordered = ground.demand.ordered()
    for name, asked in ground.demand.filtered().items():
        if name not in ground.types or PartField(name, "identity") in ground.tenant:
            continue
        share, is_key = asked.queries / total, source_of(name).key is not None
        often = share >= config.promoted_share if is_key else share > config.filtered_share
        if often or (ordered[name] / total > config.ordered_share and not is_key):
            promoted = Promoted(column_name(name, ground.types), name) if is_key else None
            found.append(Wish(name, ground.types[name], asked, promoted))
    return found


def column_name(source: str, taken: Mapping[str, object]) -> str:
    """What a column of a map's key is called.

    >>> column_name("attributes['http.route']", {})
    'http_route'
    """
    name = re.sub(r"\W+", "_", source_of(source).key or source).strip("_").lower() or "value"
    return name if name not in taken else f"{source_of(source).top}_{name}"


def candidates(ground: Ground, config: RecommendConfig) -> list[Layout]:
    """Every layout that is worth an estimate, each once, without the one that is there."""
    wanted = wishes(ground, config)
    found: dict[Layout, None] = {}
    for partition, promoted in _partitions(ground, wanted, config):
        for layout in _orders(ground, wanted, partition, promoted):
            found[layout] = None
    for wish in wanted:
        if wish.promoted:
            found[replace(ground.current, promoted=(wish.promoted,))] = None
    found.update(dict.fromkeys(_sizes(ground.current)))
    found.pop(ground.current, None)
    return list(found)[: config.candidates]


Part = tuple[tuple[PartField, ...], tuple[Promoted, ...]]


def _partitions(ground: Ground, wanted: Sequence[Wish], config: RecommendConfig) -> Iterator[Part]:
    """The partition that is there, one by each column, with what is kept and without, and one by time and another."""
    yield ground.current.partition, ()
    single = [(wish, field) for wish in wanted for field in _fields(ground, wish, config)]
    for wish, field in single:
        yield (*ground.tenant, field), _promoted(wish)
        if not _is_time(wish.kind):
            yield (*ground.kept, field), _promoted(wish)
    for (one, first), (other, second) in combinations(single, 2):
        if one.name != other.name and (_is_time(one.kind) != _is_time(other.kind)):
            pair = (first, second) if _is_time(one.kind) else (second, first)
            yield (*ground.tenant, *pair), _promoted(one, other)


def _fields(ground: Ground, wish: Wish, config: RecommendConfig) -> Iterator[PartField]:
    asked, column = wish.asked, wish.column
    if _is_time(wish.kind):
        hours = () if isinstance(wish.kind, DateType) else ("hour",)
        yield from (PartField(column, transform) for transform in (*hours, "day", "month"))
        return
    if asked.points:
        if ground.distinct.get(wish.name, 0) <= config.identity_values:
            yield PartField(column, "identity")
        else:
            yield from (PartField(column, f"bucket[{number}]") for number in BUCKETS if number <= 2 * ground.files)
    if asked.prefixes and isinstance(wish.kind, StringType):
        lengths = {asked.prefix_length, max(1, asked.prefix_length // 2)}
        yield from (PartField(column, f"truncate[{length}]") for length in sorted(lengths))


def _orders(
    ground: Ground, wanted: Sequence[Wish], partition: tuple[PartField, ...], promoted: tuple[Promoted, ...]
) -> Iterator[Layout]:
    """The order that is there, a sort by each column or two that are used together, and z-orders of some."""
    base = replace(ground.current, partition=partition, promoted=promoted)
    yield base
    free = [wish for wish in wanted if PartField(wish.column, "identity") not in partition]
    for wish in free:
        yield _sorted(base, wish)
    together = ground.demand.together()
    for one, other in combinations(free, 2):
        if together[min(one.name, other.name), max(one.name, other.name)]:
            yield _sorted(base, *sorted((one, other), key=_ranges_last))
    for number in range(2, MOST_ZORDERED + 1):
        for some in combinations(free[: MOST_ZORDERED + 1], number):
            names = tuple(wish.column for wish in some)
            yield replace(base, sort=(), zorder=names, promoted=_with(base, *some))


def _sorted(base: Layout, *columns: Wish) -> Layout:
    return replace(base, sort=tuple(wish.column for wish in columns), zorder=(), promoted=_with(base, *columns))


def _ranges_last(wish: Wish) -> tuple[bool, int]:
    """Columns that are asked for single values come first in a sort: what follows is then sorted for each value."""
    return wish.asked.ranges > wish.asked.points, -wish.asked.queries


def _with(base: Layout, *columns: Wish) -> tuple[Promoted, ...]:
    return tuple(dict.fromkeys((*base.promoted, *_promoted(*columns))))


def _promoted(*columns: Wish) -> tuple[Promoted, ...]:
    return tuple(wish.promoted for wish in columns if wish.promoted)


def _is_time(kind: IcebergType) -> bool:
    return isinstance(kind, (DateType, *TIMES))


def _sizes(current: Layout) -> Iterator[Layout]:
    target = current.target_file_bytes or 0
    yield from (
        replace(current, target_file_bytes=part) for part in (target // 2, target // 4) if part >= SMALLEST_TARGET
    )
