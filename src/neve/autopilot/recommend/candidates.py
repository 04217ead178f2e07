"""Candidate layouts of a table, generated from the demand of its logged queries."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from pyiceberg.types import DateType, StringType

from neve.autopilot.estimate.columns import parse_column
from neve.autopilot.layout import Layout, PartField, Promoted
from neve.predicate.comparable import MICROS_TYPES, NANOS_TYPES
from neve.predicate.filters import AllOf, Test

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from pyiceberg.types import IcebergType

    from neve.autopilot.config import RecommendConfig
    from neve.autopilot.workload.queries import Query, TableUse
    from neve.predicate.filters import Filter


POINT_KINDS, RANGE_KINDS = ("eq", "in"), ("range",)
SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class ColumnDemand:
    """Number of queries that filter a column, by kind; `prefix_length` is the shortest prefix in a filter."""

    queries: int
    points: int
    ranges: int
    prefixes: int
    prefix_length: int


@dataclass(frozen=True)
class Demand:
    """All uses of a table, with the number of days in the log."""

    table: str
    uses: tuple[TableUse, ...]
    days: float

    @classmethod
    def of(cls, table: str, queries: Sequence[Query]) -> Demand:
        """Return the uses of a table; a log of less than a day counts as one day."""
        demand = [(query.at, use) for query in queries for use in query.uses if use.table == table]
        return cls(table, tuple(use for _at, use in demand), _count_days([at for at, _use in demand]))

    @property
    def queries(self) -> int:
        """The number of uses."""
        return len(self.uses)

    def count_filters(self) -> dict[str, ColumnDemand]:
        """Return the columns in filters, the one in most queries first."""
        seen: dict[str, list[set[int]]] = {}
        lengths: dict[str, int] = {}
        for number, use in enumerate(self.uses):
            for test in iter_prunable_tests(use.filter):
                every, points, ranges, prefixes = seen.setdefault(test.column, [set(), set(), set(), set()])
                every.add(number)
                if test.kind in POINT_KINDS:
                    points.add(number)
                elif test.kind in RANGE_KINDS:
                    ranges.add(number)
                elif test.kind == "prefix":
                    prefixes.add(number)
                    shortest = min(len(str(value)) for value in test.values)
                    lengths[test.column] = min(lengths.get(test.column, shortest), shortest)
        found = {name: _build_column_demand(sets, lengths.get(name, 0)) for name, sets in seen.items()}
        return dict(sorted(found.items(), key=lambda pair: (-pair[1].queries, pair[0])))

    def count_orders(self) -> Counter[str]:
        """Return how often a column leads an ORDER BY that can gain by a layout: with a filter, or with a LIMIT."""
        gaining = (use for use in self.uses if use.order_by and (use.limit is not None or use.filter != AllOf()))
        return Counter(use.order_by[0] for use in gaining)

    def count_pairs(self) -> Counter[tuple[str, str]]:
        """Return the number of queries that filter both of two columns."""
        pairs: Counter[tuple[str, str]] = Counter()
        for use in self.uses:
            names = sorted({test.column for test in iter_prunable_tests(use.filter)})
            pairs.update((a, b) for place, a in enumerate(names) for b in names[place + 1 :])
        return pairs


def iter_prunable_tests(node: Filter) -> Iterator[Test]:
    """Yield the tests of a filter that statistics may answer."""
    if not isinstance(node, Test):
        for part in node.parts:
            yield from iter_prunable_tests(part)
    elif node.kind != "other":
        yield node


def _build_column_demand(sets: Sequence[set[int]], prefix_length: int) -> ColumnDemand:
    every, points, ranges, prefixes = map(len, sets)
    return ColumnDemand(every, points, ranges, prefixes, prefix_length)


def _count_days(moments: Sequence[datetime]) -> float:
    if not moments:
        return 1.0
    return max(1.0, (max(moments) - min(moments)).total_seconds() / SECONDS_PER_DAY)


TENANT_COLUMN = "organization_id"
TIME_TYPES = (*MICROS_TYPES, *NANOS_TYPES)
TIME_TRANSFORMS = ("year", "month", "day", "hour")
BUCKET_COUNTS = (4, 16, 64, 256)
MAX_ZORDER_COLUMNS = 3
MIN_TARGET_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class CandidateInputs:
    """Inputs for candidates: the current layout, the demand, and the properties of the columns."""

    current: Layout
    demand: Demand
    types: Mapping[str, IcebergType]
    distinct: Mapping[str, int]  # values in the sample
    files: int  # of the target size

    @property
    def tenant(self) -> tuple[PartField, ...]:
        """The partition field of the tenant, which stays first, if the table has one."""
        return find_tenant_field(self.current)

    @property
    def required_fields(self) -> tuple[PartField, ...]:
        """The partition fields that a table with tenants keeps: the tenant, and those of time."""
        return find_required_fields(self.current)


def find_tenant_field(layout: Layout) -> tuple[PartField, ...]:
    """Return the field of the tenant, if it is the first partition field."""
    first = layout.partition[:1]
    return first if first == (PartField(TENANT_COLUMN, "identity"),) else ()


def find_required_fields(layout: Layout) -> tuple[PartField, ...]:
    """Return the fields that other jobs require in a table with tenants.

    Retention, compaction and rollups use tenant and time.

    >>> fields = PartField(TENANT_COLUMN, "identity"), PartField("at", "day"), PartField("id", "bucket[4]")
    >>> [str(field) for field in find_required_fields(Layout(fields))]
    ['organization_id', 'day(at)']
    """
    tenant = find_tenant_field(layout)
    return (*tenant, *(field for field in layout.partition if tenant and field.transform in TIME_TRANSFORMS))


@dataclass(frozen=True)
class CandidateColumn:
    """A column that a layout may use; `promoted` if it must be created from a map's key."""

    name: str
    kind: IcebergType
    demand: ColumnDemand
    promoted: Promoted | None = None

    @property
    def column(self) -> str:
        """The name of the column in layouts."""
        return self.promoted.name if self.promoted else self.name


