"""What rollups must give, in plain Python: an oracle for small data that shares no code with the product.

A point is first read as an `Amount`, then found to be worth all of it, a difference or nothing, then written as a part:
a row of its own. Rows are put together from parts, and coarser rows from finer ones, by the same `_put_together`.

Where docs/rollups.md leaves something open, this is what was chosen:

- A null map is an empty one. The types of attributes tell raw series apart (1 is not "1"), but not rolled ones.
- The scope of a raw series is its name, version, attributes and their types. Null and "" are different names.
- Equal `record_id`s are one point only inside one organization; the copy with the earliest timestamp stays.
- A summary is cumulative: it has no temporality, and OTLP says that its count and sum are assumed to be cumulative.
- A point of a cumulative stream with start time = time that began anew (also by the start time rule) is worth nothing:
  it has a predecessor, but none to go on from.
- Points without a value are nobody's predecessor. A summary or histogram without a count (and buckets) has no value.
- Points of one raw series with equal time, start and value (count) are in order of `record_id`.
- A difference of exponential histograms is taken at the smaller scale of the two points, not at that of the rows: the
  scale of `relative_error` comes in only when the difference goes into a row.
- A row's scale, zero threshold and bounds come from all of its parts at once, also from those without observations:
  first the smallest scale, then the largest threshold, raised to the end of a bucket that any of the parts has values
  in, then the bounds that all have.
- A part without observations says nothing about min and max, and its sum may be missing; a row without observations has
  the sum 0.0, and null as min, max, avg and quantiles.
- A min or max that is not finite was not told.
- A rule without quantiles has those of the configuration. A quantile that is null stands in the map as null.
- A pattern knows * and ? only, minds the case, and must fit the whole name.
- `quantile_values` of a summary are [] when its last point has none. At equal times the last is the one with the larger
  count.
- A sum whose monotonicity is null is not monotonic.
"""

from __future__ import annotations

import math
import operator
import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from neve.rollup.config import AttributeChoice, RollupConfig

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NANOS = 1_000_000_000
MICROS = 1_000_000
DELTA, CUMULATIVE = 1, 2
NUMBERS = ("gauge", "sum")
SCALED = ("gauge", "sum", "exponential_histogram")
ALWAYS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Row = dict[str, Any]


def roll_up(
    points: Sequence[Mapping[str, Any]],
    config: RollupConfig,
    *,
    window_seconds: int = 60,
    start: int | None = None,
    end: int | None = None,
) -> list[Row]:
    """The rows of raw points, those of windows that begin from `start` to before `end` (microseconds)."""
    rows = _put_together(_parts(points, config), config, window_seconds)
    return [row for row in rows if _is_inside(row["timestamp"], start, end)]


def merge(rows: Sequence[Row], config: RollupConfig, *, window_seconds: int) -> list[Row]:
    """The rows of longer windows, from those of shorter ones."""
    return _put_together(rows, config, window_seconds)


def exact_values(
    points: Sequence[Mapping[str, Any]],
    config: RollupConfig,
    *,
    window_seconds: int = 60,
    start: int | None = None,
    end: int | None = None,
) -> dict[tuple[Any, ...], list[float]]:
    """The values in each row of a gauge or sum, in ascending order."""
    found: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for part in _parts(points, config):
        window = _window(part, window_seconds)
        if part["metric_type"] in NUMBERS and _is_inside(window, start, end):
            found[row_key({**part, "timestamp": window})].append(part["first"])
    return {key: sorted(values) for key, values in found.items()}


def row_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What identifies a row."""
    return (
        row["organization_id"],
        row["timestamp"],
        row["metric_name"],
        row["metric_type"],
        row["service_name"],
        row["unit"],
        row["is_monotonic"],
        row["aggregation_temporality"],
        _pairs(row["attributes"]),
        _pairs(row["resource_attrs"]),
    )


# Shapes: the buckets of a point


@dataclass(frozen=True)
class Buckets:
    """An exponential histogram; no count in it is zero."""

    scale: int
    zero_count: int = 0
    zero_threshold: float = 0.0
    positive: dict[int, int] = field(default_factory=dict)
    negative: dict[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of values."""
        return self.zero_count + sum(self.positive.values()) + sum(self.negative.values())


