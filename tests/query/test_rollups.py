"""Questions about points that rollups answer: the same answer as from points, and left alone in any doubt."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.model.levels import LEVELS
from neve.model.tables import TABLES
from neve.query.request import TimeRange
from neve.query.rollup_routing.router import Coverage, route
from neve.query.sql.statement import find_lake_tables, parse, write_for_duckdb
from neve.rollup.config import RollupConfig
from tests.rollup.compare import raised, rolled
from tests.rollup.points import to_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.query.sql.statement import Statement

SCHEMAS = {table.name: table.schema for table in TABLES}
BEGIN = datetime(2026, 1, 1, 20, tzinfo=UTC)
HOURS = 8
MICROS = 1_000_000
FIRST = int(BEGIN.timestamp()) * MICROS
LAST = FIRST + HOURS * 3600 * MICROS
ALWAYS = ((-(2**62), 2**62),)
CONFIG = RollupConfig(attributes=("route",), resource_attributes=("service.name", "zone"))
KEPT = {"attributes": ("route",), "resource_attrs": ("service.name", "zone")}
NAMES = ("cpu", "memory", "queue")
KINDS = (("gauge", None, None), ("gauge", None, None), ("sum", False, 1), ("sum", False, 2), ("sum", True, 1))


def kept(_metric: str, column: str, key: str) -> bool:
    """What the rollups of these tests tell apart."""
    return key in KEPT[column]


def whole(level: int, ranges: Sequence[tuple[int, int]] = ALWAYS) -> Coverage:
    """A level that covers some time, or all of it."""
    return Coverage(LEVELS[level].table, LEVELS[level].seconds, tuple(ranges), kept)


parse("SELECT 1", SCHEMAS)  # sets the depth of recursion, which must not change while hypothesis runs
EVERY_LEVEL = [whole(number) for number in range(4)]


@cache
def engine() -> duckdb.DuckDBPyConnection:
    """A DuckDB for all tests."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@dataclass(frozen=True)
class World:
    """Points and what the product rolls up from them, by the names of the tables."""

    tables: dict[str, pa.Table]

    def ask(self, sql: str) -> pa.Table:
        """An answer."""
        connection = engine()
        for name, table in self.tables.items():
            connection.register(f"rows_of_{name}", table)
        return connection.execute(sql).to_arrow_table()

    def spoilt(self, coverages: Sequence[Coverage]) -> World:
        """The same with nonsense in every row of a rollup that is not covered."""
        tables = dict(self.tables)
        for coverage in coverages:
            tables[coverage.table] = _spoilt(tables[coverage.table], coverage)
        return World(tables)


def _spoilt(rows: pa.Table, coverage: Coverage) -> pa.Table:
    starts = rows.column("timestamp").cast(pa.int64()).to_pylist()
    size = coverage.seconds * MICROS
    good = pa.array([any(a <= start and start + size <= b for a, b in coverage.ranges) for start in starts], pa.bool_())
    for name in ("sum", "min", "max", "count"):
        place = rows.schema.get_field_index(name)
        column = rows.column(name)
        nonsense = pa.scalar(10**7, column.type)
        rows = rows.set_column(place, rows.schema.field(name), pc.if_else(good, column, nonsense))
    return rows


def point(at: float, value: float | None, **more: Any) -> dict[str, Any]:
    """A point, some seconds after the beginning; a gauge unless something else is said."""
    moment = BEGIN + timedelta(seconds=at)
    service = more.pop("service", "web")
    zone = more.pop("zone", "a")
    resource = [("service.name", service)] if service else []
    path = more.pop("route", "/")
    row = {
        "organization_id": "acme",
        "timestamp": moment,
        "metric_name": "cpu",
        "metric_type": "gauge",
        "service_name": service,
        "value": value,
        "unit": "1",
        "flags": 0,
        "time_unix_nano": int(moment.timestamp() * MICROS) * 1000,
        "start_time_unix_nano": 0,
        "attributes": ([("route", path)] if path else []) + [("host", more.pop("host", "h"))],
        "resource_attrs": [*resource, ("zone", zone), ("pod", "p")],
        **more,
    }
    row["record_id"] = random.Random(repr(row)).randbytes(16)
    return row


