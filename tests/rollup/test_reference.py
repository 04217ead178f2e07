"""The oracle for rollups, held to what docs/rollups.md says by examples that were computed by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from neve.model.rollups import COLUMNS
from neve.rollup.config import RollupConfig, RollupRule
from tests.rollup.points import histories, to_table
from tests.rollup.reference import bucket_of, exact_values, merge, roll_up, row_key, scale_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MICROS = 1_767_268_800_000_000
SECOND = 1_000_000_000
CONFIG = RollupConfig()
DELTA, CUMULATIVE = 1, 2


def nanos(seconds: float) -> int:
    """Seconds since noon as nanoseconds since 1970."""
    return NOON_MICROS * 1000 + int(seconds * SECOND)


def point(seconds: float, metric_type: str = "gauge", *, start: float | None = None, **columns: Any) -> dict[str, Any]:
    """A raw point, `seconds` after noon."""
    return {
        "organization_id": "acme",
        "timestamp": NOON + timedelta(seconds=seconds),
        "metric_name": "m",
        "metric_type": metric_type,
        "time_unix_nano": nanos(seconds),
        "start_time_unix_nano": 0 if start is None else nanos(start),
        **columns,
    }


def counter(seconds: float, value: float, **columns: Any) -> dict[str, Any]:
    """A point of a monotonic cumulative sum."""
    return point(
        seconds, "sum", **{"value": value, "is_monotonic": True, "aggregation_temporality": CUMULATIVE, **columns}
    )


def histogram(seconds: float, bounds: list[float], counts: list[int], **columns: Any) -> dict[str, Any]:
    """A point of a delta histogram with bounds."""
    told = {"count": sum(counts), "sum": 1.0, "aggregation_temporality": DELTA}
    return point(seconds, "histogram", **{"explicit_bounds": bounds, "bucket_counts": counts, **told, **columns})


def exponential(seconds: float, scale: int, positive: dict[str, Any], **columns: Any) -> dict[str, Any]:
    """A point of a delta exponential histogram; its count is that of its buckets."""
    told = {"count": None, "sum": 1.0, "aggregation_temporality": DELTA}
    return point(seconds, "exponential_histogram", **{"scale": scale, "positive": positive, **told, **columns})


def buckets(offset: int, *counts: int) -> dict[str, Any]:
    """Buckets as a raw point has them."""
    return {"offset": offset, "bucket_counts": list(counts)}


def only(points: list[dict[str, Any]], config: RollupConfig = CONFIG) -> dict[str, Any]:
    """The one row that the points give."""
    (row,) = roll_up(points, config)
    return row


def test_a_gauge_row_has_every_column() -> None:
    """Count, sum, ends and extremes of 4, 1 and 3, which came in another order."""
    points = [point(30, value=3.0), point(10, value=4.0), point(20, value=1.0)]
    row = only(points)
    left_out = {"is_final", "series_registers"}
    assert set(row) - {"_series"} == {column.name for column in COLUMNS} - left_out
    told = {name: row[name] for name in ("points", "count", "sum", "min", "max", "first", "last", "increase", "rate")}
    assert told == {
        "points": 3,
        "count": 3,
        "sum": 8.0,
        "min": 1.0,
        "max": 4.0,
        "first": 4.0,
        "last": 3.0,
        "increase": None,
        "rate": None,
    }
    assert row["avg"] == pytest.approx(8 / 3)
    assert row["timestamp"] == NOON_MICROS
    assert (row["first_time_unix_nano"], row["last_time_unix_nano"]) == (nanos(10), nanos(30))
    # 1 and 4 are powers of two and end buckets -1 and 127 of scale 6; 3 is in floor(64 * log2(3)) = 101.
    assert (row["scale"], row["zero_count"], row["positive"], row["negative"]) == (6, 0, {-1: 1, 127: 1, 101: 1}, {})


def test_windows_take_their_start_and_not_their_end() -> None:
    """A point at the end of a window is in the next; `start` and `end` choose windows."""
    points = [point(0, value=1.0), point(59.999999, value=2.0), point(60, value=3.0)]
    rows = {row["timestamp"]: row["count"] for row in roll_up(points, CONFIG)}
    minute = 60_000_000
    assert rows == {NOON_MICROS: 2, NOON_MICROS + minute: 1}
    assert [row["count"] for row in roll_up(points, CONFIG, start=NOON_MICROS + minute)] == [1]
    assert [row["count"] for row in roll_up(points, CONFIG, end=NOON_MICROS + minute)] == [2]


def test_a_delta_and_a_cumulative_stream_give_equal_rows() -> None:
    """Increments of 5, 0 and 7 are the same however they are sent."""
    deltas = [
        counter(at, value, start=at - 10, aggregation_temporality=DELTA)
        for at, value in ((10, 5.0), (20, 0.0), (30, 7.0))
    ]
    totals = [counter(at, value, start=0) for at, value in ((10, 5.0), (20, 5.0), (30, 12.0))]
    row, other = only(deltas), only(totals)
    assert row.pop("_series") != other.pop("_series")  # the temporality tells raw series apart
    assert row == other
    assert (row["sum"], row["increase"], row["rate"], row["first"], row["last"]) == (12.0, 12.0, 0.2, 5.0, 7.0)
    assert (row["zero_count"], row["aggregation_temporality"], row["is_monotonic"]) == (1, None, True)


def test_large_integers_are_subtracted_exactly() -> None:
    """2 ** 62 + 1 and 2 ** 62 are one float, but two integers."""
    totals = [counter(10, 2.0**62, value_int=2**62), counter(20, 2.0**62, value_int=2**62 + 1)]
    assert only(totals)["increase"] == 1.0


@pytest.mark.parametrize(
    ("second", "worth"),
    [
        (counter(20, 3.0), 3.0),  # less than before
        (counter(20, 15.0, start=12), 15.0),  # a start time after the point before it
        (counter(20, 15.0, start=10), 15.0),  # at its very time
        (counter(20, 15.0, start=5), 5.0),  # another start time, but before that
        (counter(20, 15.0), 5.0),  # no start time
        (counter(20, 15.0, start=20), None),  # began at its own time: nothing to go on from
        (counter(310, 15.0), 5.0),  # as old as the look-back
        (counter(310.000001, 15.0), None),  # older
        (counter(400, 15.0, start=100), 15.0),  # older, but its own past is short enough
        (counter(401, 15.0, start=100), None),  # and too long
    ],
)
def test_what_a_point_after_another_is_worth(second: dict[str, Any], worth: float | None) -> None:
    """The first point has no start time and counts nowhere; the second goes on from it or begins anew."""
    assert [row["increase"] for row in roll_up([counter(10, 10.0), second], CONFIG)] == (
        [] if worth is None else [worth]
    )


@pytest.mark.parametrize(
    ("start", "worth"), [(None, None), (10, None), (9, 7.0), (-290, 7.0), (-290.000001, None), (-3600, None)]
)
def test_what_a_first_point_is_worth(start: float | None, worth: float | None) -> None:
    """All that it says if it began in the look-back, but not at its own time."""
    assert [row["sum"] for row in roll_up([counter(10, 7.0, start=start)], CONFIG)] == (
        [] if worth is None else [worth]
    )


def test_a_stream_of_unknown_start_goes_on_from_its_first_point() -> None:
    """The first point begins at its own time and is worth nothing; the next has the same start time."""
    row = only([counter(10, 10.0, start=10), counter(20, 15.0, start=10)])
    assert (row["points"], row["increase"]) == (1, 5.0)


def test_predecessors_are_found_outside_of_the_windows_asked_for() -> None:
    """The difference of the second window's point is to the one of the first."""
    points = [counter(50, 10.0), counter(70, 12.0)]
    (row,) = roll_up(points, CONFIG, start=NOON_MICROS + 60_000_000)
    assert (row["increase"], row["points"]) == (2.0, 1)