def find_candidate_columns(inputs: CandidateInputs, config: RecommendConfig) -> list[CandidateColumn]:
    """Return the columns that are filtered or ordered by often enough, the most frequent first."""
    found = []
    total = max(1, inputs.demand.queries)
    ordered = inputs.demand.count_orders()
    for name, demand in inputs.demand.count_filters().items():
        if name not in inputs.types or PartField(name, "identity") in inputs.tenant:
            continue
        share, is_key = demand.queries / total, parse_column(name).key is not None
        often = share >= config.promoted_share if is_key else share > config.filtered_share
        if often or (ordered[name] / total > config.ordered_share and not is_key):
            promoted = Promoted(name_promoted_column(name, inputs.types), name) if is_key else None
            found.append(CandidateColumn(name, inputs.types[name], demand, promoted))
    return found


def name_promoted_column(source: str, taken: Mapping[str, object]) -> str:
    """Return the name of the column for a map's key.

    >>> name_promoted_column("attributes['http.route']", {})
    'http_route'
    """
    name = re.sub(r"\W+", "_", parse_column(source).key or source).strip("_").lower() or "value"
    return name if name not in taken else f"{parse_column(source).top}_{name}"


def generate_candidates(inputs: CandidateInputs, config: RecommendConfig) -> list[Layout]:
    """Return every layout that is worth an estimate, each once, without the current one."""
    candidates = find_candidate_columns(inputs, config)
    found: dict[Layout, None] = {}
    for partition, promoted in _generate_partitions(inputs, candidates, config):
        for layout in _generate_orders(inputs, candidates, partition, promoted):
            found[layout] = None
    for candidate in candidates:
        if candidate.promoted:
            found[replace(inputs.current, promoted=(candidate.promoted,))] = None
    found.update(dict.fromkeys(_generate_sizes(inputs.current)))
    found.pop(inputs.current, None)
    return list(found)[: config.candidates]


Partitioning = tuple[tuple[PartField, ...], tuple[Promoted, ...]]


