"""Convert points to items: drop duplicates and points without a value, compute deltas, and choose the row of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.rollup.arrays import array_column, floats, int_column, is_known, number_values, order_by, split_lists
from neve.rollup.cumulative_to_delta import (
    Contribution,
    Histograms,
    PointTimes,
    classify_points,
    difference,
    subtract_previous,
)
from neve.rollup.histograms import ExplicitHistograms, ExponentialHistograms
from neve.rollup.items import Items
from neve.rollup.series import HyperLogLog
from neve.rollup.series_identity import SeriesIdentity, raw_names

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from neve.lake.time_ranges import Ranges
    from neve.rollup.definition import Definition

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

GAUGE, SUM, HISTOGRAM, EXPONENTIAL, SUMMARY, OTHER = range(6)
TYPES = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
DELTA, CUMULATIVE = 1, 2
NO_VALUE = 1  # the flag
MICRO = 1000  # nanoseconds

COLUMNS = (
    *("organization_id", "timestamp", "metric_name", "metric_type", "value", "count", "sum", "min", "max", "unit"),
    *("aggregation_temporality", "is_monotonic", "time_unix_nano", "start_time_unix_nano", "flags", "value_int"),
    *("explicit_bounds", "bucket_counts", "scale", "zero_count", "zero_threshold", "positive", "negative"),
    *("quantile_values", "attributes", "attribute_types", "resource_attrs", "resource_attr_types"),
    *("scope_name", "scope_version", "scope_attrs", "scope_attr_types", "record_id"),
)


@dataclass(frozen=True)
class PointCounts:
    """Counts of the points in the computed windows: all of them, and those that did not become items.

    `unknown` are points whose contribution is not known: the start of their count, or their temporality, is unknown.
    """

    points: int
    duplicates: int
    without_value: int
    unknown: int = 0


@dataclass(frozen=True)
class SortedPoints:
    """Points with a value, by raw series and time. `order` has the table row of each."""

    table: pa.Table
    order: Ints
    names: npt.NDArray[np.uint64]
    metric: npt.NDArray[np.uint64]
    type: Ints
    timestamp: Ints
    time: Ints
    start: Ints
    count: Ints
    temporality: Ints
    monotonic: Mask

    @property
    def cumulative(self) -> Mask:
        """Return a mask of cumulative points."""
        return np.asarray(((self.temporality == CUMULATIVE) & (self.type != GAUGE)) | (self.type == SUMMARY))

    @property
    def has_unknown_temporality(self) -> Mask:
        """Return a mask of points of unknown temporality: they may be cumulative or delta."""
        counts = np.isin(self.temporality, (DELTA, CUMULATIVE)) | self.of(GAUGE, SUMMARY)
        return np.asarray(~counts & ~(self.of(SUM) & ~self.monotonic))

    def of(self, *types: int) -> Mask:
        """Return a mask of the points of some types."""
        return np.isin(self.type, types)

    def floats(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column of numbers, with NaN for null."""
        return floats(self.table, name)[self.order]

    @cached_property
    def ints(self) -> tuple[Mask, Ints]:
        """Return a mask of points with an integer value, and the integers: a float would not be exact."""
        return is_known(self.table, "value_int")[self.order], int_column(self.table, "value_int")[self.order]

    def rows(self, mine: Ints, *names: str) -> pa.Table:
        """Return some columns of some of the points."""
        return self.table.select(names).take(pa.array(self.order[mine])).combine_chunks()