def test_points_without_a_value_are_nowhere() -> None:
    """Stale, missing, NaN and infinite values make no row, and are nobody's predecessor."""
    assert (
        roll_up([point(1, value=math.nan), point(2, value=math.inf), point(3), point(4, flags=1, value=1.0)], CONFIG)
        == []
    )
    row = only([counter(10, 10.0), counter(20, math.nan), counter(30, 0.0, flags=1), counter(40, 14.0)])
    assert (row["points"], row["increase"]) == (1, 4.0)


def test_a_sum_that_goes_up_and_down() -> None:
    """Cumulative: levels, with the changes in `increase`; delta: the changes; unspecified: levels and no change."""
    values = ((10, 5.0), (20, 3.0), (30, 9.0))

    def row(temporality: int) -> tuple[Any, ...]:
        points = [counter(at, value, is_monotonic=False, aggregation_temporality=temporality) for at, value in values]
        found = only(points)
        return tuple(found[name] for name in ("aggregation_temporality", "count", "sum", "last", "increase"))

    assert row(CUMULATIVE) == (2, 3, 17.0, 9.0, 4.0)  # -2 and +6; what the first changed is not known
    assert row(DELTA) == (1, 3, 17.0, 9.0, 17.0)
    assert row(0) == (0, 3, 17.0, 9.0, None)


