"""Tokenizer of LogQL.

Words that name functions are identifiers unless a parenthesis or a grouping follows. Durations, sizes and ranges are
single tokens, as in Loki.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import InvalidExpression
from neve.lexical.literals import LiteralError, parse_duration, scan_string, unquote
from neve.lexical.units import UnitError, parse_bytes, parse_go_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FUNCTIONS", "LogToken", "fail", "tokenize"]

RANGE_FUNCTIONS = frozenset(
    [
        "rate",
        "rate_counter",
        "count_over_time",
        "bytes_rate",
        "bytes_over_time",
        "avg_over_time",
        "sum_over_time",
        "min_over_time",
        "max_over_time",
        "stdvar_over_time",
        "stddev_over_time",
        "quantile_over_time",
        "first_over_time",
        "last_over_time",
        "absent_over_time",
    ]
)
AGGREGATIONS = frozenset(
    ["sum", "avg", "max", "min", "count", "stddev", "stdvar", "bottomk", "topk", "sort", "sort_desc", "approx_topk"]
)
CONVERSIONS = frozenset({"bytes", "duration", "duration_seconds"})
FUNCTIONS = RANGE_FUNCTIONS | AGGREGATIONS | CONVERSIONS | {"vector", "label_replace", "ip"}
KEYWORDS = frozenset(
    [
        "unwrap",
        "by",
        "without",
        "bool",
        "offset",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "or",
        "and",
        "unless",
        "json",
        "regexp",
        "logfmt",
        "unpack",
        "pattern",
        "label_format",
        "line_format",
        "ip",
        "decolorize",
        "drop",
        "keep",
    ]
)
_SPACE = re.compile(r"(?:\s+|#[^\n]*)+")
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*(?:[pP][+-]?[0-9]+)?|0[oO][0-7_]+|0[bB][01_]+|(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?"
)
_DURATION_END = re.compile(r"[0-9nuµmshdwy.]+")
_BYTES_END = re.compile(r"[0-9BikKMGTP.]+")
_OPERATOR = re.compile(r"!=|=~|!~|!>|\|=|\|~|\|>|==|>=|<=|[-+*/%^<>=|{}(),.]")
_FUNCTION_END = re.compile(r"\s*(?:\(|(?:by|without)\s*\()", re.IGNORECASE)
_FLAG = re.compile(r"--[a-zA-Z-]+")
_FLAGS = frozenset({"--strict", "--keep-empty"})
_MAX_LENGTH = 100_000  # characters of one query


@dataclass(frozen=True, slots=True)
class LogToken:
    """Token: its kind, its text, its value and its place.

    Kinds: name, keyword, function, string, number, duration, bytes, range, flag, operator, end.
    """

    kind: str
    text: str
    start: int
    value: str | int = field(default="", compare=False)

    def describe(self) -> str:
        """Return the token as messages of Loki name it."""
        if self.kind == "end":
            return "$end"
        upper = {"name": "IDENTIFIER", "flag": "FUNCTION_FLAG"}
        if self.kind in {"string", "number", "duration", "bytes", "range", *upper}:
            return upper.get(self.kind, self.kind.upper())
        return self.text.lower()


def fail(text: str, at: int, message: str) -> InvalidExpression:
    """Return the error of a place in a query."""
    before = text[: min(at, len(text))]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return InvalidExpression(f"parse error at line {line}, col {column}: {message}")


def tokenize(text: str) -> Iterator[LogToken]:
    """Yield the tokens of a query, with one of kind `end` at last. Raises `InvalidExpression` with line and column."""
    if len(text) > _MAX_LENGTH:
        raise fail(text, 0, f"query has {len(text)} characters, expected at most {_MAX_LENGTH}")
    at = 0
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at >= len(text):
            yield LogToken("end", "", len(text))
            return
        token = _read(text, at)
        yield token
        at = token.start + len(token.text)


def _read(text: str, at: int) -> LogToken:
    char = text[at]
    if char in '"`':
        return _read_string(text, at)
    if char == "[":
        return _read_range(text, at)
    if char.isdigit() or (char == "." and text[at + 1 : at + 2].isdigit()):
        return _read_number(text, at)
    if char == "-":
        found = _read_negative(text, at)
        if found is not None:
            return found
    word = _WORD.match(text, at)
    if word:
        return _read_word(text, at, word[0])
    operator = _OPERATOR.match(text, at)
    if operator is None:
        raise fail(text, at, f"syntax error: unexpected {char!r}")
    return LogToken("operator", operator[0], at)


def _read_string(text: str, at: int) -> LogToken:
    try:
        end = scan_string(text, at)
        return LogToken("string", text[at:end], at, unquote(text[at:end]))
    except LiteralError as error:
        raise fail(text, at, str(error)) from None


def _read_range(text: str, at: int) -> LogToken:
    end = text.find("]", at)
    if end < 0:
        raise fail(text, at, "missing closing ']' in duration")
    try:
        return LogToken("range", text[at : end + 1], at, parse_duration(text[at + 1 : end]) * 1_000_000)
    except LiteralError as error:
        raise fail(text, at, str(error)) from None


def _read_number(text: str, at: int) -> LogToken:
    number = _NUMBER.match(text, at)
    end = number.end() if number else at + 1
    for kind, pattern, parse in (("duration", _DURATION_END, _parse_duration), ("bytes", _BYTES_END, parse_bytes)):
        rest = pattern.match(text, end)
        if rest is None:
            continue
        try:
            return LogToken(kind, text[at : rest.end()], at, parse(text[at : rest.end()]))
        except UnitError:
            continue
    return LogToken("number", text[at:end], at, text[at:end])


def _read_negative(text: str, at: int) -> LogToken | None:
    """Return a flag or a negative duration, or `None` for the operator."""
    flag = _FLAG.match(text, at)
    if flag and flag[0] in _FLAGS:
        return LogToken("flag", flag[0], at)
    rest = _DURATION_END.match(text, at + 1)
    if rest is None:
        return None
    try:
        return LogToken("duration", text[at : rest.end()], at, _parse_duration(text[at : rest.end()]))
    except UnitError:
        return None


def _read_word(text: str, at: int, word: str) -> LogToken:
    lower, end = word.lower(), at + len(word)
    if lower in FUNCTIONS:
        kind = "function" if _FUNCTION_END.match(text, end) else "name"
        return LogToken(kind, word, at, word if kind == "name" else lower)
    return LogToken("keyword", word, at, lower) if lower in KEYWORDS else LogToken("name", word, at, word)


def _parse_duration(text: str) -> int:
    """Return nanoseconds of a duration of Prometheus, or else of Go."""
    try:
        return parse_duration(text) * 1_000_000
    except LiteralError:
        return parse_go_duration(text)
