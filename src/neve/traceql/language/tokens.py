"""Tokenizer of TraceQL.

An attribute is one token with its scope: its name ends only at a space or one of `{}()=~!<>&|^,`, so `.a-b` is a name.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.errors import InvalidExpression
from neve.lexical.literals import LiteralError, parse_duration, scan_string, unquote
from neve.lexical.positions import format_position
from neve.lexical.units import UnitError, parse_go_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Token", "fail", "tokenize"]

MAX_CHARACTERS = 50_000  # of one query
_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)+")
_WORD = re.compile(r"[^\W\d]\w*")
_SCOPE = re.compile(r"(resource|span|event|link|instrumentation|parent)\.")
_PARENT_SCOPE = re.compile(r"(resource|span)\.")
_INTRINSIC = re.compile(r"(trace|span|event|link|instrumentation):(\w*)")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DURATION_END = re.compile(r"[0-9nuµmshdwy.]+")
_NAME = re.compile(r"[^\s{}()=~!<>&|^,\"]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"', re.DOTALL)
_OPERATOR = re.compile(r"!>>|!<<|&>>|&<<|!=|=~|!~|>=|<=|&&|\|\||>>|<<|!>|!<|&>|&<|&~|[-+*/%^<>=!|~{}(),]")
_MAX_INT = 2**63


@dataclass(frozen=True, slots=True)
class Token:
    """Token: its kind, its text, its place and its value.

    Kinds: word, string, integer, float, duration, attribute (value: scope, name, whether of the parent), intrinsic,
    operator, end.
    """

    kind: str
    text: str
    start: int
    value: Any = field(default=None, compare=False)

    def describe(self) -> str:
        """Return the token for messages."""
        return "the end of the query" if self.kind == "end" else f"{self.text[:60]!r}"


def fail(text: str, at: int, message: str) -> InvalidExpression:
    """Return the error of a place in a query, with its line and column."""
    return InvalidExpression(f"{format_position(text, at)}: parse error: {message}")


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of a query, with one of kind `end` at last. Raises `InvalidExpression` with line and column."""
    if len(text) > MAX_CHARACTERS:
        raise fail(text, 0, f"the query has {len(text):,} characters, expected at most {MAX_CHARACTERS:,}")
    at = 0
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at >= len(text):
            yield Token("end", "", len(text))
            return
        token = _read(text, at)
        yield token
        at += len(token.text)


def _read(text: str, at: int) -> Token:
    char = text[at]
    if char in '"`':
        return _read_string(text, at)
    if char.isdecimal() or (char == "." and text[at + 1 : at + 2].isdecimal()):
        return _read_number(text, at)
    if char == "." or _SCOPE.match(text, at):
        return _read_attribute(text, at)
    intrinsic = _INTRINSIC.match(text, at)
    if intrinsic:
        return Token("intrinsic", intrinsic[0], at, (intrinsic[1], intrinsic[2]))
    word = _WORD.match(text, at)
    if word:
        return Token("word", word[0], at, word[0])
    operator = _OPERATOR.match(text, at)
    if operator is None:
        raise fail(text, at, f"unexpected {char!r}")
    return Token("operator", operator[0], at)


def _read_string(text: str, at: int) -> Token:
    try:
        end = scan_string(text, at)
        return Token("string", text[at:end], at, unquote(text[at:end]))
    except LiteralError as error:
        raise fail(text, at, str(error)) from None


def _read_number(text: str, at: int) -> Token:
    number = _NUMBER.match(text, at)
    if number is None:
        raise fail(text, at, f"unexpected {text[at]!r}")
    rest = _DURATION_END.match(text, number.end())
    if rest is not None:
        found = _parse_duration(text[at : rest.end()])
        if found is not None:
            return Token("duration", text[at : rest.end()], at, found)
    if number[0].isdecimal():
        if int(number[0]) >= _MAX_INT:
            raise fail(text, at, f"the integer {number[0][:40]} is too large, expected less than 2^63")
        return Token("integer", number[0], at, int(number[0]))
    return Token("float", number[0], at, float(number[0]))


def _parse_duration(text: str) -> int | None:
    """Return nanoseconds of a duration of Prometheus, or else of Go."""
    with suppress(LiteralError):
        return parse_duration(text) * 1_000_000
    try:
        return parse_go_duration(text)
    except UnitError:
        return None


def _read_attribute(text: str, at: int) -> Token:
    """Read a scope and the name after it, parts of which may be quoted."""
    scope = _SCOPE.match(text, at)
    end = scope.end() if scope else at + 1
    name = scope[1] if scope else ""
    is_parent = name == "parent"
    if is_parent:
        inner = _PARENT_SCOPE.match(text, end)
        name, end = (inner[1], inner.end()) if inner else ("", end)
    parts: list[str] = []
    while end < len(text):
        quoted, plain = _QUOTED.match(text, end), _NAME.match(text, end)
        if quoted:
            parts.append(re.sub(r"\\(.)", r"\1", quoted[1]))
        elif plain:
            parts.append(plain[0])
        elif text[end] == '"':
            raise fail(text, end, 'this name has no closing quote, or an escape other than \\" and \\\\')
        else:
            break
        end = (quoted or plain).end()  # type: ignore[union-attr]  # one of them matched
    if not "".join(parts):
        raise fail(text, end, f"expected the name of an attribute after {text[at:end]!r}")
    return Token("attribute", text[at:end], at, (name, "".join(parts), is_parent))