def test_the_same_record_counts_once() -> None:
    """Equal ids are one point, unless they are of two organizations."""
    copies = [point(10, value=2.0, record_id=b"a"), point(10, value=2.0, record_id=b"a")]
    others = [point(10, value=2.0, record_id=b"b"), point(10, value=2.0, record_id=b"a", organization_id="globex")]
    assert sorted((row["organization_id"], row["points"]) for row in roll_up(copies + others, CONFIG)) == [
        ("acme", 2),
        ("globex", 1),
    ]


def test_what_is_not_kept_becomes_one_row() -> None:
    """The first rule that fits decides; differences are taken in each raw series before."""
    api = [("service.name", "api"), ("host", "h1")]
    points = [
        counter(
            at, value, start=0, attributes=[("route", route), ("id", route)], resource_attrs=api, service_name="api"
        )
        for route, at, value in (("/a", 10, 100.0), ("/b", 11, 5.0), ("/a", 20, 101.0), ("/b", 21, 7.0))
    ]
    assert len(roll_up(points, CONFIG)) == 2
    rules = (
        RollupRule(metrics="?", attributes="none", resource_attributes=("host",), quantiles=(0.9,)),
        RollupRule(metrics="*", attributes=("route",)),
    )
    row = only(points, RollupConfig(rules=rules))
    assert (row["attributes"], row["resource_attrs"], row["service_name"]) == ({}, {"host": "h1"}, None)
    assert (row["increase"], row["series_count"], list(row["quantiles"])) == (108.0, 2, ["0.9"])
    rows = roll_up(points, RollupConfig(rules=rules[1:], quantiles=(0.25,)))
    assert sorted((row["attributes"]["route"], row["increase"]) for row in rows) == [("/a", 101.0), ("/b", 7.0)]
    assert {row["service_name"] for row in rows} == {"api"}
    assert [list(row["quantiles"]) for row in rows] == [["0.25"], ["0.25"]]


def test_the_order_of_attributes_is_no_matter() -> None:
    """A series stays one when its attributes come in another order, as pairs or as a dict, or null for none."""
    points = [
        counter(10, 1.0, attributes=[("a", "1"), ("b", "2")], resource_attrs=None),
        counter(20, 3.0, attributes={"b": "2", "a": "1"}, resource_attrs=[]),
    ]
    assert (only(points)["increase"], only(points)["series_count"]) == (2.0, 1)


def test_buckets_and_the_scale() -> None:
    """Values on a bucket's end belong to it, those beyond to the next, and the scale is the coarsest that will do."""
    assert [scale_of(error) for error in (0.3, 0.01, 0.0001)] == [1, 6, 12]
    assert [bucket_of(value, 0) for value in (0.5, 1.0, 1.5, 2.0, 2.5, 4.0)] == [-2, -1, 0, 0, 1, 1]
    assert [bucket_of(value, 1) for value in (1.0, 1.414, 1.415, 2.0)] == [-1, 0, 1, 1]
    assert bucket_of(5e-324, 6) == -1074 * 64 - 1


def test_quantiles_are_at_their_place() -> None:
    """Of 100 values the places are 49, 94, 98 and 89; each is found to within the error, and so are negative ones."""
    config = RollupConfig(quantiles=(0.9, 0.0, 1.0))
    points = [point(number / 10, value=float(number - 20)) for number in range(100)]
    row = only(points, config)
    (values,) = exact_values(points, config).values()
    assert [values[place] for place in (49, 94, 98, 89)] == [29.0, 74.0, 78.0, 69.0]
    assert (row["p50"], row["p95"], row["p99"]) == pytest.approx((29.0, 74.0, 78.0), rel=0.01)
    assert row["quantiles"] == pytest.approx({"0.9": 69.0, "0.0": -20.0, "1.0": 79.0}, rel=0.01)
    assert only([point(1, value=5.0), point(2, value=5.0)])["p50"] == 5.0  # kept between min and max
    assert only([point(1, value=-1.0), point(2, value=0.0), point(3, value=1.0)])["p50"] == 0.0


