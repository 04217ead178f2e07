"""Long ranges from rollups: the same as from points, and from points where rollups could differ."""

from __future__ import annotations

import math
import random
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.model.levels import LEVELS
from neve.model.series_identity import make_series_ids
from neve.model.tables import TABLES
from neve.promql.engine import Engine
from neve.promql.storage.metric_source import MetricSource
from neve.promql.storage.rolled_windows import RolledLevel
from neve.query.sql.statement import find_lake_tables, parse, write_for_duckdb
from neve.rollup.config import RollupConfig
from neve.series.rows import METRICS, make_rows
from tests.rollup.compare import rolled
from tests.rollup.points import to_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.promql.engine import Result
    from neve.promql.storage.metric_source import TimeWindow

pytestmark = pytest.mark.slow

SCHEMAS = {table.name: table.schema for table in TABLES}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN_S = int(BEGIN.timestamp())
HOURS = 48
HOUR = next(level for level in LEVELS if level.seconds == 3600)
FUNCTIONS = ("sum_over_time", "avg_over_time", "count_over_time", "min_over_time", "max_over_time")
INFO = "computed from rollups with windows of 1h"

parse("SELECT 1", SCHEMAS)  # sets the depth of recursion, which must not change while hypothesis runs


def make_point(seconds: float, value: float, **more: Any) -> dict[str, Any]:
    """Return a point of a gauge, some seconds after the beginning."""
    nanos = BEGIN_S * 10**9 + round(seconds * 1e6) * 1000
    row = {
        "organization_id": "acme",
        "timestamp": BEGIN + timedelta(microseconds=round(seconds * 1e6)),
        "metric_name": "depth",
        "metric_type": "gauge",
        "service_name": "cart",
        "value": value,
        "flags": 0,
        "time_unix_nano": nanos,
        "start_time_unix_nano": 0,
        "attributes": [("queue", more.pop("queue", "a"))],
        "resource_attrs": [("service.name", "cart")],
        **more,
    }
    row["record_id"] = random.Random(repr(row)).randbytes(16)
    return row


class World:
    """Points, their rollups and their series. Hours before `final` are rolled up."""

    def __init__(
        self, points: list[dict[str, Any]], final: int = HOURS + 1, config: RollupConfig | None = None
    ) -> None:
        config = config or RollupConfig()
        metrics = to_table(points)
        ids = make_series_ids({name: _one(metrics, name) for name in metrics.schema.names})
        metrics = metrics.set_column(
            metrics.schema.get_field_index("series_id"), metrics.schema.field("series_id"), ids
        )
        self.tables = {
            "metrics": metrics,
            "metric_series": make_rows(METRICS, metrics.combine_chunks().to_batches()[0]),
        }
        self.until = BEGIN_S * 10**6 + final * 3600 * 10**6
        rows = rolled(points, config, HOUR)
        starts = rows.column("timestamp").cast(pa.int64()).to_pylist()
        is_final = pa.array([start + HOUR.micros <= self.until for start in starts], pa.bool_())
        place = rows.schema.get_field_index("is_final")
        self.tables[HOUR.table] = rows.set_column(place, rows.schema.field(place), is_final)
        self.rollups = [RolledLevel(HOUR.table, HOUR.seconds, [(-(2**62), self.until)])]
        self.read: list[str] = []

    def run(self, sql: str, parameters: Sequence[Any], window: TimeWindow) -> pa.Table:
        """Run a statement as the query service does."""
        statement = parse(sql, SCHEMAS, parameters)
        self.read += statement.tables
        since, until = (moment.isoformat() for moment in window if moment is not None)
        connection = duckdb.connect(config={"threads": 1})
        connection.execute("SET TimeZone = 'UTC'")
        sources = {}
        for number, table in find_lake_tables(statement.tree).items():
            connection.register(f"rows_of_{table.name}", self.tables[table.name])
            bounds = f"WHERE timestamp >= TIMESTAMPTZ '{since}' AND timestamp < TIMESTAMPTZ '{until}'"
            sources[number] = f"(SELECT * FROM rows_of_{table.name} {bounds})"
        return connection.execute(write_for_duckdb(statement, sources)).to_arrow_table()

    def run_new(self, sql: str, parameters: Sequence[Any], window: TimeWindow) -> pa.Table:
        """Run a statement over the table of series, which has seen all files."""
        every, self.tables = self.tables, {**self.tables, "metrics": self.tables["metrics"].slice(0, 0)}
        try:
            return self.run(sql, parameters, window)
        finally:
            self.tables = every

    def ask(self, query: str, *, may_roll: bool = True) -> Result:
        """Evaluate a query at each hour of the second day."""
        rollups = self.rollups if may_roll else []
        source = MetricSource(self.run, run_new=self.run_new if may_roll else None, rollups=rollups)
        start, end = (BEGIN_S + hours * 3600 for hours in (24, HOURS))
        return Engine(source).query_range(query, start * 1000, end * 1000, 3_600_000)


