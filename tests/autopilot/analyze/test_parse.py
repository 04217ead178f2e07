"""What queries of each engine ask of a table, said in one line."""

from datetime import UTC, datetime

import pytest

from neve.autopilot.logs.records import LoggedQuery, TableRead
from neve.autopilot.workload.privacy import format_filter
from neve.autopilot.workload.queries import Query, TableUse
from neve.autopilot.workload.query_parser import CANARY_MARK, IgnoredQuery, UnparsedQuery, parse_query
from neve.autopilot.workload.tables import Tables
from tests.autopilot.analyze.schemas import TABLES

AT = datetime(2026, 6, 15, 12, 30, tzinfo=UTC)


def asked(sql: str, dialect: str = "trino", tables: Tables = TABLES) -> Query | IgnoredQuery | UnparsedQuery:
    """The result for a text that was asked at noon."""
    return parse_query(LoggedQuery("q1", "trino", AT, sql, dialect, schema="shop"), tables)


def use_of(sql: str, dialect: str = "trino", table: str = "shop.orders", tables: Tables = TABLES) -> TableUse:
    """What is asked of a table."""
    result = asked(sql, dialect, tables)
    assert isinstance(result, Query), result
    return next(use for use in result.uses if use.table == table)


def moment(text: str) -> str:
    """A time as a filter says it."""
    return repr(datetime.fromisoformat(text).replace(tzinfo=UTC))