def items_of_points(
    table: pa.Table, definition: Definition, wanted: Ranges, micros: int
) -> tuple[Items, SeriesIdentity, pa.Table, PointCounts]:
    """Return the items of the points in the wanted time. Earlier points are only used for comparison.

    Also return the identity of each point, the table of the examined points, and the counts.
    """
    there = np.asarray(wanted.holds(int_column(table, "timestamp")))
    unique = _first_of_each(table)
    distinct = table if unique is None else table.take(pa.array(unique))
    kind = _types(distinct)
    usable = _has_value(distinct, kind)
    chosen = distinct if usable.all() else distinct.filter(pa.array(usable)).combine_chunks()
    identity = SeriesIdentity.of(chosen, definition)
    points = _sort_points(chosen, identity, kind[usable])
    counted = there if unique is None else there[unique]
    items = _items(points, identity, definition, wanted, micros)
    counts = PointCounts(
        points=int(there.sum()),
        duplicates=int(there.sum() - counted.sum()),
        without_value=int((counted & ~usable).sum()),
        unknown=int((counted & usable).sum()) - len(items.row),
    )
    return items, identity, chosen, counts


def _first_of_each(table: pa.Table) -> Ints | None:
    """Return one row of each record, or `None` if all are distinct."""
    ids = array_column(table, "record_id")
    if len(ids) == ids.null_count:
        return None
    words = record_id_words(ids)
    in_order = np.sort(words[:, 0])
    if not (in_order[1:] == in_order[:-1]).any():
        return None
    order = order_by((words[:, 0], words[:, 1]))
    same = np.zeros(len(words), dtype=bool)
    same[1:] = (words[order][1:] == words[order][:-1]).all(axis=1)
    same &= np.asarray(pc.is_valid(ids))[order]
    return np.sort(order[~same]) if same.any() else None


