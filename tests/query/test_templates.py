"""Parsed statements of programs that are used again with other parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import QueryError
from neve.query.sql import templates
from neve.query.sql.statement import parse, parse_template, write_for_duckdb
from neve.query.sql.templates import StatementTemplates
from tests.query.engines import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

SQL = "SELECT service_name, count(*) AS n FROM spans WHERE trace_id = ? AND duration_ms > ? GROUP BY ALL"
SOURCES = {0: '"source"'}
KNOWN = StatementTemplates()


@given(st.text("0123456789abcdef", min_size=32, max_size=32), st.floats(0, 1e6))
def test_equal_to_parsing(trace: str, least: float) -> None:
    """A statement of a known text is that of the parser: values are bound and converted each time."""
    found, fresh = KNOWN.parse(SQL, SCHEMAS, [trace, least]), parse(SQL, SCHEMAS, [trace, least])
    assert write_for_duckdb(found, SOURCES) == write_for_duckdb(fresh, SOURCES)
    assert (found.tables, found.volatile, found.kind) == (fresh.tables, fresh.volatile, fresh.kind)


def test_parameters_are_checked_each_time() -> None:
    """A known text does not let wrong parameters pass."""
    known = StatementTemplates()
    known.parse(SQL, SCHEMAS, ["ab" * 16, 1.0])
    for parameters in ([], ["ab" * 16], ["ab" * 16, 1.0, 2.0], [object(), 1.0]):
        with pytest.raises(QueryError):
            known.parse(SQL, SCHEMAS, parameters)


def test_one_parse_for_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is parsed once, until a column of its tables changes or other texts took its place."""
    parsed: list[str] = []

    def parse_and_count(sql: str, tables: Mapping[str, pa.Schema]) -> exp.Expression:
        parsed.append(sql)
        return parse_template(sql, tables)

    monkeypatch.setattr(templates, "parse_template", parse_and_count)
    known = StatementTemplates(most=2)
    for value in (1.0, 2.0):
        known.parse(SQL, SCHEMAS, ["ab" * 16, value])
    assert parsed == [SQL]
    changed = {**SCHEMAS, "spans": SCHEMAS["spans"].append(pa.field("more", pa.string()))}
    known.parse(SQL, changed, ["ab" * 16, 1.0])
    assert parsed == [SQL] * 2
    for sql in ("SELECT 1 AS a", "SELECT 2 AS a"):
        known.parse(sql, changed)
    known.parse(SQL, changed, ["ab" * 16, 1.0])
    assert parsed == [SQL, SQL, "SELECT 1 AS a", "SELECT 2 AS a", SQL]


def test_refused_statements_are_refused_again() -> None:
    """Nothing but a query of the lake's tables becomes a template."""
    known = StatementTemplates()
    for sql in ("DROP TABLE spans", "SELECT * FROM nowhere", "SELECT read_text('x')"):
        for _ in range(2):
            with pytest.raises(QueryError):
                known.parse(sql, SCHEMAS)