CONDITIONS = [
    ("trino", "id = 5", "id = 5"),
    ("trino", "5 >= id", "id <= 5"),
    ("trino", "id BETWEEN 5 AND 7", "id >= 5 AND id <= 7"),
    ("trino", "NOT (id BETWEEN 5 AND 7)", "id < 5 OR id > 7"),
    ("trino", "NOT (id = 5 OR customer = 'a')", "(id < 5 OR id > 5) AND (customer < 'a' OR customer > 'a')"),
    ("trino", "id > 1.5", "id >= 2"),
    ("trino", "customer IN ('a', 'b', NULL)", "customer IN ('a', 'b')"),
    ("trino", "customer LIKE 'ab%'", "customer LIKE 'ab'%"),
    ("trino", "customer LIKE 'a!_b%' ESCAPE '!'", "customer LIKE 'a_b'%"),
    ("trino", "customer LIKE 'ab'", "customer = 'ab'"),
    ("trino", "customer LIKE '%ab'", "customer (something)"),
    ("trino", "customer NOT LIKE 'ab%'", "customer (something)"),
    ("trino", "customer NOT LIKE 'ab'", "customer < 'ab' OR customer > 'ab'"),
    ("trino", "starts_with(customer, 'ab')", "customer LIKE 'ab'%"),
    ("trino", "customer IS NULL", "customer IS NULL"),
    ("trino", "NOT customer IS NULL", "customer IS NOT NULL"),
    ("trino", "lower(customer) = 'a'", "lower(customer) (something)"),
    ("trino", "id = 1 OR lower(customer) = 'a'", "id = 1 OR lower(customer) (something)"),
    ("trino", "active AND NOT active", "active = True AND active = False"),
    ("trino", "total >= 0.05 + 0.01", "total >= Decimal('0.06')"),
    ("trino", "resource.id = 'r'", "resource.id = 'r'"),
    ("trino", "trace = X'AB12'", "trace = b'\\xab\\x12'"),
    ("trino", "trace = from_hex('ab12')", "trace = b'\\xab\\x12'"),
    ("trino", "attributes['http.route'] = '/a'", "attributes['http.route'] = '/a'"),
    ("trino", "element_at(attributes, 'k') IN ('x', 'y')", "attributes['k'] IN ('x', 'y')"),
    ("trino", "placed >= now() - interval '1' day", f"placed >= {moment('2026-06-14 12:30:00')}"),
    ("trino", "day >= date_add('month', -1, current_date)", "day >= datetime.date(2026, 5, 15)"),
    (
        "trino",
        "date_trunc('hour', placed) = TIMESTAMP '2026-01-01 05:00:00 UTC'",
        f"date_trunc(placed) >= {moment('2026-01-01 05:00:00')} "
        f"AND date_trunc(placed) < {moment('2026-01-01 06:00:00')}",
    ),
    ("trino", "date(placed) > DATE '2026-01-31'", f"date(placed) >= {moment('2026-02-01 00:00:00')}"),
    ("trino", "date_trunc('month', day) < DATE '2026-01-15'", "date_trunc(day) < datetime.date(2026, 2, 1)"),
    ("trino", "year(day) = 2024", "year(day) >= datetime.date(2024, 1, 1) AND year(day) < datetime.date(2025, 1, 1)"),
    ("trino", "substr(customer, 1, 2) = 'ab'", "substring(customer) LIKE 'ab'%"),
    ("trino", "day > TIMESTAMP '2026-01-01 12:00:00'", "day >= datetime.date(2026, 1, 2)"),
    ("trino", "placed >= TIMESTAMP '2026-01-01 01:00:00 Europe/Berlin'", f"placed >= {moment('2026-01-01 00:00:00')}"),
    ("clickhouse", "placed > now() - INTERVAL 1 HOUR", f"placed > {moment('2026-06-15 11:30:00')}"),
    ("clickhouse", "day = today() - 7", "day = datetime.date(2026, 6, 8)"),
    ("clickhouse", "toDate(placed) <= '2026-01-01'", f"todate(placed) < {moment('2026-01-02 00:00:00')}"),
    (
        "clickhouse",
        "toStartOfMonth(placed) >= toDateTime('2026-01-02 00:00:00')",
        f"date_trunc(placed) >= {moment('2026-02-01 00:00:00')}",
    ),
    ("clickhouse", "attributes['k'] = 'x'", "attributes['k'] = 'x'"),
    ("clickhouse", "attributes['k'] != 'x'", "attributes['k'] (something)"),
    ("clickhouse", "attributes['k'] = ''", "attributes['k'] (something)"),
    ("spark", "day >= date_sub(current_date(), 7)", "day >= datetime.date(2026, 6, 8)"),
    ("spark", "to_date(placed) < '2026-01-02'", f"date(placed) < {moment('2026-01-02 00:00:00')}"),
    ("spark", "customer <=> 'a' AND startswith(customer, 'a')", "customer = 'a' AND customer LIKE 'a'%"),
    ("spark", "attributes.k = 'x'", "attributes['k'] = 'x'"),
    ("duckdb", "placed::DATE >= '2026-01-02'", f"cast(placed) >= {moment('2026-01-02 00:00:00')}"),
    ("duckdb", "element_at(attributes, 'k')[1] = 'x'", "attributes['k'] = 'x'"),
    ("duckdb", "trace = '\\xAB\\x12'::BLOB", "trace = b'\\xab\\x12'"),
]


@pytest.mark.parametrize(("dialect", "condition", "said"), CONDITIONS)
def test_a_condition_becomes_a_filter(dialect: str, condition: str, said: str) -> None:
    """Each engine's way to say a condition becomes the same kind of test, with values of the column's type."""
    found = use_of(f"SELECT id FROM shop.orders WHERE {condition}", dialect).filter
    assert format_filter(found, allow_literals=True) == said


