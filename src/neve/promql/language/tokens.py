"""Tokenizer of PromQL.

Most keywords may also be names of metrics. One token of lookahead can't tell them apart in a grammar, so the tokenizer
does: it knows whether an operand is complete, and in which kind of bracket it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import InvalidExpression
from neve.lexical.literals import LiteralError, quote, scan_number, scan_string
from neve.lexical.positions import format_position
from neve.promql.language.syntax import AGGREGATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PromToken", "describe", "fail", "tokenize"]

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)+")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_AHEAD = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*(\(|(?:by|without)\b(?=[ \t\r\n]*\())?", re.IGNORECASE)
_OPERATOR = re.compile(r"==|!=|<=|>=|</|>/|=~|!~|[-+*/%^<>@,=:]")
_KINDS = {
    "==": "COMPARE", "!=": "COMPARE", "<=": "COMPARE", ">=": "COMPARE", "<": "COMPARE", ">": "COMPARE",
    "</": "COMPARE", ">/": "COMPARE", "+": "SIGN", "-": "SIGN", "*": "SCALE", "/": "SCALE", "%": "SCALE",
    "^": "POWER", "@": "AT", ",": "COMMA", "=": "EQUAL", ":": "COLON",
}  # fmt: skip
_BRACE_OPERATORS = {"=": "EQUAL", "!=": "MATCH", "=~": "MATCH", "!~": "MATCH", ",": "COMMA"}
_AFTER_OPERAND = {
    "and": "AND", "unless": "AND", "or": "OR", "atan2": "SCALE", "offset": "OFFSET", "anchored": "ANCHORED",
    "smoothed": "SMOOTHED", "by": "BY", "without": "BY",
}  # fmt: skip
_BEFORE_OPERAND = {"bool": "BOOL", "on": "ON", "ignoring": "ON", "group_left": "GROUP", "group_right": "GROUP"}
_FILLS = frozenset({"fill", "fill_left", "fill_right"})
_CLOSING = {"(": "RPAR", "[": "RSQB", "{": "RBRACE"}
_MAX_LENGTH = 100_000  # characters of one expression


@dataclass(frozen=True, slots=True)
class PromToken:
    """Token: its kind in the grammar, its text, and its place."""

    kind: str
    text: str
    start: int
    context: str = ""

    @property
    def end(self) -> int:
        """Return the place after the token."""
        return self.start + len(self.text)


def fail(text: str, at: int, message: str) -> InvalidExpression:
    """Return the error of a place in an expression."""
    return InvalidExpression(f"{format_position(text, at)}: parse error: {message}")


def describe(token: PromToken) -> str:
    """Return a token as messages name it."""
    if token.kind == "$END":
        return "end of input"
    named = {"NAME": "identifier", "METRIC": "metric identifier", "FUNCTION": "identifier", "STRING": "string"}
    named |= {"NUMBER": "number", "DURATION": "duration"}
    if token.kind in named:
        return f"{named[token.kind]} {quote(token.text)}"
    if token.kind in {"SIGN", "SCALE", "POWER", "COMPARE", "AND", "OR", "AT", "MATCH"}:
        return f"<op:{token.text}>"
    if token.kind == "AGGREGATION":
        return f"<aggr:{token.text}>"
    if token.kind in {"OFFSET", "BY", "ON", "GROUP", "BOOL", "FILL", "ANCHORED", "SMOOTHED"}:
        return f"<{token.text}>"
    return quote(token.text)


@dataclass(slots=True)
class _Scanner:
    """State between two tokens."""

    text: str
    at: int = 0
    is_complete: bool = False  # an operand ends here: an operator follows
    brackets: list[tuple[str, bool | None]] = field(default_factory=list)  # the bracket, and a label list's completion
    pending: bool | None = None  # the next parenthesis is a label list: whether an operand is complete after it

    def fail(self, message: str) -> InvalidExpression:
        return fail(self.text, self.at, message)

    def emit(self, kind: str, end: int) -> PromToken:
        token = PromToken(kind, self.text[self.at : end], self.at, self.context())
        self.at = end
        return token

    def context(self) -> str:
        if not self.brackets:
            return ""
        bracket, after_list = self.brackets[-1]
        if bracket == "{":
            return "label matching"
        if after_list is not None:
            return "grouping opts"
        return "subquery or range selector" if bracket == "[" else ""

    def read(self) -> PromToken:
        char = self.text[self.at]
        inside = self.brackets[-1][0] if self.brackets else ""
        if char in "\"'`":
            return self.read_string()
        if inside == "{":
            return self.read_in_braces(char)
        if char in "([{":
            return self.open(char)
        if char in ")]}":
            return self.close(char)
        if char.isdigit() or (char == "." and self.text[self.at + 1 : self.at + 2].isdigit()):
            return self.read_number()
        pattern = _NAME if inside == "[" else _METRIC
        word = pattern.match(self.text, self.at)
        return self.read_word(word[0]) if word else self.read_operator()

    def read_string(self) -> PromToken:
        try:
            end = scan_string(self.text, self.at)
        except LiteralError as error:
            raise self.fail(str(error)) from None
        self.is_complete = True
        return self.emit("STRING", end)

    def read_in_braces(self, char: str) -> PromToken:
        if char == "}":
            return self.close(char)
        word = _NAME.match(self.text, self.at)
        if word:
            return self.emit("NAME", word.end())
        found = _OPERATOR.match(self.text, self.at)
        if not found or found[0] not in _BRACE_OPERATORS:
            raise self.fail(f"unexpected character inside braces: '{char}'")
        return self.emit(_BRACE_OPERATORS[found[0]], found.end())

    def open(self, char: str) -> PromToken:
        token = self.emit({"(": "LPAR", "[": "LSQB", "{": "LBRACE"}[char], self.at + 1)
        if char == "[" and any(bracket == "[" for bracket, _ in self.brackets[-1:]):
            raise fail(self.text, token.start, "unexpected left bracket '['")
        self.brackets.append((char, self.pending if char == "(" else None))
        self.pending, self.is_complete = None, False
        return token

    def close(self, char: str) -> PromToken:
        if not self.brackets or {"(": ")", "[": "]", "{": "}"}[self.brackets[-1][0]] != char:
            name = {")": "parenthesis", "]": "bracket", "}": "brace"}[char]
            raise self.fail(f"unexpected right {name} '{char}'")
        bracket, after_list = self.brackets.pop()
        self.is_complete = True if after_list is None else after_list
        return self.emit(_CLOSING[bracket], self.at + 1)

    def read_number(self) -> PromToken:
        found = scan_number(self.text, self.at)
        if found is None:
            end = self.at + 1
            while end < len(self.text) and (self.text[end].isalnum() or self.text[end] in "._"):
                end += 1
            raise self.fail(f"bad number or duration syntax: {quote(self.text[self.at : end])}")
        self.pending, self.is_complete = None, True
        return self.emit("DURATION" if found[1] else "NUMBER", found[0])

    def read_operator(self) -> PromToken:
        found = _OPERATOR.match(self.text, self.at)
        if not found or found[0] not in _KINDS:
            char = self.text[self.at]
            if found or char == "!":
                after = self.text[self.at + 1 : self.at + 2]
                raise self.fail(f"unexpected character after '{char}': '{after}'")
            raise self.fail(f"unexpected character: '{char}'")
        self.pending, self.is_complete = None, False
        return self.emit(_KINDS[found[0]], found.end())

    def read_word(self, word: str) -> PromToken:
        end = self.at + len(word)
        if self.brackets and self.brackets[-1][1] is not None:
            kind = "NUMBER" if word.lower() in {"inf", "nan"} else "NAME"
            return self.emit(kind, end)
        kind = self.classify_after(word.lower()) if self.is_complete else self.classify_before(word, end)
        return self.emit(kind, end)

    def classify_after(self, word: str) -> str:
        """Return the kind of a word after an operand."""
        kind = _AFTER_OPERAND.get(word, "NAME")
        self.is_complete = kind in {"ANCHORED", "SMOOTHED", "BY", "NAME"}
        if kind == "BY":
            self.pending = True
        return kind

    def classify_before(self, word: str, end: int) -> str:
        """Return the kind of a word where an operand may begin."""
        lower = word.lower()
        found = _AHEAD.match(self.text, end)
        ahead = (found[1] or "").lower() if found else ""
        if lower in _BEFORE_OPERAND:
            self.pending = None if lower == "bool" else False
            return _BEFORE_OPERAND[lower]
        if lower in _FILLS and ahead == "(":
            self.pending = False
            return "FILL"
        self.pending = None
        if lower in AGGREGATIONS and ahead:
            self.is_complete = ahead != "("  # `by` and `without` are keywords now
            return "AGGREGATION"
        if ahead == "(":
            return "FUNCTION"
        self.is_complete = True
        if lower in {"inf", "nan"}:
            return "NUMBER"
        return "METRIC" if ":" in word else "NAME"


def tokenize(text: str) -> Iterator[PromToken]:
    """Yield the tokens of an expression. Raises `InvalidExpression` with line and column."""
    if len(text) > _MAX_LENGTH:
        raise InvalidExpression(
            f"1:1: parse error: expression has {len(text)} characters, expected at most {_MAX_LENGTH}"
        )
    scanner = _Scanner(text)
    while True:
        space = _SPACE.match(text, scanner.at)
        if space:
            scanner.at = space.end()
        if scanner.at >= len(text):
            break
        yield scanner.read()
    if scanner.brackets:
        names = {"(": "unclosed left parenthesis", "[": "unclosed left bracket"}
        raise scanner.fail(names.get(scanner.brackets[-1][0], "unexpected end of input inside braces"))
