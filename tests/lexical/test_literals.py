"""Strings, numbers, durations and label matchers that the query languages share."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.lexical.literals import (
    LiteralError,
    format_duration,
    format_float,
    format_general,
    parse_duration,
    parse_number,
    quote,
    scan_number,
    scan_string,
    unquote,
)
from neve.lexical.matchers import Matcher, MatchKind, RegexError, Template, match_regex
from neve.lexical.positions import format_position


@given(st.text(st.characters(codec="utf-8")))
def test_quote(text: str) -> None:
    """A quoted text is one token, and unquoting gives the text."""
    quoted = quote(text)
    assert scan_string(quoted + " rest", 0) == len(quoted)
    assert unquote(quoted) == text


@given(st.integers(0, 9 * 10**12))
def test_durations(milliseconds: int) -> None:
    """Durations survive printing."""
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers(value: float) -> None:
    """Numbers survive both ways of printing."""
    assert float(format_float(value)) == value
    assert float(format_general(value)) == value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5m]", (2, True)),
        ("1h30m ", (5, True)),
        ("1e3+", (3, False)),
        ("0x1f", (4, False)),
        ("5mx", None),
        ("1..2", None),
    ],
)
def test_scan_number(text: str, found: tuple[int, bool] | None) -> None:
    """A number ends where no letter or digit follows."""
    assert scan_number(text, 0) == found


@pytest.mark.parametrize("text", ["30m1h", "5", "", "1x", "999999999999999y"])
def test_bad_durations(text: str) -> None:
    """Units must be known and in order, and the duration within 292 years."""
    with pytest.raises(LiteralError):
        parse_duration(text)


def test_special_numbers() -> None:
    """Inf and NaN are numbers in any case."""
    assert parse_number("iNf") == math.inf
    assert math.isnan(parse_number("nan"))


@pytest.mark.parametrize("quoted", [r'"\q"', r'"\xff"', r'"\ud800"', r"'\"'"])
def test_bad_escapes(quoted: str) -> None:
    """Unknown escapes and bytes that are not UTF-8 are errors."""
    with pytest.raises(LiteralError):
        unquote(quoted)


def test_matchers() -> None:
    """Regular expressions are anchored, and `.` matches line breaks."""
    assert Matcher("a", MatchKind.REGEX, "b.*").match_all(["b\nc", "ab", "b"]) == [True, False, True]
    assert Matcher("a", MatchKind.NOT_REGEX, "b|c").match_all(["b", "", "bc"]) == [False, True, True]
    assert Matcher("a", MatchKind.NOT_EQUAL, "").matches("x")


def test_linear_time() -> None:
    """A pattern that takes exponential time in other engines is answered at once."""
    assert match_regex("(a+)+$x?", ["a" * 5000 + "b"]) == [False]


def test_bad_regex() -> None:
    """What RE2 does not know is an error: look-ahead, back references, open groups."""
    for pattern in ("(?=a)", r"(a)\1", "(a"):
        with pytest.raises(RegexError):
            match_regex(pattern, [""])


def test_templates() -> None:
    """Replacements know groups by number and by name. Unknown groups are empty."""
    assert list(Template("(?P<x>a)(b*)", "${x}-$2-$9-$$").expand_all(["abb", "c"], 100)) == ["a-bb--$", None]


def test_positions() -> None:
    """Lines and columns count from 1."""
    assert format_position("a\nbc", 3) == "2:2"
    assert format_position("abc", 99) == "1:4"