SHAPES = [
    (
        "WITH a AS (SELECT id, customer AS c FROM orders WHERE active) SELECT c FROM a WHERE c = 'x'",
        "active = True AND customer = 'x'",
    ),
    ("SELECT * FROM (SELECT id AS n FROM orders) WHERE n = 5", "id = 5"),
    ("SELECT * FROM (SELECT id FROM orders LIMIT 5) WHERE id = 5", "id (something)"),
    (
        "SELECT * FROM (SELECT customer, sum(total) s FROM orders GROUP BY 1) WHERE customer = 'x' AND s > 5",
        "customer = 'x'",
    ),
    ("SELECT moment FROM recent WHERE number = 5", f"placed > {moment('2026-01-01 00:00:00')} AND id = 5"),
    ("SELECT a.id FROM orders a LEFT JOIN customers c ON a.id = c.cid AND a.id = 5", "everything"),
    ("SELECT a.id FROM customers c LEFT JOIN orders a ON a.id = c.cid AND a.id = 5", "id = 5"),
    ("SELECT a.id FROM customers c LEFT JOIN orders a ON a.id = c.cid WHERE a.customer IS NULL", "everything"),
    ("SELECT a.id FROM customers c LEFT JOIN orders a ON a.id = c.cid WHERE a.customer = 'x'", "customer = 'x'"),
    ("SELECT a.id FROM customers c FULL JOIN orders a ON a.id = c.cid AND a.id = 5", "everything"),
    ("SELECT x.n FROM (SELECT cid n FROM customers UNION ALL SELECT id FROM orders) x WHERE x.n = 5", "id = 5"),
    (
        "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id WHERE a.id = 1 AND b.customer = 'x'",
        "id = 1 OR customer = 'x'",
    ),
    ("SELECT c.name FROM customers c WHERE c.cid IN (SELECT id FROM orders WHERE active)", "active = True"),
    (
        "SELECT id FROM orders o, customers c WHERE (o.id = 1 AND c.name = 'a') OR (o.id = 2 AND c.name = 'b')",
        "id = 1 OR id = 2",
    ),
    ("INSERT INTO other SELECT id FROM orders WHERE id = 5", "id = 5"),
    ("DELETE FROM orders WHERE id < 5", "id < 5"),
    (
        "SELECT 1 FROM customers c JOIN LATERAL (SELECT * FROM orders o WHERE o.id = c.cid AND active) x ON TRUE",
        "active = True",
    ),
    ("SELECT year(day) AS y FROM orders WHERE y = 0 AND id = 1", "year(day) (something) AND id = 1"),
]


@pytest.mark.parametrize(("sql", "said"), SHAPES)
def test_predicates_reach_their_tables(sql: str, said: str) -> None:
    """Through WITH, sub-queries, views, joins and unions a condition gets to its table, where that is right."""
    assert format_filter(use_of(sql).filter, allow_literals=True) == said


def test_columns_join_keys_order_and_limit_are_found() -> None:
    """What is read, joined by and sorted by is told with the table's own names."""
    use = use_of(
        "WITH o AS (SELECT * FROM orders) SELECT o.total FROM o JOIN customers c ON o.id = c.cid "
        "WHERE attributes['k'] = 'v' ORDER BY o.placed DESC LIMIT 7"
    )
    assert set(use.columns) - {"attributes"} == {"total", "id", "attributes['k']", "placed"}
    assert (use.join_keys, use.order_by, use.limit) == (("id",), ("placed",), 7)


def test_words_of_clickhouse_around_a_table() -> None:
    """FINAL, SETTINGS, FORMAT and LIMIT BY stand in no one's way."""
    use = use_of(
        "SELECT id FROM orders FINAL WHERE id = 1 LIMIT 1 BY id SETTINGS max_threads = 1 FORMAT Native", "clickhouse"
    )
    assert (format_filter(use.filter, allow_literals=True), use.limit) == ("id = 1", None)


def test_a_star_reads_all_columns() -> None:
    """What `*` means is known from the schema."""
    assert set(use_of("SELECT * FROM orders").columns) == {
        *("id", "customer", "placed", "total", "attributes", "day", "trace", "resource", "active")
    }


def test_without_a_schema_the_text_is_all_there_is() -> None:
    """A table that nobody knows is read by the names in the query."""
    use = use_of("SELECT x FROM lake.s.t WHERE y = 'a' ORDER BY 1", table="s.t", tables=Tables())
    assert format_filter(use.filter, allow_literals=True) == "y = 'a'"
    assert (set(use.columns), use.order_by) == ({"x", "y"}, ("x",))


