"""Random tables, conditions and statements for the tests of scans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIELDS = {
    "id": (LongType(), "BIGINT"),
    "n": (IntegerType(), "INTEGER"),
    "big": (LongType(), "BIGINT"),
    "x": (DoubleType(), "DOUBLE"),
    "s": (StringType(), "VARCHAR"),
    "b": (BinaryType(), "BLOB"),
    "f": (BooleanType(), "BOOLEAN"),
    "t": (TimestamptzType(), "TIMESTAMPTZ"),
    "d": (DateType(), "DATE"),
}
SCHEMA = Schema(
    *(NestedField(number, name, kind, required=False) for number, (name, (kind, _)) in enumerate(FIELDS.items(), 1))
)
CREATE = f"({', '.join(f'{name} {kind}' for name, (_, kind) in FIELDS.items())})"

moments = st.sampled_from(
    [-86_400_000_001, -1, 0, 1, 3_599_999_999, 3_600_000_000, 86_400_000_000, 951_782_400_000_000]
)
texts = st.sampled_from(["", "a", "ab", "abc", "b", "A", "a pool b", "Pool exhausted", "é", "ab%", "\u0130x"])
doubles = st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, 1.5, -3.25, 1e20, 0.1])
values: dict[str, st.SearchStrategy[Any]] = {
    "n": st.sampled_from([-(2**31), -1, 0, 1, 2, 5, 2**31 - 1]),
    "big": st.sampled_from([-(2**63), -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1]),
    "x": doubles,
    "s": texts,
    "b": st.sampled_from([b"", b"\0", b"\1" * 16, b"\xff", b"ab"]),
    "f": st.booleans(),
    "t": moments.map(lambda micros: EPOCH + timedelta(microseconds=micros)),
    "d": st.sampled_from([-1, 0, 1, 11016]).map(lambda days: (EPOCH + timedelta(days=days)).date()),
}
rows = st.fixed_dictionaries({name: st.none() | strategy for name, strategy in values.items()})
tables = st.lists(rows, max_size=6).map(lambda some: [{"id": place, **row} for place, row in enumerate(some)])

moment_texts = st.sampled_from(
    [
        *("1970-01-01", "1970-01-01 00:00:00", "1970-01-01 01:00:00+01", "1969-12-31T23:59:59.999999Z"),
        *("1970-01-02 00:00:00-00:30", "2000-02-29", "1970-01-01 00:59:59.9999999", "not a time", "infinity"),
    ]
)
moments_sql = st.one_of(
    moment_texts.map(lambda text: f"'{text}'"),
    moment_texts.map(lambda text: f"TRY_CAST('{text}' AS TIMESTAMPTZ)"),
    moment_texts.map(lambda text: f"TRY_CAST('{text}' AS TIMESTAMP)"),
    st.sampled_from(
        [
            *("DATE '1970-01-01'", "TIMESTAMP '1970-01-01 00:00:00' + INTERVAL 1 HOUR", "now()", "NULL"),
            *("now() - INTERVAL 1 DAY", "current_date", "DATE '1970-01-01' - 1", "make_timestamptz(0)"),
            *("to_timestamp(3600)", "date_trunc('day', now())", "now() - INTERVAL '1 month'"),
        ]
    ),
)
dates_sql = st.sampled_from(
    ["DATE '1970-01-01'", "'1970-01-02'", "'1970-01-01 10:00:00'", "TIMESTAMP '1970-01-01 01:00:00'"]
)
numbers_sql = st.sampled_from(
    [
        *("0", "1", "-1", "1.5", "1.0", "2.5", "-3.25", "1e0", "1.5e0", "3000000000", "9007199254740993", "NULL"),
        *("9007199254740992::DOUBLE", "1.00000000000000000001", "'NaN'::DOUBLE", "'inf'::DOUBLE", "0.1", "1e300"),
        *("99999999999999999999999999999999999999", "1::SMALLINT", "2147483648", "-9223372036854775809", "0.1::FLOAT"),
    ]
)
texts_sql = st.one_of(texts.map(lambda text: f"'{text}'"), st.sampled_from(["NULL", "'a' || 'b'", "'5'"]))
bytes_sql = st.sampled_from(["unhex('00')", "from_hex('0101')", "'ab'::BLOB", r"'\xFF'", "'ab'", "''", "NULL"])
LITERALS = {
    **dict.fromkeys(("n", "big", "x"), numbers_sql),
    "s": texts_sql,
    "b": bytes_sql,
    "f": st.sampled_from(["true", "false", "NULL"]),
    "t": moments_sql,
    "d": dates_sql,
}
TERMS = {
    "n": ("{}", "{}", "({})", "CAST({} AS BIGINT)", "{} + 1"),
    "big": ("{}", "CAST({} AS HUGEINT)", "CAST({} AS DOUBLE)", "abs({})"),
    "x": ("{}", "-{}"),
    "s": ("{}", "lower({})", "CAST({} AS VARCHAR)"),
    "t": (
        *("{}", "{}", "date_trunc('hour', {})", "date_trunc('day', {})", "date_trunc('month', {})", "CAST({} AS DATE)"),
        *("CAST({} AS TIMESTAMP)", "time_bucket(INTERVAL 5 MINUTE, {})", "time_bucket(INTERVAL '7 days', {})"),
        *("CAST(date_trunc('hour', {}) AS DATE)", "date_trunc('year', {})", "time_bucket(INTERVAL '2 months', {})"),
    ),
}
patterns = st.sampled_from(["a%", "ab", "%b", "a_c%", "%", "", "% pool %", "%a pool b%", "%pool%", "a pool%", "A%"])


@st.composite
def compared(draw: st.DrawFn, prefix: str) -> str:
    """A column, or something made of one, compared with values."""
    name = draw(st.sampled_from(list(LITERALS)))
    column = prefix + draw(st.sampled_from([name, name.upper()]))
    term = draw(st.sampled_from(TERMS.get(name, ("{}",)))).format(column)
    values = draw(st.lists(LITERALS[name], min_size=2, max_size=4))
    form = draw(
        st.sampled_from(["{term} {op} {one}", "{one} {op} {term}", "{term} {word} ({all})", "{term} {between}"])
    )
    return form.format(
        term=term,
        op=draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM", "IS DISTINCT FROM"])),
        one=values[0],
        word=draw(st.sampled_from(["IN", "NOT IN"])),
        all=", ".join(values),
        between=f"{draw(st.sampled_from(['BETWEEN', 'NOT BETWEEN']))} {values[0]} AND {values[1]}",
    )


@st.composite
def others(draw: st.DrawFn, prefix: str) -> str:
    """A condition that compares nothing."""
    column = prefix + draw(st.sampled_from(list(LITERALS)))
    like = draw(st.sampled_from(["LIKE", "NOT LIKE", "ILIKE", "^@"]))
    flag = draw(st.sampled_from(["", " IS TRUE", " IS NOT TRUE", " IS FALSE"]))
    forms = [f"{column} IS NULL", f"{column} IS NOT NULL", f"{prefix}f{flag}", "true", "1 = 0"]
    forms += [f"{prefix}s LIKE 'a!%%' ESCAPE '!'", f"prefix({prefix}s, 'ab')", f"{prefix}n IN [1, 2]"]
    return draw(st.sampled_from([*forms, f"{prefix}s {like} '{draw(patterns)}'"]))


@cache
def conditions(prefix: str = "") -> st.SearchStrategy[str]:
    """Conditions with AND, OR and NOT on columns with something before their names."""
    return st.recursive(
        compared(prefix) | compared(prefix) | others(prefix),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
            inner.map(lambda part: f"NOT ({part})"),
        ),
        max_leaves=5,
    )


JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
LINKS = ("{} = {}", "{} = {}", "{} IS NOT DISTINCT FROM {}", "{} <= {}")


@st.composite
def on(draw: st.DrawFn, left: str, right: str) -> str:
    """A condition of a join."""
    column = draw(st.sampled_from(["n", "s", "f"]))
    link = draw(st.sampled_from(LINKS)).format(f"{left}.{column}", f"{right}.{column}")
    more = draw(st.lists(st.sampled_from([left, right]).flatmap(lambda name: conditions(f"{name}.")), max_size=2))
    return " AND ".join([link, *more])


@st.composite
def where(draw: st.DrawFn, *names: str) -> str:
    """A WHERE over some tables, or none."""
    parts = st.sampled_from(names).flatmap(lambda name: conditions(f"{name}." if name else ""))
    some = draw(st.lists(parts, max_size=2))
    return f" WHERE {draw(st.sampled_from([' AND ', ' OR '])).join(some)}" if some else ""


PAIRS = (
    "SELECT a.id, b.id FROM t a {join} u b ON {on}{where_a_b}",
    "SELECT a.id, b.id FROM t a {join} u b ON {on}{where_a_b}",
    "SELECT a.id, b.id, c.id FROM t a {join} u b ON {on} {other} t c ON {next}{where_a_b_c}",
    "SELECT a.id, b.id, c.id FROM t a {join} u b ON {on} {other} t c ON {next}{where_a_b_c}",
    "SELECT a.id, b.id FROM t a CROSS JOIN u b{where_a_b}",
    "SELECT a.id, b.id FROM t a, u b{where_a_b}",
    "SELECT a.id, b.id FROM t a {join} u b USING (n){where_a_b}",
    "SELECT a.id, b.id FROM t a NATURAL {join} u b{where_a_b}",
    "SELECT a.id FROM t a SEMI JOIN u b ON {on}{where_a}",
    "SELECT a.id FROM t a ANTI JOIN u b ON {on}{where_a}",
    "SELECT a.id, b.id FROM t a ASOF JOIN u b ON a.n = b.n AND a.id >= b.id{where_a_b}",
    "SELECT a.id, b.id FROM t a ASOF LEFT JOIN u b ON a.n = b.n AND a.id >= b.id{where_a_b}",
    "SELECT a.id, x.y FROM t a, LATERAL (SELECT a.n + 1 AS y) x{where_a}",
    "SELECT a.id, x.y FROM t a LEFT JOIN LATERAL (SELECT id AS y FROM u WHERE u.n = a.n) x ON true{where_a}",
    "SELECT id FROM t{where} UNION ALL SELECT id FROM u{where}",
)


@st.composite
def joined(draw: st.DrawFn) -> str:
    """Tables that are joined in some way."""
    return draw(st.sampled_from(PAIRS)).format(
        join=draw(st.sampled_from(JOINS)),
        other=draw(st.sampled_from(JOINS)),
        on=draw(on("a", "b")),
        next=draw(on("b", "c")),
        where=draw(where("")),
        where_a=draw(where("a")),
        where_a_b=draw(where("a", "b")),
        where_a_b_c=draw(where("a", "b", "c")),
    )


ALL = "id, n, big, x, s, b, f, t, d"
INNER = (
    "SELECT * FROM t{where}",
    f"SELECT {ALL} FROM t{{where}}",
    "SELECT * EXCLUDE (x), 1.5::DOUBLE AS x FROM t{where}",
    f"SELECT {ALL.replace('n, big', 'n + 1 AS n, n AS big')} FROM t{{where}}",
    f"SELECT {ALL} FROM t{{where}} ORDER BY id LIMIT 2",
    f"SELECT DISTINCT {ALL} FROM t{{where}}",
    f"SELECT DISTINCT ON (n) {ALL} FROM t{{where}} ORDER BY n, id",
    f"SELECT {ALL.replace('big', 'row_number() OVER (ORDER BY id) AS big')} FROM t{{where}}",
    f"SELECT {ALL.replace('id', 'count(*) AS id')} FROM t{{where}} GROUP BY ALL",
    f"SELECT {ALL.replace('id', 'max(id) AS id').replace('big', 'min(big) AS big')} FROM t{{where}} "
    "GROUP BY n, 4, s, b, f, t, d",
    f"SELECT {ALL.replace('id', 'max(id) AS id')} FROM t{{where}} GROUP BY ROLLUP (n, big, x, s, b, f, t, d)",
    f"SELECT {ALL} FROM t{{where}} QUALIFY row_number() OVER (PARTITION BY n ORDER BY id) = 1",
    f"SELECT {', '.join(f'a.{name}' for name in ALL.split(', '))} FROM t a LEFT JOIN u ON a.n = u.n{{where_a}}",
    f"SELECT {', '.join(f'u.{name}' for name in ALL.split(', '))} FROM t a LEFT JOIN u ON a.n = u.n{{where_a}}",
    f"SELECT {ALL} FROM (SELECT * FROM t{{where}}) AS deep",
    f"SELECT {ALL} FROM t{{where}} UNION ALL SELECT {ALL} FROM u",
    "SELECT id, n AS t, big, x, s, b, f, t AS n2, d FROM t{where}",
)


OUTER = (
    "SELECT c.id FROM ({inner}) AS c{where_c}",
    "WITH c AS ({inner}) SELECT c.id FROM c{where_c}",
    "WITH c AS ({inner}) SELECT c.id, e.id FROM c JOIN c AS e ON c.n = e.n{where_c}",
    "WITH c AS ({inner}) SELECT c.id, u.id FROM u {join} c ON {on}{where_u_c}",
    "WITH e AS ({inner}), c AS (SELECT * FROM e{where_e}) SELECT id FROM c{where}",
    "SELECT c.id FROM ({inner}) AS c WHERE EXISTS (SELECT 1 FROM u WHERE u.n = c.n AND {condition})",
    "SELECT c.id FROM ({inner}) AS c WHERE n IN (SELECT n FROM u WHERE {condition})",
    "SELECT id, (SELECT count(*) FROM u{where_u_c}) FROM ({inner}) AS c{where_c}",
)


@st.composite
def nested(draw: st.DrawFn) -> str:
    """A query over the result of another one: as a subquery, by name once, by name twice."""
    inner = draw(st.sampled_from(INNER)).format(where=draw(where("")), where_a=draw(where("a")))
    return draw(st.sampled_from(OUTER)).format(
        inner=inner,
        join=draw(st.sampled_from(JOINS)),
        on=draw(on("u", "c")),
        condition=draw(conditions()),
        where=draw(where("")),
        where_c=draw(where("c")),
        where_e=draw(where("e")),
        where_u_c=draw(where("u", "c")),
    )
