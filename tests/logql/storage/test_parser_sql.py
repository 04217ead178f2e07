"""Parsers in SQL read the labels that a query names as the pipeline does, or leave the line to it."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neve.logql.language.syntax import Json, Logfmt, Pattern, Regexp
from neve.logql.pipeline.compilation import compile_stages, run_stages
from neve.logql.pipeline.entry import Entry, Hints
from neve.logql.storage.parser_sql import write_parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.logql.language.syntax import Stage

pytestmark = pytest.mark.slow

NAMES = ("a", "status", "user_id")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ("x", "a b", " ", "5", "-0", "1.50", "a=1", 'q"q', "\\", "\ufffd", "{", "a.b", "\u00e9", "x\ny")
)
KEYS = st.sampled_from(("a", "status", "user_id", "user.id", "user", "id", "", " a", "A", "a ", "\u00e9", "b"))
NUMBERS = st.integers(-3, 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
VALUES = st.recursive(
    TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
JSON_LINES = st.one_of(
    st.dictionaries(KEYS, VALUES, max_size=4).map(lambda one: json.dumps(one, ensure_ascii=False)),
    st.dictionaries(KEYS, VALUES, max_size=3).map(json.dumps),
    VALUES.map(json.dumps),
    st.sampled_from(
        (
            '{"a":1,"a":2}',
            '{"a":"x"} rest',
            '{"a":"x",',
            "",
            '{"user":{"id":7},"user_id":8}',
            '{"user_id":8,"user.id":9}',
            '{"a":-0}',
            '{"a":1e3,"status":"ok"}',
            '{"":{"a":5}}',
            '{ "a" : "b" , "status" : 200 }',
            '{"a":"\\ud800"}',
            '[{"a":1}]',
            '{"x\\":":1,"a":2}',
        )
    ),
)
PAIRS = st.tuples(KEYS | TEXTS, st.sampled_from(("=", "", "==", '="', "= ")), TEXTS)
LOGFMT_LINES = st.one_of(
    st.lists(PAIRS.map("".join), max_size=5).map(" ".join),
    st.lists(st.tuples(KEYS, TEXTS).map(lambda one: f"{one[0]}={json.dumps(one[1])}"), max_size=4).map(" ".join),
    st.sampled_from(('msg="x a=5 y" a=6', "a= a=2", 'a="" a=3', "a", "xa=1 a=2", 'a="b"c=1', "a=\x01 status=2")),
)
WORDS = st.lists(st.sampled_from(("GET", "/a", "200", "-", " ", "[", "]", "x", "\n", "ms")), max_size=8).map("".join)


@cache
def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection for all examples."""
    return duckdb.connect()


def parse_in_sql(stage: Stage, lines: Sequence[str]) -> list[dict[str, str] | None]:
    """Return the labels of each line, or `None` where SQL leaves the line to the pipeline."""
    parser = write_parser(stage, NAMES)
    assert parser is not None
    columns = ", ".join(piece.text for piece in (*parser.values, parser.condition))
    parameters = [one for piece in (*parser.values, parser.condition) for one in piece.parameters]
    sql = f"SELECT {columns} FROM (SELECT unnest(?) AS line)"  # a test
    rows = connect().execute(sql, [*parameters, list(lines)]).fetchall()
    return [
        {name: value for name, value in zip(NAMES, row, strict=False) if value is not None} if row[-1] else None
        for row in rows
    ]


def parse_in_pipeline(stage: Stage, lines: Sequence[str]) -> list[dict[str, str]]:
    """Return the labels and the error of each line."""
    hints = Hints(frozenset(NAMES))
    found = []
    for line in lines:
        [entry] = run_stages(compile_stages([stage], hints), [Entry.make(0, line, {}, {})])
        found.append(entry.parsed | dict(entry.errors()))
    return found


def check(stage: Stage, lines: Sequence[str]) -> int:
    """Compare all lines that SQL reads, and return their number."""
    pairs = list(zip(lines, parse_in_sql(stage, lines), parse_in_pipeline(stage, lines), strict=True))
    read = [pair for pair in pairs if pair[1] is not None]
    assert [pair for pair in read if pair[1] != pair[2]] == []
    return len(read)


@given(st.lists(JSON_LINES, min_size=1, max_size=8))
@example(['{"user":{"id":7},"user_id":8}', '{"a":"b\\u0020"}'])
def test_json(lines: list[str]) -> None:
    """`json` in SQL and in the pipeline find the same labels."""
    check(Json(), lines)


@given(st.lists(LOGFMT_LINES, min_size=1, max_size=8))
def test_logfmt(lines: list[str]) -> None:
    """`logfmt` in SQL and in the pipeline find the same labels."""
    check(Logfmt(), lines)


@given(st.lists(WORDS, min_size=1, max_size=8))
def test_regexp(lines: list[str]) -> None:
    """`regexp` in SQL and in the pipeline find the same labels."""
    check(Regexp(r"(?P<a>\w+) (x)?(?P<status>\d*)"), lines)


@given(st.lists(WORDS, min_size=1, max_size=8))
@pytest.mark.parametrize("pattern", ["<a> <_>[<status>]", "GET<a>-<status>", "<_>ms<a>"])
def test_pattern(pattern: str, lines: list[str]) -> None:
    """`pattern` in SQL and in the pipeline find the same labels."""
    check(Pattern(pattern), lines)


@pytest.mark.parametrize(
    ("stage", "line"),
    [
        (Json(), '{"a":"x","status":200,"deep":{"b":1.5},"list":[1]}'.replace(',"deep":{"b":1.5}', "")),
        (Logfmt(), 'ts=1 level=info a="some words" status=200 user_id=7'),
        (Regexp(r"(?P<a>\w+)"), "word"),
        (Pattern("<a> - <status>"), "x - 200"),
    ],
)
def test_common_lines(stage: Stage, line: str) -> None:
    """Lines of the usual form are read in SQL."""
    assert check(stage, [line]) == 1