def _generate_partitions(
    inputs: CandidateInputs, candidates: Sequence[CandidateColumn], config: RecommendConfig
) -> Iterator[Partitioning]:
    """Yield partitionings: the current one, one by each column, and one by time and a column.

    Those by a column come with and without the kept fields.
    """
    yield inputs.current.partition, ()
    single = [(candidate, field) for candidate in candidates for field in _generate_fields(inputs, candidate, config)]
    for candidate, field in single:
        yield (*inputs.tenant, field), _list_promoted(candidate)
        if not _is_time(candidate.kind):
            yield (*inputs.required_fields, field), _list_promoted(candidate)
    for (one, first), (other, second) in combinations(single, 2):
        if one.name != other.name and (_is_time(one.kind) != _is_time(other.kind)):
            pair = (first, second) if _is_time(one.kind) else (second, first)
            yield (*inputs.tenant, *pair), _list_promoted(one, other)


def _generate_fields(
    inputs: CandidateInputs, candidate: CandidateColumn, config: RecommendConfig
) -> Iterator[PartField]:
    demand, column = candidate.demand, candidate.column
    if _is_time(candidate.kind):
        hours = () if isinstance(candidate.kind, DateType) else ("hour",)
        yield from (PartField(column, transform) for transform in (*hours, "day", "month"))
        return
    if demand.points:
        if inputs.distinct.get(candidate.name, 0) <= config.identity_values:
            yield PartField(column, "identity")
        else:
            yield from (
                PartField(column, f"bucket[{number}]") for number in BUCKET_COUNTS if number <= 2 * inputs.files
            )
    if demand.prefixes and isinstance(candidate.kind, StringType):
        lengths = {demand.prefix_length, max(1, demand.prefix_length // 2)}
        yield from (PartField(column, f"truncate[{length}]") for length in sorted(lengths))


def _generate_orders(
    inputs: CandidateInputs,
    candidates: Sequence[CandidateColumn],
    partition: tuple[PartField, ...],
    promoted: tuple[Promoted, ...],
) -> Iterator[Layout]:
    """Yield the current order, a sort by each column or by two columns that are used together, and some z-orders."""
    base = replace(inputs.current, partition=partition, promoted=promoted)
    yield base
    free = [candidate for candidate in candidates if PartField(candidate.column, "identity") not in partition]
    for candidate in free:
        yield _sort_layout(base, candidate)
    together = inputs.demand.count_pairs()
    for one, other in combinations(free, 2):
        if together[min(one.name, other.name), max(one.name, other.name)]:
            yield _sort_layout(base, *sorted((one, other), key=_equality_first))
    for number in range(2, MAX_ZORDER_COLUMNS + 1):
        for some in combinations(free[: MAX_ZORDER_COLUMNS + 1], number):
            names = tuple(candidate.column for candidate in some)
            yield replace(base, sort=(), zorder=names, promoted=_merge_promoted(base, *some))


def _sort_layout(base: Layout, *columns: CandidateColumn) -> Layout:
    return replace(
        base, sort=tuple(candidate.column for candidate in columns), zorder=(), promoted=_merge_promoted(base, *columns)
    )


def _equality_first(candidate: CandidateColumn) -> tuple[bool, int]:
    """Return a sort key that puts columns with equality filters first.

    The following columns are then sorted within each value.
    """
    return candidate.demand.ranges > candidate.demand.points, -candidate.demand.queries


def _merge_promoted(base: Layout, *columns: CandidateColumn) -> tuple[Promoted, ...]:
    return tuple(dict.fromkeys((*base.promoted, *_list_promoted(*columns))))


def _list_promoted(*columns: CandidateColumn) -> tuple[Promoted, ...]:
    return tuple(candidate.promoted for candidate in columns if candidate.promoted)


def _is_time(kind: IcebergType) -> bool:
    return isinstance(kind, (DateType, *TIME_TYPES))


def _generate_sizes(current: Layout) -> Iterator[Layout]:
    target = current.target_file_bytes or 0
    yield from (
        replace(current, target_file_bytes=part) for part in (target // 2, target // 4) if part >= MIN_TARGET_BYTES
    )