def test_bounds_that_changed() -> None:
    """The merged histogram has the bounds in common, and a cumulative one is compared on them."""
    row = only([histogram(1, [1.0, 5.0, 10.0], [1, 2, 3, 4]), histogram(2, [1.0, 10.0, 20.0], [1, 1, 1, 1])])
    assert (row["explicit_bounds"], row["bucket_counts"], row["count"]) == ([1.0, 10.0], [2, 6, 6], 14)
    before = histogram(1, [1.0, 5.0, 10.0], [1, 2, 3, 4], aggregation_temporality=CUMULATIVE)
    more = histogram(2, [1.0, 10.0], [1, 6, 5], aggregation_temporality=CUMULATIVE, min=0.5, max=99.0, sum=3.5)
    row = only([before, more])
    assert (row["explicit_bounds"], row["bucket_counts"], row["count"]) == ([1.0, 10.0], [0, 1, 1], 2)
    assert (row["sum"], row["min"], row["max"], row["first"]) == (2.5, None, None, None)
    less = histogram(2, [1.0, 5.0, 10.0], [0, 9, 3, 4], aggregation_temporality=CUMULATIVE, min=0.5, max=99.0, sum=9.0)
    row = only([before, less])  # a bucket is less: all of it is new
    assert (row["bucket_counts"], row["sum"], row["min"], row["max"]) == ([0, 9, 3, 4], 9.0, 0.5, 99.0)


def test_quantiles_inside_bounds() -> None:
    """Values lie evenly in a bucket; min and max, where known, are the ends of the first and the last."""
    row = only([histogram(1, [10.0, 20.0], [4, 4, 2])])
    # The median is at rank 5, one of four into (10, 20]; 9.5 of 10 lie in the last bucket, whose end is not known.
    assert (row["p50"], row["p95"]) == (12.5, 20.0)
    row = only([histogram(1, [10.0, 20.0], [4, 4, 2], min=6.0, max=30.0)], RollupConfig(quantiles=(0.2,)))
    assert (row["p95"], row["quantiles"]) == (27.5, {"0.2": 8.0})
    assert only([histogram(1, [10.0, 20.0], [5, 0, 5])])["p50"] == 10.0  # rank 5 is still in the first bucket
    misfit = histogram(1, [1.0], [], count=4, min=2.0, max=6.0)
    assert (only([misfit])["bucket_counts"], only([misfit])["p50"]) == ([4], 4.0)
    assert only([histogram(1, [], [4])])["p50"] is None
    assert only([histogram(1, [-5.0, 0.0], [2, 0, 0])])["p50"] == -5.0


def test_what_a_histogram_did_not_tell() -> None:
    """One with observations and without a sum makes it null; one without observations does not."""
    told = histogram(1, [1.0], [1, 1], sum=3.0, min=0.5, max=2.5)
    row = only([told, histogram(2, [1.0], [0, 0], sum=None)])
    assert (row["points"], row["count"], row["sum"], row["min"], row["max"], row["avg"]) == (2, 2, 3.0, 0.5, 2.5, 1.5)
    row = only([told, histogram(2, [1.0], [1, 0], sum=math.nan)])
    assert (row["count"], row["sum"], row["min"], row["max"], row["avg"]) == (3, None, None, None, None)
    row = only([histogram(2, [1.0], [0, 0], sum=None)])
    assert (row["count"], row["sum"], row["min"], row["avg"], row["p50"]) == (0, 0.0, None, None, None)


def test_scales_are_merged_at_the_smaller_one() -> None:
    """A step down halves a bucket's number, rounding down, and no scale is larger than the error asks for."""
    fine = exponential(1, 2, buckets(-3, 1, 0, 1, 1, 1, 1), count=5)  # buckets -3, -1, 0, 1, 2
    coarse = exponential(2, 1, buckets(0, 10), negative=buckets(1, 2), zero_count=3)
    row = only([fine, coarse])
    assert (row["scale"], row["positive"], row["negative"]) == (1, {-2: 1, -1: 1, 0: 12, 1: 1}, {1: 2})
    assert (row["zero_count"], row["count"]) == (3, 20)
    assert only([exponential(1, 8, buckets(7, 1))])["scale"] == 6
    assert only([exponential(1, 8, buckets(7, 1))])["positive"] == {1: 1}