def world_of(points: list[dict[str, Any]]) -> World:
    """Points and their rollups."""
    tables = {"metrics": to_table(points)}
    rows = rolled(points, CONFIG, LEVELS[0])
    for level in LEVELS:
        rows = rows if level is LEVELS[0] else raised(rows, CONFIG, level)
        tables[level.table] = rows
    return World(tables)


@cache
def world(seed: int) -> World:
    """Points of several metrics, services and attributes, over some hours around midnight."""
    dice = random.Random(seed)
    points = []
    for number in range(600):
        kind, monotonic, temporality = dice.choice(KINDS)
        exact = dice.choice((0, 0, 60, 300, 3600))
        at = dice.uniform(0, HOURS * 3600) if not exact else dice.randrange(HOURS * 3600 // exact) * exact
        points.append(
            point(
                at,
                round(dice.uniform(-5, 20), 2),
                service=dice.choice(("web", "api", None)),
                zone=dice.choice("ab"),
                route=dice.choice(("/", "/buy", None)),
                host=f"h{number}",
                metric_name=dice.choice(NAMES),
                metric_type=kind,
                is_monotonic=monotonic,
                aggregation_temporality=temporality,
                unit=dice.choice(("1", "s", None)),
            )
        )
    return world_of(points)


def read(sql: str) -> Statement:
    """A statement as the product reads it."""
    return parse(sql, SCHEMAS)


def text_of(statement: Statement, bounds: str = "") -> str:
    """A statement for DuckDB over the tables of a world."""
    sources = {
        number: f"(SELECT * FROM rows_of_{table.name} {bounds})"
        for number, table in find_lake_tables(statement.tree).items()
    }
    return write_for_duckdb(statement, sources)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Names, types and rows are equal, floats to within rounding."""
    assert found.schema == expected.schema
    assert found.num_rows == expected.num_rows, (found.to_pylist(), expected.to_pylist())
    for one, other in zip(_rows(found), _rows(expected), strict=True):
        for mine, theirs in zip(one, other, strict=True):
            same = math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9) if _is_float(mine, theirs) else mine == theirs
            assert same, (one, other)


def _is_float(*values: Any) -> bool:
    return all(isinstance(value, float) for value in values)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=_key)


def _key(row: tuple[Any, ...]) -> str:
    return repr([round(value, 6) if isinstance(value, float) else value for value in row])


KEYS = (
    *("service_name", "m.service_name", "attributes['route']", "resource_attrs['zone']", "unit", "metric_name"),
    *("coalesce(unit, 'none')", "upper(service_name)", "service_name = 'web'", "aggregation_temporality"),
    *("date_trunc('minute', timestamp)", "date_trunc('hour', timestamp)", "date_trunc('day', m.timestamp)"),
    *("time_bucket(INTERVAL '5 minutes', timestamp)", "time_bucket(INTERVAL 90 MINUTE, timestamp)"),
    *("time_bucket(INTERVAL '1 month', timestamp)", "floor(epoch(timestamp) / 600) * 600"),
    *("timestamp::DATE", "extract(hour FROM timestamp)", "date_trunc('week', timestamp)"),
)
AGGREGATES = (
    *("sum(value)", "min(value)", "max(m.value)", "avg(value)", "mean(value)", "count(value)"),
    *("sum(value) / count(value)", "avg(value) * 2 + 1", "round(max(value) - min(value), 3)"),
    *("count(value) FILTER (WHERE service_name = 'web')", "avg(value) FILTER (WHERE attributes['route'] IS NULL)"),
    *("sum(sum(value)) OVER ()", "coalesce(sum(value) FILTER (WHERE unit = 'nothing'), -1)"),
)
KINDS_ASKED = (
    "metric_type = 'gauge'",
    "metric_type IN ('gauge')",
    "metric_type = 'sum' AND is_monotonic = false",
    "metric_type = 'sum' AND NOT is_monotonic AND aggregation_temporality = 1",
    "is_monotonic IS NOT TRUE AND metric_type IN ('sum', 'gauge')",
)
FILTERS = (
    *("service_name = 'web'", "(service_name IS NULL OR service_name <> 'api')", "attributes['route'] LIKE '/b%'"),
    *("resource_attrs['zone'] IN ('a')", "unit IS NOT NULL", "date_trunc('hour', timestamp) <> '2026-01-02'"),
    *("service_name = 'nobody'", "extract(hour FROM timestamp) < 23"),
)
HAVINGS = ("", "", "HAVING count(value) > 1", "HAVING sum(value) > 10 AND min(value) < 15")
FORMS = ("{}", "{}", "WITH x AS ({}) SELECT * FROM x", "SELECT * FROM ({}) UNION ALL {}", "SELECT count(*) FROM ({})")


def moments() -> st.SearchStrategy[int]:
    """Moments within the hours or near them; often where a window begins."""
    raw = st.integers(FIRST - 3600 * MICROS, LAST + 3600 * MICROS)
    return st.one_of(raw, *(raw.map(lambda at, s=size: at // s * s) for size in (60 * MICROS, 3600 * MICROS)))  # type: ignore[misc]


def written(at: int) -> str:
    """A moment as SQL."""
    return f"TIMESTAMPTZ '{datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)}'"


@st.composite
def times(draw: st.DrawFn) -> str:
    """A condition on time, or none."""
    first, last = sorted((draw(moments()), draw(moments())))
    start = draw(st.sampled_from(("timestamp >= {}", "timestamp > {}", "{} <= m.timestamp", "")))
    end = draw(st.sampled_from(("timestamp < {}", "(timestamp <= {})", "{} > timestamp", "")))
    form = draw(st.sampled_from(("AND {} AND {}", "AND timestamp BETWEEN {} AND {}")))
    if "BETWEEN" in form:
        return form.format(written(first), written(last))
    sides = [side.format(written(at)) for side, at in ((start, first), (end, last)) if side]
    return "".join(f" AND {side}" for side in sides)


@st.composite
def questions(draw: st.DrawFn) -> str:
    """A question that rollups can answer."""
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3))
    outputs = draw(st.lists(st.sampled_from(AGGREGATES), unique=True, min_size=1, max_size=3))
    names = draw(st.sampled_from(("metric_name = 'cpu'", "metric_name IN ('cpu', 'queue')")))
    conditions = [names, draw(st.sampled_from(KINDS_ASKED)), *draw(st.lists(st.sampled_from(FILTERS), max_size=2))]
    group = draw(st.sampled_from(("ALL", ", ".join(keys)))) if keys else ""
    select = (
        f"SELECT {', '.join([*keys, *outputs])} FROM metrics m WHERE {' AND '.join(conditions)} {draw(times())} "
        f"{f'GROUP BY {group}' if group else ''} {draw(st.sampled_from(HAVINGS))}"
    )
    form = draw(st.sampled_from(FORMS))
    return form.format(*[select] * form.count("{}"))


@st.composite
def coverages(draw: st.DrawFn) -> list[Coverage]:
    """Some levels, each for some of the time, which need not begin or end with a window."""
    found = []
    for number in draw(st.sets(st.integers(0, 3), min_size=1)):
        parts = draw(st.lists(st.tuples(moments(), moments()).map(lambda pair: tuple(sorted(pair))), max_size=4))
        open_ended = draw(st.sampled_from(((), ((-(2**62), FIRST + 7200 * MICROS),), ALWAYS)))
        found.append(whole(number, _disjoint([*parts, *open_ended])))
    return found


def _disjoint(parts: Sequence[Any]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(parts):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2), questions(), coverages())
def test_answers_are_those_of_points(seed: int, sql: str, covered: list[Coverage]) -> None:
    """Whatever is covered, the answer is the same; what is not covered is not read."""
    there = world(seed)
    statement = read(sql)
    routed, used = route(statement, covered)
    numbers = list(find_lake_tables(routed.tree))
    assert len(set(numbers)) == len(numbers)
    assert set(routed.tables) <= {"metrics", *filter(None, used.split(", "))}
    assert_same(there.spoilt(covered).ask(text_of(routed)), there.ask(text_of(statement)))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2), questions(), moments(), moments())
def test_the_bounds_of_a_request_cut_no_window(seed: int, sql: str, one: int, other: int) -> None:
    """Tables are bounded by time outside of the statement: a window that reaches beyond is not read."""
    start, end = sorted((one, other))
    bounds = f"WHERE timestamp >= {written(start)} AND timestamp < {written(end)}"
    since, until = (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at) for at in (start, end))
    statement = read(sql)
    routed, _used = route(statement, EVERY_LEVEL, TimeRange(since, until))
    assert_same(world(seed).ask(text_of(routed, bounds)), world(seed).ask(text_of(statement, bounds)))


FIXED = "metric_name = 'cpu' AND metric_type = 'gauge'"


@pytest.mark.parametrize(
    ("sql", "used"),
    [
        (f"SELECT avg(value) FROM metrics WHERE {FIXED}", "metrics_1d"),
        (f"SELECT date_trunc('hour', timestamp), avg(value) FROM metrics WHERE {FIXED} GROUP BY 1", "metrics_1h"),
        (
            f"SELECT time_bucket(INTERVAL '10m', timestamp) t, max(value) FROM metrics WHERE {FIXED} GROUP BY t",
            "metrics_5m",
        ),
        (f"SELECT avg(value) AS value FROM metrics WHERE {FIXED} GROUP BY unit ORDER BY value LIMIT 3", "metrics_1d"),
        (
            f"SELECT avg(value) FROM metrics WHERE {FIXED} AND timestamp >= '2026-01-01 20:59' "
            "AND timestamp < TIMESTAMP '2026-01-01 20:00' + INTERVAL 2 HOUR",
            "metrics_1h, metrics_1m",
        ),
        (
            # At every time of the day two whole hours lie before the first whole day.
            f"SELECT avg(value) FROM metrics WHERE {FIXED} "
            "AND timestamp >= date_trunc('day', now()) - INTERVAL 50 HOUR",
            "metrics_1d, metrics_1h",
        ),
    ],
)
def test_the_longest_windows_come_first(sql: str, used: str) -> None:
    """Each part of the time is read from the longest windows that fit."""
    routed, found = route(read(sql), EVERY_LEVEL)
    assert found.startswith(used)
    assert routed.tables[0] == used.split(", ", maxsplit=1)[0]


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(f"SELECT value FROM metrics WHERE {FIXED}", id="no aggregate"),
        pytest.param(f"SELECT service_name FROM metrics WHERE {FIXED} GROUP BY 1", id="no value"),
        pytest.param(f"SELECT count(*) FROM metrics WHERE {FIXED}", id="count of points"),
        pytest.param(f"SELECT sum(value), count() FROM metrics WHERE {FIXED}", id="count of points, no star"),
        pytest.param(f"SELECT count(DISTINCT value) FROM metrics WHERE {FIXED}", id="distinct"),
        pytest.param(f"SELECT median(value) FROM metrics WHERE {FIXED}", id="median"),
        pytest.param(f"SELECT quantile_cont(value, 0.9), max(value) FROM metrics WHERE {FIXED}", id="quantile"),
        pytest.param(f"SELECT max(value, 3) FROM metrics WHERE {FIXED}", id="several largest"),
        pytest.param(f"SELECT arg_max(value, timestamp) FROM metrics WHERE {FIXED}", id="last value"),
        pytest.param(f"SELECT any_value(unit), sum(value) FROM metrics WHERE {FIXED}", id="other aggregate"),
        pytest.param(f"SELECT sum(value + 1) FROM metrics WHERE {FIXED}", id="more than value"),
        pytest.param(f"SELECT sum(count) FROM metrics WHERE {FIXED}", id="other column"),
        pytest.param(f"SELECT sum(value) OVER () FROM metrics WHERE {FIXED}", id="window over points"),
        pytest.param(f"SELECT sum(value) FILTER (WHERE value > 3) FROM metrics WHERE {FIXED}", id="filter by value"),
        pytest.param(
            f"SELECT sum(value) FILTER (WHERE timestamp > '2026-01-01') FROM metrics WHERE {FIXED}", id="filter by time"
        ),
        pytest.param("SELECT sum(value) FROM metrics", id="nothing is fixed"),
        pytest.param("SELECT sum(value) FROM metrics WHERE metric_type = 'gauge'", id="name is not fixed"),
        pytest.param(
            "SELECT sum(value) FROM metrics WHERE metric_name LIKE 'c%' AND metric_type = 'gauge'", id="pattern"
        ),
        pytest.param("SELECT sum(value) FROM metrics WHERE metric_name = 'cpu'", id="type is not fixed"),
        pytest.param(f"SELECT sum(value) FROM metrics WHERE {FIXED} OR unit = 's'", id="or"),
        pytest.param("SELECT sum(value) FROM metrics WHERE metric_name = 'cpu' AND metric_type = 'sum'", id="any sum"),
        pytest.param(
            "SELECT sum(value) FROM metrics WHERE metric_name = 'cpu' AND metric_type = 'sum' AND is_monotonic "
            "AND aggregation_temporality = 1",
            id="counter",
        ),
        pytest.param(
            "SELECT sum(value) FROM metrics WHERE metric_name = 'cpu' AND metric_type = 'histogram'", id="histogram"
        ),
        pytest.param(f"SELECT sum(value) FROM metrics WHERE {FIXED} AND value > 3", id="condition on value"),
        pytest.param(
            f"SELECT sum(value) FROM metrics WHERE {FIXED} AND scope_name = 'x'", id="condition on another column"
        ),
        pytest.param(
            f"SELECT sum(value) FROM metrics WHERE {FIXED} AND attributes['host'] = 'x'", id="attribute not kept"
        ),
        pytest.param(
            f"SELECT sum(value) FROM metrics WHERE {FIXED} AND attributes[unit] = 'x'", id="attribute not known"
        ),
        pytest.param(
            f"SELECT sum(value) FROM metrics WHERE {FIXED} GROUP BY resource_attrs['pod']", id="resource not kept"
        ),
        pytest.param(f"SELECT attributes, sum(value) FROM metrics WHERE {FIXED} GROUP BY 1", id="all attributes"),
        pytest.param(f"SELECT timestamp, sum(value) FROM metrics WHERE {FIXED} GROUP BY 1", id="time itself"),
        pytest.param(
            f"SELECT date_trunc('hour', timestamp) AS timestamp, sum(value) FROM metrics WHERE {FIXED} "
            "GROUP BY timestamp",
            id="time itself by its name",
        ),
        pytest.param(
            f"SELECT date_trunc('second', timestamp), sum(value) FROM metrics WHERE {FIXED} GROUP BY 1", id="seconds"
        ),
        pytest.param(
            f"SELECT time_bucket(INTERVAL '90s', timestamp), sum(value) FROM metrics WHERE {FIXED} GROUP BY 1",
            id="cut windows",
        ),
        pytest.param(
            f"SELECT time_bucket(INTERVAL 1 HOUR, timestamp, INTERVAL 7 SECOND), sum(value) FROM metrics "
            f"WHERE {FIXED} GROUP BY 1",
            id="shifted windows",
        ),
        pytest.param(
            f"SELECT strftime(timestamp, '%H'), sum(value) FROM metrics WHERE {FIXED} GROUP BY 1", id="formatted time"
        ),
        pytest.param(f"SELECT sum(value) FROM metrics WHERE {FIXED} AND timestamp > NULL", id="no time"),
        pytest.param(
            f"SELECT sum(value) FROM metrics WHERE {FIXED} AND (timestamp < '2026-01-01' OR timestamp > '2026-02-01')",
            id="or of times",
        ),
        pytest.param(
            f"SELECT sum(value) FROM metrics WHERE {FIXED} AND timestamp > '2026-02-01' AND timestamp < '2026-01-01'",
            id="never",
        ),
        pytest.param(f"SELECT sum(a.value) FROM metrics a JOIN metrics b USING (unit) WHERE a.{FIXED}", id="join"),
        pytest.param(f"SELECT sum(value) FROM metrics, spans WHERE {FIXED}", id="two tables"),
        pytest.param(f"SELECT sum(value) FROM metrics WHERE {FIXED} AND unit IN (SELECT 's')", id="subquery"),
        pytest.param(
            f"SELECT (SELECT sum(value) FROM metrics WHERE {FIXED} AND service_name = s.operation_name) FROM spans s",
            id="correlated",
        ),
        pytest.param(f"SELECT unit, sum(value) FROM metrics WHERE {FIXED} GROUP BY ROLLUP (unit)", id="rollup"),
        pytest.param(f"SELECT sum(value) FROM metrics WHERE {FIXED} GROUP BY random() > 0.5", id="random"),
        pytest.param(f"SELECT unit AS value, sum(value) FROM metrics WHERE {FIXED} GROUP BY 1", id="another value"),
        pytest.param("SELECT sum(value) FROM (SELECT * FROM metrics)", id="derived table"),
        pytest.param("SELECT nothing, sum(value) FROM metrics WHERE " + FIXED, id="no such column"),
        pytest.param("SELECT unit, sum(value) FROM metrics WHERE " + FIXED, id="not grouped"),
        pytest.param("SELECT count(*) FROM metrics_1h", id="a rollup itself"),
    ],
)
def test_what_rollups_may_not_answer_is_left_alone(sql: str) -> None:
    """One rule each: the statement is the very same."""
    statement = read(sql)
    assert route(statement, EVERY_LEVEL) == (statement, "")


def test_services_are_told_apart_only_where_they_are_kept() -> None:
    """`service_name` of a rollup is null where the rule of one of the metrics drops `service.name`."""
    statement = read(
        "SELECT sum(value) FROM metrics WHERE metric_name IN ('cpu', 'jvm') AND metric_type = 'gauge' "
        "GROUP BY service_name"
    )
    some = Coverage(
        "metrics_1h", 3600, ALWAYS, lambda metric, column, key: metric == "cpu" and kept(metric, column, key)
    )
    assert route(statement, [some]) == (statement, "")
    assert route(statement, [some, whole(0)])[1] == "metrics_1m"


def test_nothing_is_covered() -> None:
    """Without a window of the asked time, points answer."""
    statement = read(f"SELECT sum(value) FROM metrics WHERE {FIXED} AND timestamp >= '2026-01-01 20:30'")
    assert route(statement, []) == (statement, "")
    assert route(statement, [whole(0, ())]) == (statement, "")
    assert route(statement, [whole(2, ((FIRST, FIRST + 3600 * MICROS),))]) == (statement, "")


def test_points_are_not_read_where_all_is_covered() -> None:
    """A question about whole windows reads no points, and keeps its number."""
    sql = f"SELECT sum(value) FROM metrics WHERE {FIXED} AND timestamp >= '2026-01-01' AND timestamp < '2026-01-03'"
    routed, used = route(read(sql), EVERY_LEVEL)
    assert used == "metrics_1d"
    assert [(number, table.name) for number, table in find_lake_tables(routed.tree).items()] == [(0, "metrics_1d")]


def test_the_rest_of_a_statement_stays() -> None:
    """Other tables and other reads of points keep their numbers; columns keep their names."""
    sql = f"SELECT avg(value), (SELECT count(*) FROM spans) FROM metrics WHERE {FIXED}"
    assert route(read(sql), EVERY_LEVEL)[1] == ""
    both = f"SELECT * FROM (SELECT avg(value) FROM metrics WHERE {FIXED}), (SELECT count(*) AS n FROM metrics)"
    statement = read(both)
    routed, used = route(statement, [whole(0, ((FIRST, LAST),))])
    assert used == "metrics_1m"
    tables = {number: table.name for number, table in find_lake_tables(routed.tree).items()}
    assert sorted(tables) == [0, 1, 2]
    assert sorted(tables.values()) == ["metrics", "metrics", "metrics_1m"]
    assert_same(world(0).ask(text_of(routed)), world(0).ask(text_of(statement)))


def test_points_without_a_value_count_as_not_there() -> None:
    """NaN, infinite and missing values are in no rollup, so they are not taken from points either."""
    values = [1.0, None, math.nan, math.inf, 3.0]
    there = world_of([point(at * 30, value) for at, value in enumerate(values)])
    sql = f"SELECT count(value), sum(value), max(value) FROM metrics WHERE {FIXED}"
    for covered in (((-(2**62), FIRST + 60 * MICROS),), ((FIRST + 60 * MICROS, LAST),), ALWAYS):
        routed, used = route(read(sql), [whole(0, covered)])
        assert used == "metrics_1m"
        assert _rows(there.ask(text_of(routed))) == [(2, 4.0, 3.0)]


def test_a_record_that_came_twice_counts_once_where_it_is_rolled_up() -> None:
    """Rollups are about records; points are rows."""
    there = world_of([point(30, 2.0), point(30, 2.0)])
    statement = read(f"SELECT count(value) FROM metrics WHERE {FIXED}")
    assert _rows(there.ask(text_of(statement))) == [(2,)]
    assert _rows(there.ask(text_of(route(statement, [whole(0)])[0]))) == [(1,)]