def test_a_query_in_a_condition_sees_the_names_around_it() -> None:
    """What it compares with them is a join, not a test, and no column of its own table."""
    use = use_of(
        "SELECT a FROM s.t WHERE EXISTS (SELECT 1 FROM s.u WHERE u.x = t.y AND u.z = 5)", "trino", "s.u", Tables()
    )
    assert format_filter(use.filter, allow_literals=True) == "z = 5"
    assert (set(use.columns), use.join_keys) == ({"x", "z"}, ("x",))


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT 1", "reads no table"),
        ("SELECT * FROM orders WHERE 1 = 0", "reads no rows"),
        ('SELECT * FROM "orders$snapshots"', "only metadata, or tables of other catalogs"),
        ("SELECT * FROM lake.shop.orders.files", "only metadata, or tables of other catalogs"),
        ("SELECT * FROM system.runtime.queries", "only metadata, or tables of other catalogs"),
        ("SELECT * FROM information_schema.tables", "only metadata, or tables of other catalogs"),
        ("DROP TABLE orders", "not a query"),
        (f"/* {CANARY_MARK} */ SELECT * FROM orders", "a canary of the autopilot"),
    ],
)
def test_what_no_layout_can_help_is_left_out(sql: str, reason: str) -> None:
    """Metadata, canaries and statements that read nothing are left out, and it is said why."""
    assert asked(sql) == IgnoredQuery(reason)


def test_a_query_that_failed_is_left_out() -> None:
    """Nobody waited for its answer."""
    failed = LoggedQuery("q", "trino", AT, "SELECT * FROM shop.orders", "trino", finished=False)
    assert parse_query(failed, TABLES) == IgnoredQuery("failed")


def test_bytes_go_to_the_table_that_they_were_read_of() -> None:
    """Where the log has bytes by table these count; the only table of a query has all of its bytes."""
    sql = "SELECT o.id FROM shop.orders o JOIN shop.customers c ON o.id = c.cid"
    reads = (TableRead(("lake", "shop", "orders"), 70), TableRead(("lake", "shop", "customers"), 30))
    both = parse_query(LoggedQuery("q", "trino", AT, sql, "trino", bytes_read=100, reads=reads), TABLES)
    one = parse_query(LoggedQuery("q", "trino", AT, "SELECT id FROM shop.orders", "trino", bytes_read=9), TABLES)
    assert isinstance(both, Query)
    assert isinstance(one, Query)
    assert {use.table: use.bytes_read for use in both.uses} == {"shop.orders": 70, "shop.customers": 30}
    assert [use.bytes_read for use in one.uses] == [9]


HOSTILE = {
    "brackets": "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "chain": "SELECT * FROM orders WHERE attributes" + "['a']" * 2000 + " = 'x'",
    "not": "SELECT * FROM orders WHERE " + "NOT " * 3000 + "active",
    "doubling": "WITH a0 AS (SELECT * FROM orders), "
    + ", ".join(f"a{n} AS (SELECT x.* FROM a{n - 1} x JOIN a{n - 1} y ON x.id = y.id)" for n in range(1, 40))
    + " SELECT * FROM a39",
    "joins": "SELECT * FROM orders o0 " + " ".join(f"JOIN orders o{n} ON o0.id = o{n}.id" for n in range(1, 150)),
    "long": "SELECT '" + "x" * 300_000 + "'",
    "unclosed": "SELECT 'a FROM orders",
    "nonsense": "SELECT FROM WHERE GROUP",
    "empty": " ; ",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_text_costs_itself_only(text: str) -> None:
    """What can't be followed is told with a reason that has nothing of the text in it, and nothing is raised."""
    result = asked(text)
    assert isinstance(result, UnparsedQuery)
    assert result.reason
    assert "x" * 10 not in result.reason