def test_zero_thresholds() -> None:
    """The larger wins, is raised to the end of the bucket that it falls into, and takes in what lies below."""
    narrow = exponential(1, 0, buckets(-1, 1, 2, 4), zero_count=1)  # (0.5, 1], (1, 2], (2, 4]
    wide = exponential(2, 0, buckets(3, 1), zero_count=10, zero_threshold=1.5)
    row = only([narrow, wide])
    assert (row["zero_threshold"], row["zero_count"], row["positive"]) == (2.0, 14, {1: 4, 3: 1})
    empty = exponential(2, 0, buckets(3, 1), zero_count=10, zero_threshold=6.0)  # nothing in (4, 8]
    row = only([narrow, empty])
    assert (row["zero_threshold"], row["zero_count"], row["positive"]) == (6.0, 18, {3: 1})


def test_a_cumulative_exponential_histogram() -> None:
    """Compared at the smaller scale; a bucket that is less there means that it began anew."""
    before = exponential(1, 1, buckets(0, 2, 1), aggregation_temporality=CUMULATIVE, sum=4.0)
    more = exponential(2, 0, buckets(0, 3, 2), aggregation_temporality=CUMULATIVE, sum=10.0)
    row = only([before, more])
    assert (row["scale"], row["positive"], row["count"], row["sum"]) == (0, {1: 2}, 2, 6.0)
    # At place floor(0.5 * 1) of two: the middle of (2, 4] is 2 * 2 * 2 / (1 + 2).
    assert row["p50"] == pytest.approx(8 / 3)
    less = exponential(2, 0, buckets(0, 2, 9), aggregation_temporality=CUMULATIVE, sum=10.0)
    row = only([before, less])
    assert (row["positive"], row["count"], row["sum"]) == ({0: 2, 1: 9}, 11, 10.0)


def test_a_summary() -> None:
    """It is cumulative; the quantiles of the last point stay as they are, and others are null."""
    last = [{"quantile": 0.5, "value": 9.0}]
    points = [
        point(10, "summary", count=10, sum=100.0, quantile_values=[{"quantile": 0.5, "value": 1.0}]),
        point(20, "summary", count=13, sum=130.0, quantile_values=last),
    ]
    row = only(points, RollupConfig(quantiles=(0.9,)))
    assert (row["points"], row["count"], row["sum"], row["avg"]) == (1, 3, 30.0, 10.0)
    assert (row["quantile_values"], row["p50"], row["quantiles"]) == (last, None, {"0.9": None})
    assert (row["scale"], row["positive"], row["explicit_bounds"]) == (None, None, None)


def test_merged_rows() -> None:
    """Five minutes from single ones: counts and buckets add, ends go by time, a raw series counts once."""
    points = [
        counter(at, value, start=0, attributes=[("a", str(at % 2))]) for at, value in ((50, 3.0), (70, 4.0), (71, 8.0))
    ]
    config = RollupConfig(attributes="none", quantiles=(1.0,))
    (row,) = merge(roll_up(points, config), config, window_seconds=300)
    assert (row["timestamp"], row["points"], row["sum"], row["increase"]) == (NOON_MICROS, 3, 12.0, 12.0)
    assert (row["first"], row["last"], row["min"], row["max"], row["rate"]) == (3.0, 8.0, 1.0, 8.0, 0.04)
    assert (row["series_count"], row["quantiles"]["1.0"]) == (2, pytest.approx(8.0, rel=0.01))
    (direct,) = roll_up(points, config, window_seconds=300)
    assert row == direct


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(points=histories())
def test_a_table_gives_the_same_rows(points: list[dict[str, Any]]) -> None:
    """Points that went through Arrow are worth the same, and the order that they come in is no matter."""
    plain = {row_key(row): row for row in roll_up(points, CONFIG)}
    table = to_table(points).to_pylist()[::-1]
    assert {row_key(row): row for row in roll_up(table, CONFIG)} == plain
