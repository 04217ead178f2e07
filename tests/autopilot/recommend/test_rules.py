"""Decisions without a table: candidates, thresholds, hysteresis, costs, and what filters and columns save."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import BinaryType, LongType, StringType, TimestamptzType

from neve.autopilot.config import RecommendConfig
from neve.autopilot.estimate.confidence_interval import Interval
from neve.autopilot.estimate.simulator import SimulatedScan
from neve.autopilot.layout import Layout, PartField, Promoted
from neve.autopilot.recommend.candidates import CandidateInputs, Demand, find_candidate_columns, generate_candidates
from neve.autopilot.recommend.evaluation import (
    CandidateEstimate,
    FilterWorkload,
    Projection,
    ValueSpread,
    estimate_bloom_reduction,
    is_bloom_candidate,
)
from neve.autopilot.recommend.recommendation import (
    Cost,
    build_properties,
    classify_change,
    estimate_daily_bytes,
    estimate_payback,
    estimate_rewrite_cost,
)
from neve.autopilot.recommend.rules import (
    LayoutChange,
    find_objection,
    reject_dropped_fields,
    reject_fine_partition,
    reject_flapping,
    reject_unsettled,
)
from neve.autopilot.workload.queries import TableUse
from neve.predicate.filters import AllOf, AnyOf
from neve.predicate.filters import Test as Ask
from tests.autopilot.recommend.made import NOW, asked

if TYPE_CHECKING:
    from neve.predicate.filters import Filter

CONFIG = RecommendConfig()
MB = 1024 * 1024
TYPES = {"at": TimestamptzType(), "name": StringType(), "id": LongType(), "attributes['k.x']": StringType()}
TIME = Ask("at", "range", (), NOW - timedelta(days=1), NOW)


def ground(*uses: TableUse | Filter, current: Layout | None = None, distinct: int = 5000) -> CandidateInputs:
    """A table of a hundred files that these queries were asked of."""
    demand = Demand.of("t.a", asked("t.a", *uses))
    return CandidateInputs(
        current or Layout(target_file_bytes=128 * MB), demand, TYPES, dict.fromkeys(TYPES, distinct), 100
    )


def scan(partition_bytes: float = 10**12, partitions: int = 4) -> SimulatedScan:
    """What a layout reads: half."""
    return SimulatedScan(np.array([0.5]), 100, partitions, partition_bytes)


def test_thresholds_are_those_of_the_seed() -> None:
    """Over 30 % of filters, over 20 % of ORDER BY, 30 % less to read."""
    assert (CONFIG.filtered_share, CONFIG.ordered_share, CONFIG.min_reduction) == (0.30, 0.20, 0.30)
    names = Ask("name", "eq", ("x",))
    assert [one.name for one in find_candidate_columns(ground(*[names] * 3, *[TIME] * 7), CONFIG)] == ["at"]
    assert [one.name for one in find_candidate_columns(ground(*[names] * 4, *[TIME] * 6), CONFIG)] == ["at", "name"]


TENANT, DAY = PartField("organization_id", "identity"), PartField("at", "day")


@pytest.mark.parametrize(
    ("partition", "lost"),
    [
        ((TENANT, DAY, PartField("name", "identity")), ""),
        ((TENANT, DAY), ""),
        ((TENANT, PartField("at", "hour")), "day(at)"),
        ((TENANT, PartField("name", "bucket[4]")), "day(at)"),
        ((PartField("name", "identity"),), "organization_id and day(at)"),
    ],
)
def test_a_table_of_tenants_keeps_its_days(partition: tuple[PartField, ...], lost: str) -> None:
    """Retention goes by them: a layout without them is refused by name, whatever it would save."""
    current = Layout((TENANT, DAY, PartField("id", "bucket[16]")))
    reason = reject_dropped_fields(Layout(partition), current, CONFIG)
    assert reason is None if not lost else lost in str(reason)
    loose = CONFIG.model_copy(update={"keep_time_partition": False})
    assert (reject_dropped_fields(Layout(partition), current, loose) is None) == (TENANT in partition)
    assert reject_dropped_fields(Layout(partition), Layout((DAY,)), CONFIG) is None


def test_candidates_part_days_of_tenants_further() -> None:
    """Beside what gives days up there is always the same that keeps them."""
    current = Layout((TENANT, DAY, PartField("id", "bucket[16]")), target_file_bytes=128 * MB)
    wanted = generate_candidates(ground(*[Ask("name", "eq", ("x",))] * 4, current=current, distinct=50), CONFIG)
    partitions = {one.partition for one in wanted}
    assert {(TENANT, PartField("name", "identity")), (TENANT, DAY, PartField("name", "identity"))} <= partitions


def test_order_by_counts_only_where_it_can_gain() -> None:
    """With a filter or a LIMIT it does; alone it reads everything anyway."""
    alone = TableUse("t.a", order_by=("id",))
    assert Demand.of("t.a", asked("t.a", *[alone] * 5)).count_orders() == {}
    limited = replace(alone, limit=10)
    filtered = replace(alone, filter=AllOf((TIME, Ask("id", "not_null"))))
    assert Demand.of("t.a", asked("t.a", limited, filtered, alone)).count_orders() == {"id": 2}
    assert "id" in [one.name for one in find_candidate_columns(ground(*[filtered] * 3, *[TIME] * 9), CONFIG)]


def test_candidates_fit_what_is_asked() -> None:
    """Ranges of time: hours, days, months; many values: buckets; few: identity; prefixes: truncate; keys: columns."""
    fields = {
        field
        for some in (
            ground(TIME),
            ground(Ask("id", "eq", (5,))),
            ground(Ask("name", "eq", ("a",)), distinct=20),
            ground(Ask("name", "prefix", ("abcd",))),
        )
        for layout in generate_candidates(some, CONFIG)
        for field in layout.partition
    }
    assert {PartField("at", how) for how in ("hour", "day", "month")} <= fields
    assert PartField("id", "bucket[16]") in fields
    assert PartField("id", "identity") not in fields
    assert PartField("name", "identity") in fields
    assert {PartField("name", "truncate[4]"), PartField("name", "truncate[2]")} <= fields
    keyed = generate_candidates(ground(Ask("attributes['k.x']", "eq", ("v",))), CONFIG)
    assert Layout(promoted=(Promoted("k_x", "attributes['k.x']"),), target_file_bytes=128 * MB) in keyed
    assert any(layout.sort == ("k_x",) for layout in keyed)


def test_a_sort_has_single_values_before_ranges() -> None:
    """What is filtered together is sorted by the equal one first."""
    both = AllOf((TIME, Ask("id", "eq", (5,))))
    sorts = {layout.sort for layout in generate_candidates(ground(both), CONFIG)}
    assert ("id", "at") in sorts
    assert ("at", "id") not in sorts
    assert {layout.zorder for layout in generate_candidates(ground(both), CONFIG)} >= {("at", "id")}


def test_the_layout_that_is_there_is_no_candidate() -> None:
    """Nor is any candidate there twice, or more of them than is allowed."""
    current = Layout(sort=("at",), target_file_bytes=128 * MB)
    found = generate_candidates(ground(TIME, current=current), CONFIG)
    assert current not in found
    assert len(found) == len(set(found))
    assert len(generate_candidates(ground(TIME), RecommendConfig(candidates=2))) == 2


def test_the_lower_bound_decides() -> None:
    """An estimate over the threshold is not enough where its interval begins below it."""
    free = estimate_payback(Cost(0, 0.0, 0.0), 1e15, 0.5, CONFIG.prices)
    sure = CandidateEstimate(Layout(sort=("a",)), scan(), Interval(0.31, 0.35, 0.4))
    assert find_objection(sure, free, Layout(), (), CONFIG) is None
    unsure = replace(sure, reduction=Interval(0.29, 0.35, 0.4))
    assert "the lower bound must be at least 30 %" in (find_objection(unsure, free, Layout(), (), CONFIG) or "")
    dear = estimate_payback(Cost(0, 0.0, 100.0), 1e12, 0.3, CONFIG.prices)
    assert "would pay back in" in (find_objection(sure, dear, Layout(), (), CONFIG) or "")


def test_partitions_hold_a_file_at_least() -> None:
    """A partition that is there already may be as fine as it is."""
    fine = CandidateEstimate(Layout(partition=(PartField("at", "hour"),)), scan(3 * MB), Interval(0.5, 0.6, 0.7))
    assert "less than one file of 134 MB" in (reject_fine_partition(fine, Layout(), 128 * MB) or "")
    assert reject_fine_partition(fine, fine.layout, 128 * MB) is None
    many = replace(fine, scan=scan(partitions=20_000))
    assert "20,000 partitions" in (reject_fine_partition(many, Layout(), 128 * MB) or "")


def test_layouts_do_not_flap() -> None:
    """Going back to a layout needs a clearly larger gain; a gain within the error is none."""
    old, new = Layout(sort=("a",)), Layout(sort=("b",))
    history = [LayoutChange(NOW - timedelta(days=60), old, new)]
    assert "had this layout before" in (reject_flapping(old, Interval(0.35, 0.4, 0.5), history, CONFIG) or "")
    assert reject_flapping(old, Interval(0.45, 0.5, 0.6), history, CONFIG) is None
    assert reject_flapping(new, Interval(0.35, 0.4, 0.5), history, CONFIG) is None
    assert "within the error" in (reject_flapping(new, Interval(-0.1, 0.1, 0.3), history, CONFIG) or "")
    assert reject_unsettled(history, NOW, CONFIG) is None
    assert reject_unsettled(history, NOW - timedelta(days=50), CONFIG)


def test_a_rewrite_costs_time_and_requests() -> None:
    """Twice the bytes take twice the time; what is read in a day decides when that is paid back."""
    one, two = estimate_rewrite_cost(10**9, 10, 5, CONFIG), estimate_rewrite_cost(2 * 10**9, 10, 5, CONFIG)
    assert two.seconds == 2 * one.seconds
    assert one.dollars > one.seconds / 3600 * CONFIG.prices.compute_per_core_hour
    uses = (TableUse("t.a", bytes_read=100), TableUse("t.a"))
    assert estimate_daily_bytes(Demand("t.a", uses, 2.0), planned=50.0) == 75
    assert estimate_payback(one, 0.0, 0.5, CONFIG.prices).as_document()["days"] is None


@given(st.integers(0, 3), st.floats(0.01, 1))
def test_a_promoted_column_never_reads_more(other_columns: int, key_share: float) -> None:
    """A query saves the rest of the map, unless it reads that for another reason."""
    key = "m['k']"
    columns = frozenset([key, *(f"c{number}" for number in range(other_columns))])
    sizes = {"m": 100, "c0": 10, "c1": 10, "c2": 10}
    projection = Projection([columns, columns | {"m"}, columns | {"m['l']"}], sizes, {key: key_share})
    factors = projection.factors(Layout(promoted=(Promoted("k", key),)))
    rest = 10 * other_columns
    assert factors.tolist() == pytest.approx([(rest + 100 * key_share) / (rest + 100), 1.0, 1.0])
    assert projection.factors(Layout()).tolist() == [1.0]


def test_bloom_filters_help_where_a_value_lies_in_few_files() -> None:
    """Ids of one row each: nearly all files are left out; a filter that may do without the id gains nothing."""
    spread = ValueSpread(np.arange(2000), rows=1_000_000, files=100)
    one = Ask("name", "eq", ("x",))
    filters: list[Filter] = [one, AllOf((TIME, one)), AnyOf((TIME, one))]
    every = np.ones(3)
    found = estimate_bloom_reduction("name", spread, filters, FilterWorkload(every, every, Projection([], {}, {})))
    assert 0 <= found.low <= found.estimate <= found.high <= 2 / 3
    assert found.high > 0.6
    assert is_bloom_candidate(StringType(), spread)
    assert not is_bloom_candidate(BinaryType(), spread)
    assert not is_bloom_candidate(StringType(), ValueSpread(np.arange(9), 100, 1))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (Layout(partition=(PartField("a", "day"),), sort=("a",)), "partition"),
        (Layout(zorder=("a", "b")), "zorder"),
        (Layout(sort=("a",)), "sort"),
        (Layout(promoted=(Promoted("a", "m['a']"),)), "promote"),
        (Layout(blooms=("a",)), "bloom"),
        (Layout(target_file_bytes=1), "file_size"),
    ],
)
def test_a_change_is_named_by_what_moves_most(after: Layout, expected: str) -> None:
    """The type that a recommendation has."""
    assert classify_change(Layout(), after) == expected


def test_properties_make_a_layout_work() -> None:
    """Columns without bounds get them, bloom filters and sizes are properties as well."""
    after = Layout(sort=("a",), blooms=("b",), target_file_bytes=5)
    assert build_properties(Layout(), after, frozenset({"c"}), frozenset({"a", "c"})) == {
        "write.metadata.metrics.column.a": "truncate(16)",
        "write.parquet.bloom-filter-enabled.column.b": "true",
        "write.target-file-size-bytes": "5",
    }