def _one(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()


def assert_same(one: Result, other: Result) -> None:
    """Compare two results, floats to within rounding."""
    assert [series.labels for series in one.series] == [series.labels for series in other.series]
    for mine, theirs in zip(one.series, other.series, strict=True):
        assert [time for time, _ in mine.floats] == [time for time, _ in theirs.floats]
        for (_, left), (_, right) in zip(mine.floats, theirs.floats, strict=True):
            assert math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(left) and math.isnan(right))


moments = st.floats(0.001, HOURS * 3600 - 0.001).map(lambda one: round(one, 3)).filter(lambda one: one % 3600 != 0)
# A queue that is queried has one unit: with two, functions would give two series the same labels.
series = st.sampled_from([("a", None), ("b", "By"), ("c", None), ("c", "By")])
values = st.floats(-1e6, 1e6).map(lambda one: round(one, 3))
plain = st.builds(lambda at, value, of: make_point(at, value, queue=of[0], unit=of[1]), moments, values, series)
edges = st.builds(make_point, st.integers(0, HOURS).map(lambda one: one * 3600.0), st.just(5.0))
broken = st.builds(make_point, moments, st.sampled_from([math.nan, math.inf]))


def some(points: st.SearchStrategy[dict[str, Any]], most: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return lists of points, at most one of a series for each millisecond, as PromQL has them."""
    key = ("time_unix_nano", "attributes", "unit")
    return st.lists(points, min_size=1, max_size=most, unique_by=lambda one: repr([one.get(name) for name in key]))


EXAMPLES = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@EXAMPLES
@given(some(plain, 40), st.sampled_from(FUNCTIONS), st.sampled_from(["1h", "6h", "1d"]))
def test_rollups_give_the_result_of_points(points: list[dict[str, Any]], function: str, length: str) -> None:
    """Where the answer says that it is from rollups, it is that of the points."""
    seen = [make_point(seconds, 1.0, queue="first") for seconds in (1.5, 24 * 3600 + 1.5)]  # some in the queried day
    world = World([*seen, *points], final=HOURS - 1)
    query = f'{function}({{__name__=~"depth.*", queue!="c"}}[{length}])'
    found, expected = world.ask(query), world.ask(query, may_roll=False)
    assert_same(found, expected)
    assert any(INFO in one for one in found.infos)
    assert not expected.infos
    assert "metrics_1h" in world.read


@EXAMPLES
@given(some(plain | edges | broken, 15), st.sampled_from(FUNCTIONS), st.integers(1, HOURS))
def test_other_samples_are_read_as_points(points: list[dict[str, Any]], function: str, final: int) -> None:
    """Samples at the start of a window, and values that rollups ignore, make no difference."""
    world = World([make_point(1.5, 1.0, queue="first"), *points], final=final)
    query = f"{function}(depth[1h])"
    assert_same(world.ask(query), world.ask(query, may_roll=False))


@pytest.mark.parametrize(
    "query",
    ["avg_over_time(depth[90s])", "stddev_over_time(depth[1h])", "avg_over_time(depth[1h] offset 7s)", "depth"],
)
def test_only_whole_windows(query: str) -> None:
    """Other functions and ranges are answered from points."""
    world = World([make_point(3600.0 * hour + 7, hour) for hour in range(HOURS)])
    assert not world.ask(query).infos


def test_dropped_labels() -> None:
    """Rollups without a label that series have are not used."""
    points = [make_point(3600.0 * hour + 7, hour, queue=name) for hour in range(HOURS) for name in ("a", "b")]
    world = World(points, config=RollupConfig(attributes=[]))
    found = world.ask("avg_over_time(depth[6h])")
    assert not found.infos
    assert_same(found, world.ask("avg_over_time(depth[6h])", may_roll=False))


def make_counter(seed: int, gap_s: int, *, began_s: float, resets: bool, has_start: bool) -> list[dict[str, Any]]:
    """Return points of a counter with gaps of a length and uneven growth, never at a whole second."""
    chance = random.Random(seed)
    start = BEGIN_S * 10**9 + round(began_s * 1e9) if has_start else 0
    seconds, value, points = began_s + gap_s / 2 + 0.123, 0.0, []
    while seconds < HOURS * 3600:
        if resets and chance.random() < 0.002:
            value = 0.0
        value += chance.choice([0, 1, 5, 50])
        more = {"metric_type": "sum", "is_monotonic": True, "aggregation_temporality": 2, "metric_name": "jobs"}
        points.append(make_point(seconds, value, queue=str(seed), start_time_unix_nano=start, **more))
        seconds += gap_s + chance.choice([0, 0, 0.25, 1])
    return points


counters = st.builds(
    make_counter,
    st.integers(0, 1000),
    st.integers(150, 280),
    began_s=st.sampled_from([0.0, 0.0, 0.0, 30 * 3600.0, 30 * 3600 + 3100.0]),
    resets=st.booleans(),
    has_start=st.booleans(),
)


@EXAMPLES
@given(
    st.lists(counters, min_size=1, max_size=2, unique_by=lambda one: repr(one[0]["attributes"])),
    st.sampled_from(["rate", "increase"]),
    st.sampled_from(["1h", "6h", "1d"]),
    st.integers(HOURS - 12, HOURS + 1),
)
def test_growth_within_its_bound(counts: list[list[dict[str, Any]]], function: str, length: str, final: int) -> None:
    """The growth of counters differs from that of the points by at most what the answer says."""
    world = World([point for one in counts for point in one], final=final)
    query = f"{function}(jobs_total[{length}])"
    found, expected = world.ask(query), world.ask(query, may_roll=False)
    if not found.infos:
        return assert_same(found, expected)
    bound = re.search(r"at most ([0-9.]+)%", found.infos[0])
    error = 1e-9 if bound is None else float(bound[1]) / 100
    assert [series.labels for series in found.series] == [series.labels for series in expected.series]
    for mine, theirs in zip(found.series, expected.series, strict=True):
        assert mine.times_ms.tolist() == theirs.times_ms.tolist()
        assert (abs(mine.values - theirs.values) <= error * mine.values + 1e-9).all()
    return None


def test_growth_of_steady_counters() -> None:
    """Counters that began long ago are answered from rollups, with the result of the points."""
    world = World(make_counter(1, 60, began_s=0.0, resets=False, has_start=True), final=HOURS - 2)
    for query in ("rate(jobs_total[1h])", "increase(jobs_total[6h])", "sum(rate(jobs_total[2h]))"):
        found = world.ask(query)
        assert any("computed from rollups with windows of 1h" in one for one in found.infos), query
        expected = world.ask(query, may_roll=False)
        for mine, theirs in zip(found.series, expected.series, strict=True):
            assert mine.values == pytest.approx(theirs.values, rel=0.02)


def test_pauses_of_counters() -> None:
    """Growth over a pause longer than the look-back of rollups is read from points."""
    points = make_counter(1, 60, began_s=0.0, resets=False, has_start=True)
    pause = [point for point in points if not 29.9 * 3600 < point["time_unix_nano"] / 1e9 - BEGIN_S < 30.1 * 3600]
    world = World(pause)
    assert not world.ask("increase(jobs_total[6h])").infos
    assert_same(world.ask("increase(jobs_total[6h])"), world.ask("increase(jobs_total[6h])", may_roll=False))


def test_scopes_are_not_added_up() -> None:
    """Two series with the same labels are one in PromQL: they are read from points."""
    points = [make_point(3600.0 * hour + 7, hour, scope_name=name) for hour in range(HOURS) for name in ("a", "b")]
    found = World(points).ask("count_over_time(depth[1h])")
    assert not found.infos
    assert {value for series in found.series for _, value in series.floats} == {1.0}
