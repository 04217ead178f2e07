"""Label filters in SQL pass every line that the pipeline passes."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neve.logql.language.parser import parse_selector
from neve.logql.pipeline.compilation import compile_stages, run_stages
from neve.logql.pipeline.entry import Entry
from neve.logql.storage.filter_sql import write_filters
from neve.logql.storage.streams import read_line, read_stream
from tests.logql.storage.test_parser_sql import JSON_LINES, LOGFMT_LINES

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.slow

FORMS = (
    "500",
    "499.9999999999",
    "-1",
    "1e3",
    "0x10",
    "",
    "890ms",
    "0.891s",
    "1m30s",
    "5 kB",
    "2MiB",
    "x",
    "inf",
    "5us",
)
VALUES = st.sampled_from(FORMS) | st.integers(0, 1000) | st.floats(0, 1000)
LINES = st.one_of(
    st.dictionaries(st.sampled_from(("a", "status", "user_id")), VALUES, max_size=3).map(json.dumps),
    st.lists(st.tuples(st.sampled_from(("a", "status", "user_id")), st.sampled_from(FORMS)), max_size=3).map(
        lambda pairs: " ".join(f"{name}={value}" for name, value in pairs)
    ),
    JSON_LINES,
    LOGFMT_LINES,
)
FILTERS = (
    "status >= 500",
    "status != 500",
    "a == 500 or status < 0",
    "a > 890ms",
    "a = 891ms",
    "status <= 5kB",
    'a = "x"',
    'user_id =~ "[0-9]+" , status > 1',
    'a != "500" | status > 0',
    'status = "" and a = ip("10.0.0.0/8")',
)
ATTRIBUTES = st.dictionaries(st.sampled_from(("a", " a ", "user.id", "x")), st.sampled_from(FORMS), max_size=2)


@cache
def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection for all examples."""
    return duckdb.connect()


def pass_in_sql(text: str, lines: Sequence[str], own: dict[str, str], resource: dict[str, str]) -> list[bool]:
    """Return which lines fulfil the condition."""
    filters = write_filters(parse_selector(text).stages)
    assert filters is not None
    columns = (
        "'cart' AS service_name, CAST(? AS MAP(VARCHAR, VARCHAR)) AS attributes, "
        "CAST(? AS MAP(VARCHAR, VARCHAR)) AS resource_attrs, NULL AS trace_id, NULL AS span_id, 0 AS severity_number"
    )
    sql = f"SELECT {filters.text} FROM (SELECT unnest(?) AS line, {columns})"  # a test
    return [one for (one,) in connect().execute(sql, [*filters.parameters, list(lines), own, resource]).fetchall()]


def pass_in_pipeline(text: str, lines: Sequence[str], own: dict[str, str], resource: dict[str, str]) -> list[bool]:
    """Return which lines pass."""
    row = {"attributes": own, "severity_number": 0, "severity_text": "", "scope_name": "", "event_name": ""}
    labels, rest = read_stream("cart", resource)
    metadata = read_line({**row, "trace_id": b"", "span_id": b""}, rest)
    stages = compile_stages(parse_selector(text).stages)
    return [bool(run_stages(stages, [Entry.make(0, line, labels, metadata)])) for line in lines]


@given(st.sampled_from(FILTERS), st.lists(LINES, min_size=1, max_size=8), ATTRIBUTES, ATTRIBUTES)
@example(FILTERS[0], ['{"status": 500.0}', '{"status":"499.9999999999"}', '{"status":-1}'], {}, {})
@pytest.mark.parametrize("parser", ["json", "logfmt"])
def test_filters(parser: str, text: str, lines: list[str], own: dict[str, str], resource: dict[str, str]) -> None:
    """No line that passes the pipeline fails the condition, whatever its form and its attributes."""
    query = f'{{service_name="cart"}} | {parser} | {text}'
    passed = zip(
        lines, pass_in_sql(query, lines, own, resource), pass_in_pipeline(query, lines, own, resource), strict=True
    )
    assert [line for line, in_sql, in_pipeline in passed if in_pipeline and not in_sql] == []


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("status >= 500", [True, False, False]),
        ('took > 890ms and status != "200"', [False, False, False]),
        ("took > 90ms | status < 500", [False, True, False]),
    ],
)
def test_common_lines(text: str, passed: list[bool]) -> None:
    """Lines of the usual form that fail a filter are not read."""
    lines = ['{"status":500,"took":"89ms"}', '{"status":200,"took":"95ms"}', '{"status":404,"took":"1.5us"}']
    assert pass_in_sql(f'{{service_name="cart"}} | json | {text}', lines, {}, {}) == passed


@pytest.mark.parametrize("text", ['| json a="b" | a > 1', "| json | __error__ = ``", "| line_format `x` | json | a>1"])
def test_no_filter(text: str) -> None:
    """Filters on errors, of changed lines and after expressions are left to the pipeline."""
    assert write_filters(parse_selector(f'{{service_name="cart"}} {text}').stages) is None