@dataclass(frozen=True)
class Bounded:
    """A histogram with explicit bounds, and one count more than bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]


def scale_of(relative_error: float) -> int:
    """The smallest scale at which the middle of a bucket is close enough to all of it."""
    scale = 0
    while _half_width(scale) > relative_error:
        scale += 1
    return scale


def _half_width(scale: int) -> float:
    base: float = 2.0 ** (2.0**-scale)
    return (base - 1) / (base + 1)


def bucket_of(value: float, scale: int) -> int:
    """The bucket of a positive value, by whole numbers so that no rounding puts it into another one."""
    mantissa, exponent = math.frexp(value)
    whole = int(math.ldexp(mantissa, 53))  # value = whole * 2 ** (exponent - 53)
    # The largest k with 2 ** k < whole ** (2 ** scale); k / 2 ** scale is the bucket's lower end, but for the exponent.
    k: int = (whole ** (2**scale) - 1).bit_length() - 1
    return int(k + (exponent - 53) * 2**scale)


def end_of(bucket: int, scale: int) -> float:
    """The upper end of a bucket."""
    try:
        return float(2.0 ** ((bucket + 1) * 2.0**-scale))
    except OverflowError:
        return math.inf


def middle_of(bucket: int, scale: int) -> float:
    """The value that is as far from the lower end as from the upper one, relatively."""
    lower = end_of(bucket - 1, scale)
    return float(lower * (2 / (1 + 2.0 ** -(2.0**-scale))))


def _of_value(value: float, scale: int) -> Buckets:
    if value == 0:
        return Buckets(scale, zero_count=1)
    counts = {bucket_of(abs(value), scale): 1}
    return Buckets(scale, positive=counts) if value > 0 else Buckets(scale, negative=counts)


def _at_scale(buckets: Buckets, scale: int) -> Buckets:
    """The same at a scale that is not larger."""
    steps = buckets.scale - scale

    def shrunk(counts: dict[int, int]) -> dict[int, int]:
        return _added(({bucket >> steps: count} for bucket, count in counts.items()))

    return Buckets(
        scale, buckets.zero_count, buckets.zero_threshold, shrunk(buckets.positive), shrunk(buckets.negative)
    )


def _with_threshold(buckets: Buckets, threshold: float) -> Buckets:
    """The same with all that lies below the threshold counted as zero."""
    kept: list[dict[int, int]] = []
    zeros = buckets.zero_count
    for counts in (buckets.positive, buckets.negative):
        above = {bucket: count for bucket, count in counts.items() if end_of(bucket, buckets.scale) > threshold}
        zeros += sum(counts.values()) - sum(above.values())
        kept.append(above)
    return Buckets(buckets.scale, zeros, threshold, *kept)


def _common_threshold(all_buckets: Sequence[Buckets]) -> float:
    """The largest threshold, raised to the end of a bucket with values that it falls into; scales are equal."""
    threshold = max(buckets.zero_threshold for buckets in all_buckets)
    for buckets in all_buckets:
        for bucket in (*buckets.positive, *buckets.negative):
            if end_of(bucket - 1, buckets.scale) < threshold < end_of(bucket, buckets.scale):
                return end_of(bucket, buckets.scale)
    return threshold


def _alike(all_buckets: Sequence[Buckets]) -> list[Buckets]:
    """The same histograms, at one scale and with one zero threshold."""
    scale = min(buckets.scale for buckets in all_buckets)
    scaled = [_at_scale(buckets, scale) for buckets in all_buckets]
    threshold = _common_threshold(scaled)
    return [_with_threshold(buckets, threshold) for buckets in scaled]


def _added(counts: Iterable[dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = defaultdict(int)
    for each in counts:
        for bucket, count in each.items():
            total[bucket] += count
    return {bucket: count for bucket, count in total.items() if count}


def _merge_buckets(all_buckets: Sequence[Buckets]) -> Buckets:
    alike = _alike(all_buckets)
    return Buckets(
        alike[0].scale,
        sum(each.zero_count for each in alike),
        alike[0].zero_threshold,
        _added(each.positive for each in alike),
        _added(each.negative for each in alike),
    )


def _subtract_buckets(now: Buckets, before: Buckets) -> Buckets | None:
    """What `now` has more; None when a bucket of it is less."""
    now, before = _alike([now, before])
    zeros = now.zero_count - before.zero_count
    positive = _added((now.positive, _negated(before.positive)))
    negative = _added((now.negative, _negated(before.negative)))
    if min((zeros, *positive.values(), *negative.values())) < 0:
        return None
    return Buckets(now.scale, zeros, now.zero_threshold, positive, negative)


def _negated(counts: dict[int, int]) -> dict[int, int]:
    return {bucket: -count for bucket, count in counts.items()}


def _common_bounds(all_bounded: Sequence[Bounded]) -> tuple[float, ...]:
    shared = set.intersection(*(set(each.bounds) for each in all_bounded))
    return tuple(sorted(shared))


def _with_bounds(bounded: Bounded, bounds: tuple[float, ...]) -> Bounded:
    """The same with some of its bounds only."""
    counts = [0] * (len(bounds) + 1)
    for bound, count in zip(bounded.bounds, bounded.counts, strict=False):
        counts[bisect_left(bounds, bound)] += count
    counts[-1] += bounded.counts[-1]
    return Bounded(bounds, tuple(counts))


def _merge_bounded(all_bounded: Sequence[Bounded]) -> Bounded:
    bounds = _common_bounds(all_bounded)
    counts = [_with_bounds(each, bounds).counts for each in all_bounded]
    return Bounded(bounds, tuple(sum(column) for column in zip(*counts, strict=True)))


def _subtract_bounded(now: Bounded, before: Bounded) -> Bounded | None:
    """What `now` has more; None when a bucket of it is less."""
    bounds = _common_bounds([now, before])
    pairs = zip(_with_bounds(now, bounds).counts, _with_bounds(before, bounds).counts, strict=True)
    counts = tuple(new - old for new, old in pairs)
    return None if min(counts) < 0 else Bounded(bounds, counts)


# Points: what they say


@dataclass(frozen=True)
class Amount:
    """What a point says, or what it says more than the one before it."""

    value: int | float | None = None
    count: int = 1
    sum: float | None = None
    min: float | None = None
    max: float | None = None
    buckets: Buckets | None = None
    bounded: Bounded | None = None


@dataclass(frozen=True)
class Point:
    """A raw point that has a value."""

    raw: Mapping[str, Any]
    series: tuple[Any, ...]
    timestamp: int
    time: int
    start: int
    amount: Amount

    @property
    def type(self) -> str:
        """The metric's type."""
        return str(self.raw["metric_type"])

    @property
    def is_counter(self) -> bool:
        """Whether it is a monotonic sum."""
        return self.type == "sum" and bool(self.raw.get("is_monotonic"))

    @property
    def is_level(self) -> bool:
        """Whether its value counts as it is: a gauge's, or a sum's that goes up and down and is no change."""
        return self.type == "gauge" or (self.type == "sum" and not self.is_counter and self.temporality != DELTA)

    @property
    def temporality(self) -> int:
        """The temporality, 0 when it is not known; a summary is cumulative."""
        return CUMULATIVE if self.type == "summary" else int(self.raw.get("aggregation_temporality") or 0)

    @property
    def is_cumulative(self) -> bool:
        """Whether it tells all since its start."""
        return self.type != "gauge" and self.temporality == CUMULATIVE

    @property
    def metric(self) -> tuple[Any, ...]:
        """Which metric of whom: organization, resource, scope, and what all series of the metric have in common."""
        maps = ("resource_attrs", "resource_attr_types", "scope_attrs", "scope_attr_types")
        names = "organization_id scope_name scope_version metric_name metric_type unit is_monotonic"
        texts = (self.raw.get(name) for name in names.split())
        return (*texts, self.raw.get("aggregation_temporality"), *(_pairs(self.raw.get(name)) for name in maps))

    @property
    def change(self) -> Amount | None:
        """What a point that is not cumulative adds; None for one that may be: it does not say."""
        is_told = self.type == "gauge" or self.is_level or self.temporality != 0
        return self.amount if is_told else None

    @property
    def order(self) -> tuple[Any, ...]:
        """The place in the raw series."""
        size = self.amount.count if self.amount.value is None else self.amount.value
        return (self.time, self.start, size, self.raw.get("record_id") or b"")