def record_id_words(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the two words of each record id, which sort as its bytes do, or zeros for none."""
    fixed = pc.cast(pc.fill_null(pc.cast(ids, pa.binary()), b"\0" * 16), pa.binary(16))
    buffer = fixed.buffers()[1]
    words = np.frombuffer(buffer, ">u8")[fixed.offset * 2 : (fixed.offset + len(fixed)) * 2]
    return words.reshape(-1, 2).astype(np.uint64)


def _types(table: pa.Table) -> Ints:
    found = pc.index_in(array_column(table, "metric_type").cast(pa.string()), pa.array(TYPES))
    return np.asarray(found.fill_null(OTHER)).astype(np.int64)


def _has_value(table: pa.Table, kind: Ints) -> Mask:
    counts = (int_column(table, "flags") & NO_VALUE) == 0
    numbers = np.isfinite(floats(table, "value"))
    usable: Mask = counts & (kind != OTHER) & (numbers | (kind > SUM))
    return usable


def _sort_points(table: pa.Table, identity: SeriesIdentity, kind: Ints) -> SortedPoints:
    names, metric = raw_names(table, identity)
    timestamp = int_column(table, "timestamp")
    time = int_column(table, "time_unix_nano")
    time = np.where(time > 0, time, timestamp * MICRO)
    start = int_column(table, "start_time_unix_nano")
    count = _counts(table, kind)
    order = _order(names, time, lambda: _further_keys(table, kind, start, count))
    return SortedPoints(
        table,
        order,
        names[order],
        metric[order],
        kind[order],
        timestamp[order],
        time[order],
        start[order],
        count[order],
        int_column(table, "aggregation_temporality")[order],
        int_column(table, "is_monotonic")[order] == 1,
    )


def _order(names: npt.NDArray[np.uint64], time: Ints, further: Callable[[], tuple[npt.NDArray[Any], ...]]) -> Ints:
    """Return the order by series and time, and by further keys that make the order of ties deterministic."""
    order = order_by((names[:, 0], time))
    one, other = order[1:], order[:-1]
    same = names[one, 0] == names[other, 0]
    doubt = same & ((time[one] == time[other]) | (names[one, 1] != names[other, 1]))
    return order_by((names[:, 0], names[:, 1], time, *further())) if doubt.any() else order


def _further_keys(table: pa.Table, kind: Ints, start: Ints, count: Ints) -> tuple[npt.NDArray[Any], ...]:
    size = np.where(kind > SUM, count.astype(np.float64), np.nan_to_num(floats(table, "value")))
    ids = record_id_words(array_column(table, "record_id"))
    return start, size, int_column(table, "value_int"), ids[:, 0], ids[:, 1]


def _counts(table: pa.Table, kind: Ints) -> Ints:
    """Return the number of observations of each point. A histogram without a count has the sum of its buckets."""
    count = int_column(table, "count")
    uncounted = np.flatnonzero(~is_known(table, "count") & (kind > SUM))
    if len(uncounted):
        some = table.take(pa.array(uncounted)).combine_chunks()
        buckets = [split_lists(array_column(some, "bucket_counts"))]
        buckets += [
            split_lists(pc.struct_field(array_column(some, name), "bucket_counts")) for name in ("positive", "negative")
        ]
        added = [np.bincount(number_values(lengths)[0], values, len(uncounted)) for lengths, values in buckets]
        count[uncounted] = np.sum(added, axis=0).astype(np.int64) + int_column(some, "zero_count")
    return count


def _items(
    points: SortedPoints, identity: SeriesIdentity, definition: Definition, wanted: Ranges, micros: int
) -> Items:
    timed = PointTimes(points.names, points.metric, points.time, points.start, points.cumulative)
    contribution = classify_points(timed, definition.lookback_micros * MICRO)
    values = points.floats("value")
    contribution = contribution.reset_where(_has_fallen(points, contribution, values))
    explicit, explicit_place = _explicit(points)
    explicit, fell = subtract_previous(explicit, explicit_place, contribution)
    contribution = contribution.reset_where(fell)
    exponential, exponential_place = _exponential(points)
    exponential, fell = subtract_previous(exponential, exponential_place, contribution)
    exponential, contribution = exponential.at_most(definition.scale), contribution.reset_where(fell)

    change = _changes(points, contribution, values)
    numbers = points.of(GAUGE, SUM)
    counter = points.of(SUM) & points.monotonic
    value = np.where(counter, change, values)
    level = points.of(SUM) & ~points.monotonic
    known_worth = (contribution.is_known & ~points.has_unknown_temporality) | (numbers & ~counter)
    there = wanted.holds(points.timestamp)
    row = np.flatnonzero(known_worth & there)
    plain = np.flatnonzero(numbers[row])
    increase = np.where(contribution.is_known & (counter | (level & (points.temporality != 0))), change, np.nan)
    whole_worth = contribution.is_total & ~numbers
    sums = difference(points.floats("sum"), contribution.is_increase)
    sums = np.where(np.isfinite(sums), sums, np.nan)
    least, most = (np.where(whole_worth, points.floats(name), np.nan) for name in ("min", "max"))
    return Items(
        row=points.order[row],
        name=identity.names[points.order[row]],
        window=points.timestamp[row] // micros * micros,
        points=np.ones(len(row), dtype=np.int64),
        count=np.where(numbers, 1, difference(points.count, contribution.is_increase))[row],
        total=np.where(numbers, value, sums)[row],
        least=np.where(numbers, value, least)[row],
        most=np.where(numbers, value, most)[row],
        first=np.where(numbers, value, np.nan)[row],
        last=np.where(numbers, value, np.nan)[row],
        first_time=points.time[row],
        last_time=points.time[row],
        increase=increase[row],
        exponential=ExponentialHistograms.from_parts(
            [
                (plain, ExponentialHistograms.of_values(value[row[plain]], definition.scale)),
                _choose_histograms(exponential, exponential_place, row),
            ],
            len(row),
        ),
        explicit=ExplicitHistograms.from_parts([_choose_histograms(explicit, explicit_place, row)], len(row)),
        registers=HyperLogLog.of_names(points.names[row, 0]),
    )


def _choose_histograms(histograms: Histograms, place: Ints, row: Ints) -> tuple[Ints, Histograms]:
    """Return the histograms of the items that have one, with their positions among the items."""
    there = np.flatnonzero(place[row] >= 0)
    return there, histograms.select(place[row[there]])


def _has_fallen(points: SortedPoints, contribution: Contribution, values: npt.NDArray[np.float64]) -> Mask:
    """Return a mask of the points where a counter or a count decreased."""
    numbers = points.of(GAUGE, SUM)
    size = np.where(numbers, values, points.count)
    exact, ints = points.ints
    fell = np.zeros(len(size), dtype=bool)
    fell[1:] = np.where(exact[1:] & exact[:-1] & numbers[1:], ints[1:] < ints[:-1], size[1:] < size[:-1])
    return fell & contribution.is_increase & ~(points.of(SUM) & ~points.monotonic)


def _changes(
    points: SortedPoints, contribution: Contribution, values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the changes of sums. Integers are subtracted as such, as large ones are not exact as floats."""
    change = difference(values, contribution.is_increase)
    known_ints, ints = points.ints
    both = known_ints.copy()
    both[1:] &= known_ints[:-1]
    exact = np.flatnonzero(contribution.is_increase & both)
    change[exact] = (ints[exact] - ints[exact - 1]).astype(np.float64)
    return np.asarray(change, dtype=np.float64)


def _explicit(points: SortedPoints) -> tuple[ExplicitHistograms, Ints]:
    """Return the histograms with explicit bounds, and the number of each point's histogram, or -1."""
    mine = np.flatnonzero(points.of(HISTOGRAM))
    place = _places(mine, len(points.type))
    table = points.rows(mine, "explicit_bounds", "bucket_counts")
    lengths, bounds = split_lists(array_column(table, "explicit_bounds"))
    counted, counts = split_lists(array_column(table, "bucket_counts"))
    fit = counted == lengths + 1
    owner, position = number_values(counted)
    end = np.full(len(owner), np.inf)
    begins = np.cumsum(lengths) - lengths
    inner = np.flatnonzero(fit[owner] & (position < lengths[owner]))
    end[inner] = bounds[(begins[owner] + position)[inner]]
    good = fit[owner]
    rest = np.flatnonzero(~fit)
    return (
        ExplicitHistograms(
            len(mine),
            np.concatenate((owner[good], rest)),
            np.concatenate((end[good], np.full(len(rest), np.inf))) + 0.0,  # no bound is minus zero
            np.concatenate((counts[good].astype(np.int64), points.count[mine[rest]])),
        ),
        place,
    )


def _exponential(points: SortedPoints) -> tuple[ExponentialHistograms, Ints]:
    """Return the exponential histograms, and the number of each point's histogram, or -1."""
    mine = np.flatnonzero(points.of(EXPONENTIAL))
    table = points.rows(mine, "scale", "zero_count", "zero_threshold", "positive", "negative")
    sides = [_bucket_side(array_column(table, name)) for name in ("positive", "negative")]
    found = ExponentialHistograms(
        int_column(table, "scale"),
        int_column(table, "zero_count"),
        np.nan_to_num(floats(table, "zero_threshold")),
        np.concatenate([owner for owner, _, _ in sides]),
        np.repeat([False, True], [len(owner) for owner, _, _ in sides]),
        np.concatenate([index for _, index, _ in sides]),
        np.concatenate([count for _, _, count in sides]),
    )
    return found, _places(mine, len(points.type))


def _bucket_side(buckets: pa.StructArray) -> tuple[Ints, Ints, Ints]:
    offset, counts = pc.struct_field(buckets, "offset"), pc.struct_field(buckets, "bucket_counts")
    lengths, values = split_lists(counts)
    owner, position = number_values(lengths)
    first = np.asarray(pc.fill_null(offset, 0)).astype(np.int64)
    full = np.flatnonzero(values)
    return owner[full], (first[owner] + position)[full], values[full].astype(np.int64)


def _places(mine: Ints, rows: int) -> Ints:
    place = np.full(rows, -1, dtype=np.int64)
    place[mine] = np.arange(len(mine))
    return place