def _pairs(entries: Any) -> tuple[tuple[str, Any], ...]:
    """A map as sorted pairs; Arrow gives maps as lists of pairs."""
    return tuple(sorted(dict(entries or ()).items()))


def _micros(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _series(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    """What identifies a raw series."""
    is_sum = raw["metric_type"] == "sum"
    maps = ("attributes", "attribute_types", "resource_attrs", "resource_attr_types", "scope_attrs", "scope_attr_types")
    return (
        *(raw.get(name) for name in ("organization_id", "metric_name", "metric_type", "unit")),
        bool(raw.get("is_monotonic")) if is_sum else None,
        raw.get("aggregation_temporality") or 0,
        *(raw.get(name) for name in ("scope_name", "scope_version")),
        *(_pairs(raw.get(name)) for name in maps),
    )


def _read(raw: Mapping[str, Any]) -> Amount | None:
    """What a point says; None when it has no value."""
    if (raw.get("flags") or 0) & 1:
        return None
    readers = {"histogram": _read_bounded, "exponential_histogram": _read_buckets, "summary": _read_summary}
    return readers.get(raw["metric_type"], _read_number)(raw)


def _read_number(raw: Mapping[str, Any]) -> Amount | None:
    value = raw.get("value_int")
    if value is None:
        value = _finite(raw.get("value"))
    return None if value is None else Amount(value)


def _read_summary(raw: Mapping[str, Any]) -> Amount | None:
    count = raw.get("count")
    return None if count is None else Amount(count=count, sum=_finite(raw.get("sum")))


def _read_bounded(raw: Mapping[str, Any]) -> Amount | None:
    counts, bounds = raw.get("bucket_counts") or (), raw.get("explicit_bounds") or ()
    count = raw.get("count")
    if count is None:
        if not counts:
            return None
        count = sum(counts)
    fits = len(counts) == len(bounds) + 1
    bounded = Bounded(tuple(bounds), tuple(counts)) if fits else Bounded((), (count,))
    return _observed(raw, count, bounded=bounded)


def _read_buckets(raw: Mapping[str, Any]) -> Amount | None:
    if all(raw.get(name) is None for name in ("count", "positive", "negative", "zero_count")):
        return None
    buckets = Buckets(
        raw.get("scale") or 0,
        raw.get("zero_count") or 0,
        raw.get("zero_threshold") or 0.0,
        _numbered(raw.get("positive")),
        _numbered(raw.get("negative")),
    )
    count = raw.get("count")
    return _observed(raw, buckets.total if count is None else count, buckets=buckets)


def _numbered(sent: Mapping[str, Any] | None) -> dict[int, int]:
    """Buckets by their numbers, from an offset and a list."""
    if sent is None:
        return {}
    first = sent.get("offset") or 0
    return {first + place: count for place, count in enumerate(sent.get("bucket_counts") or ()) if count}


def _observed(
    raw: Mapping[str, Any], count: int, *, buckets: Buckets | None = None, bounded: Bounded | None = None
) -> Amount:
    total, least, most = (_finite(raw.get(name)) for name in ("sum", "min", "max"))
    return Amount(None, count, total, least, most, buckets, bounded)


def _points(raws: Iterable[Mapping[str, Any]]) -> Iterator[Point]:
    """Each point that has a value, once."""
    seen = set()
    for raw in sorted(raws, key=lambda raw: _micros(raw["timestamp"])):
        record = (raw["organization_id"], raw.get("record_id"))
        amount = _read(raw)
        if amount is None or record in seen:
            continue
        if record[1] is not None:
            seen.add(record)
        timestamp = _micros(raw["timestamp"])
        time = raw.get("time_unix_nano") or timestamp * 1000
        yield Point(raw, _series(raw), timestamp, time, raw.get("start_time_unix_nano") or 0, amount)


# Worth: what points add to their windows


def _worth(now: Point, before: Point | None, lookback: int, *, is_new: bool) -> Amount | None:
    """What a cumulative point adds; None when that is not known."""
    if before is not None:
        more = None if _is_restart(now, before) else _difference(now, before)
        if more is not None:
            return more
    elif not now.start or (now.time - now.start > lookback and not is_new):
        return None
    return None if now.start == now.time else now.amount


def _is_restart(now: Point, before: Point) -> bool:
    """Whether the start times say that the stream began anew."""
    return now.start not in (0, before.start) and now.start >= before.time


def _difference(now: Point, before: Point) -> Amount | None:
    """What a point has more than the one before it; None when something that only grows is less."""
    new, old = now.amount, before.amount
    if new.value is not None and old.value is not None:
        change = new.value - old.value
        return None if now.is_counter and change < 0 else Amount(change)
    buckets = _subtract_buckets(new.buckets, old.buckets) if new.buckets and old.buckets else None
    bounded = _subtract_bounded(new.bounded, old.bounded) if new.bounded and old.bounded else None
    has_less = now.type != "summary" and buckets is None and bounded is None
    if has_less or new.count < old.count:
        return None
    total = None if new.sum is None or old.sum is None else _finite(new.sum - old.sum)
    return Amount(count=new.count - old.count, sum=total, buckets=buckets, bounded=bounded)


def _worths(points: Iterable[Point], lookback: int) -> Iterator[tuple[Point, Amount | None]]:
    """Each point with what it adds."""
    by_series, reports = defaultdict(list), defaultdict(list)
    for point in points:
        by_series[point.series].append(point)
        if point.is_cumulative:
            reports[point.metric].append(point.time)
    for series in by_series.values():
        before: Point | None = None
        for point in sorted(series, key=lambda point: point.order):
            if before is not None and point.time - before.time > lookback:
                before = None
            heard = [time for time in reports[point.metric] if NANOS <= point.time - time <= lookback]
            is_new = bool(heard) and max(heard) - min(heard) >= NANOS
            yield point, _worth(point, before, lookback, is_new=is_new) if point.is_cumulative else point.change
            before = point


def _parts(raws: Iterable[Mapping[str, Any]], config: RollupConfig) -> Iterator[Row]:
    """Each point that counts as a row of its own, at its own time."""
    for point, worth in _worths(_points(raws), config.lookback_seconds * NANOS):
        amount = point.amount if point.is_level else worth
        if amount is not None:
            yield {
                **_identity(point, config),
                **_figures(point, amount, scale_of(config.relative_error)),
                "increase": _increase(point, worth),
            }


def _increase(point: Point, worth: Amount | None) -> float | None:
    """The change that a point of a sum tells; a level of unknown temporality tells none."""
    if point.type != "sum" or worth is None or worth.value is None:
        return None
    return None if point.is_level and point.temporality != CUMULATIVE else float(worth.value)


def _identity(point: Point, config: RollupConfig) -> Row:
    """The columns that say which row a point belongs to; the timestamp is still that of the point."""
    raw = point.raw
    attributes, resource, _ = _choices(raw.get("metric_name"), config)
    is_sum = point.type == "sum"
    return {
        "organization_id": raw["organization_id"],
        "timestamp": point.timestamp,
        "metric_name": raw.get("metric_name"),
        "metric_type": point.type,
        "service_name": raw.get("service_name") if _keeps(resource, "service.name") else None,
        "unit": raw.get("unit"),
        "is_monotonic": point.is_counter if is_sum else None,
        "aggregation_temporality": point.temporality if is_sum and not point.is_counter else None,
        "attributes": {name: value for name, value in _pairs(raw.get("attributes")) if _keeps(attributes, name)},
        "resource_attrs": {name: value for name, value in _pairs(raw.get("resource_attrs")) if _keeps(resource, name)},
        "_series": frozenset([point.series]),
    }


def _figures(point: Point, amount: Amount, scale: int) -> Row:
    """The columns that say what a point is worth."""
    buckets = amount.buckets
    value = None if amount.value is None else float(amount.value)
    if value is not None:
        buckets = _of_value(value, scale)
    elif buckets is not None:
        buckets = _at_scale(buckets, min(scale, buckets.scale))
    is_number = value is not None
    return {
        "points": 1,
        "count": amount.count,
        "sum": value if is_number else amount.sum,
        "min": value if is_number else amount.min,
        "max": value if is_number else amount.max,
        "first": value,
        "last": value,
        "first_time_unix_nano": point.time,
        "last_time_unix_nano": point.time,
        **_shape_columns(buckets, amount.bounded),
        "quantile_values": _quantile_values(point) if point.type == "summary" else None,
    }


def _quantile_values(point: Point) -> list[dict[str, Any]]:
    return [dict(each) for each in point.raw.get("quantile_values") or ()]


def _shape_columns(buckets: Buckets | None, bounded: Bounded | None) -> Row:
    return {
        "scale": buckets and buckets.scale,
        "zero_count": buckets and buckets.zero_count,
        "zero_threshold": buckets and buckets.zero_threshold,
        "positive": buckets and buckets.positive,
        "negative": buckets and buckets.negative,
        "explicit_bounds": bounded and list(bounded.bounds),
        "bucket_counts": bounded and list(bounded.counts),
    }


# What the configuration chooses


def _choices(metric: str | None, config: RollupConfig) -> tuple[AttributeChoice, AttributeChoice, tuple[float, ...]]:
    """Attributes and resource attributes that are kept, and further quantiles."""
    for rule in config.rules:
        if _fits(rule.metrics, metric or ""):
            return (
                config.attributes if rule.attributes is None else rule.attributes,
                config.resource_attributes if rule.resource_attributes is None else rule.resource_attributes,
                rule.quantiles or config.quantiles,
            )
    return config.attributes, config.resource_attributes, config.quantiles


def _fits(pattern: str, name: str) -> bool:
    signs = {"*": ".*", "?": "."}
    return re.fullmatch("".join(signs.get(sign, re.escape(sign)) for sign in pattern), name, re.DOTALL) is not None


def _keeps(kept: AttributeChoice, name: str) -> bool:
    return kept == "all" or (kept != "none" and name in kept)


# Rows: parts put together


def _is_inside(window: int, start: int | None, end: int | None) -> bool:
    return (start is None or window >= start) and (end is None or window < end)


def _window(row: Row, seconds: int) -> int:
    timestamp: int = row["timestamp"]
    return timestamp - timestamp % (seconds * MICROS)


def _put_together(parts: Iterable[Row], config: RollupConfig, window_seconds: int) -> list[Row]:
    """One row for all parts of a series and window."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for part in parts:
        moved = {**part, "timestamp": _window(part, window_seconds)}
        groups[row_key(moved)].append(moved)
    return [_one_row(group, config, window_seconds) for group in groups.values()]


def _one_row(parts: Sequence[Row], config: RollupConfig, window_seconds: int) -> Row:
    ordered = sorted(parts, key=_order)
    names = "organization_id timestamp metric_name metric_type service_name unit is_monotonic aggregation_temporality"
    row = {name: ordered[0][name] for name in (*names.split(), "attributes", "resource_attrs")}
    row |= _totals(ordered)
    row |= _ends(ordered)
    row |= _shapes(ordered)
    row["rate"] = None if row["increase"] is None else row["increase"] / window_seconds
    row["avg"] = row["sum"] / row["count"] if row["sum"] is not None and row["count"] else None
    row |= {name: quantile(row, place) for name, place in ALWAYS.items()}
    further = _choices(row["metric_name"], config)[2]
    row["quantiles"] = {repr(float(place)): quantile(row, place) for place in further}
    return row


def _order(part: Row) -> tuple[Any, ...]:
    """Parts by time, then by value (count and sum for those that have none)."""
    total = -math.inf if part["sum"] is None else part["sum"]
    size = (part["count"], total) if part["first"] is None else (part["first"], total)
    return (part["first_time_unix_nano"], *size)


def _totals(parts: Sequence[Row]) -> Row:
    series = frozenset().union(*(part["_series"] for part in parts))
    known = [part["increase"] for part in parts if part["increase"] is not None]
    observed = [part for part in parts if part["count"]]
    return {
        "points": sum(part["points"] for part in parts),
        "count": sum(part["count"] for part in parts),
        "sum": _sum([part["sum"] for part in parts if part["count"] or part["sum"] is not None]),
        "min": _extreme(min, [part["min"] for part in observed]),
        "max": _extreme(max, [part["max"] for part in observed]),
        "increase": _sum(known) if known else None,
        "series_count": len(series),
        "_series": series,
    }


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum, added in order; null when one is missing."""
    told = [value for value in values if value is not None]
    return _finite(reduce(operator.add, told, 0.0)) if len(told) == len(values) else None


def _extreme(choose: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    """The smallest or largest; null when one is missing, or there are none."""
    told = [value for value in values if value is not None]
    return choose(told) if told and len(told) == len(values) else None


def _ends(parts: Sequence[Row]) -> Row:
    """What the earliest and the latest part say; parts are in order."""
    latest = max(parts, key=lambda part: (part["last_time_unix_nano"], _last_size(part)))
    return {
        "first": parts[0]["first"],
        "last": latest["last"],
        "first_time_unix_nano": parts[0]["first_time_unix_nano"],
        "last_time_unix_nano": latest["last_time_unix_nano"],
        "quantile_values": latest["quantile_values"],
    }


def _last_size(part: Row) -> float:
    return float(part["count"] if part["last"] is None else part["last"])


def _shapes(parts: Sequence[Row]) -> Row:
    kind = parts[0]["metric_type"]
    if kind in SCALED:
        return _shape_columns(_merge_buckets([_buckets(part) for part in parts]), None)
    if kind == "histogram":
        return _shape_columns(None, _merge_bounded([_bounded(part) for part in parts]))
    return _shape_columns(None, None)


def _buckets(row: Row) -> Buckets:
    return Buckets(*(row[name] for name in ("scale", "zero_count", "zero_threshold", "positive", "negative")))


def _bounded(row: Row) -> Bounded:
    return Bounded(tuple(row["explicit_bounds"]), tuple(row["bucket_counts"]))


# Quantiles


def quantile(row: Row, place: float) -> float | None:
    """A quantile of a row; null when its buckets can't tell."""
    found = None
    if row["metric_type"] in SCALED:
        found = _of_buckets(_buckets(row), place)
    elif row["metric_type"] == "histogram":
        found = _of_bounded(_bounded(row), place, row["min"], row["max"])
    if found is None:
        return None
    above = found if row["min"] is None else max(found, row["min"])
    return above if row["max"] is None else min(above, row["max"])


def _of_buckets(buckets: Buckets, place: float) -> float | None:
    """The middle of the bucket that holds the value at floor(q * (n - 1))."""
    in_order = [(-middle_of(bucket, buckets.scale), count) for bucket, count in sorted(buckets.negative.items())][::-1]
    in_order += [(0.0, buckets.zero_count)]
    in_order += [(middle_of(bucket, buckets.scale), count) for bucket, count in sorted(buckets.positive.items())]
    wanted = math.floor(place * (buckets.total - 1))
    passed = 0
    for middle, count in in_order:
        passed += count
        if passed > wanted and count:
            return middle
    return None


def _of_bounded(bounded: Bounded, place: float, least: float | None, most: float | None) -> float | None:
    """The place inside its bucket, as if values lay evenly in it."""
    rank = place * sum(bounded.counts)
    before = 0
    for number, count in enumerate(bounded.counts):
        if count and before + count >= rank:
            ends = _bucket_ends(bounded.bounds, number, least, most)
            return ends and ends[0] + (ends[1] - ends[0]) * (rank - before) / count
        before += count
    return None


def _bucket_ends(
    bounds: tuple[float, ...], number: int, least: float | None, most: float | None
) -> tuple[float, float] | None:
    """Where a bucket begins and ends; null when nothing is known about it."""
    if not bounds:
        return None if least is None or most is None else (least, most)
    if number == len(bounds):
        return (bounds[-1], most) if most is not None else (bounds[-1], bounds[-1])
    if number:
        return bounds[number - 1], bounds[number]
    if least is not None:
        return least, bounds[0]
    return (0.0 if bounds[0] > 0 else bounds[0]), bounds[0]
