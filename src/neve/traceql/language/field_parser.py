"""Parse fields of spans: attributes, intrinsics, constants, arithmetic and comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from neve.traceql.language.fields import (
    INTRINSICS,
    KINDS,
    STATUSES,
    Attribute,
    Binary,
    Existence,
    Field,
    Static,
    Type,
    Unary,
)
from neve.traceql.language.tokens import fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.errors import InvalidExpression
    from neve.traceql.language.tokens import Token

__all__ = ["LEVELS", "FieldParser"]

_Node = TypeVar("_Node")

AND_LEVEL, COMPARISON_LEVEL, SUM_LEVEL, NOT_LEVEL, PRODUCT_LEVEL, POWER_LEVEL = range(1, 7)
# Operators by their level, weakest first. `&&` and `||` have the same.
LEVELS: dict[str, int] = {
    **dict.fromkeys(("&&", "||"), AND_LEVEL),
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "=~", "!~"), COMPARISON_LEVEL),
    **dict.fromkeys((">>", "<<", "~", "!>", "!<", "!>>", "!<<", "&>", "&<", "&>>", "&<<", "&~"), COMPARISON_LEVEL),
    **dict.fromkeys("+-", SUM_LEVEL),
    **dict.fromkeys("*/%", PRODUCT_LEVEL),
    "^": POWER_LEVEL,
}
_SPANSET_ONLY = frozenset({">>", "<<", "~", "!>", "!<", "!>>", "!<<", "&>", "&<", "&>>", "&<<", "&~"})
MAX_DEPTH = 60
MAX_OPERATORS = 250  # of one query: the tree of `a && b && c` is as deep as it is long
_NIL = Static(Type.NIL, None)
_PLAIN_INTRINSICS = frozenset(name for name in INTRINSICS if ":" not in name)
# Intrinsics behind a scope, by their canonical names.
_SCOPED = {
    "trace:duration": "traceDuration",
    "trace:rootName": "rootName",
    "trace:rootService": "rootServiceName",
    **{f"span:{name}": name for name in ("duration", "name", "kind", "status", "statusMessage")},
    **{name: name for name in INTRINSICS if ":" in name},
}


@dataclass(slots=True)
class FieldParser:
    """Place in the tokens of a query, and the fields that may begin there."""

    text: str
    tokens: list[Token]
    at: int = 0
    depth: int = 0
    operators: int = 0

    @property
    def token(self) -> Token:
        """Return the current token."""
        return self.tokens[self.at]

    def advance(self) -> Token:
        """Go to the next token, and return the one before."""
        self.at += 1
        return self.tokens[self.at - 1]

    def is_at(self, *texts: str) -> bool:
        """Return whether the current token is one of these operators or words."""
        return self.token.kind in {"operator", "word"} and self.token.text in texts

    def accept(self, text: str) -> bool:
        """Take an operator or word, if it is here."""
        if not self.is_at(text):
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        """Take an operator or word."""
        if not self.accept(text):
            raise self.make_error(repr(text))

    def expect_integer(self) -> int:
        """Take an integer without a sign."""
        if self.token.kind != "integer":
            raise self.make_error("an integer")
        return int(self.advance().value)

    def make_error(self, expected: str) -> InvalidExpression:
        """Return the error of a token that may not be here."""
        return fail(self.text, self.token.start, f"unexpected {self.token.describe()}, expected {expected}")

    def enter(self) -> None:
        """Count a level of nesting."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise fail(self.text, self.token.start, f"the query is nested deeper than {MAX_DEPTH} levels")

    def climb(self, level: int, parse: Callable[[], _Node], combine: Callable[[Token, _Node, _Node], _Node]) -> _Node:
        """Parse operands and the operators between them, from a level on."""
        self.enter()
        left = parse()
        while True:
            token = self.token
            found = LEVELS.get(token.text, 0) if token.kind == "operator" else 0
            if found < level:
                break
            self.operators += 1
            if self.operators > MAX_OPERATORS:
                raise fail(self.text, token.start, f"the query has more than {MAX_OPERATORS} operators")
            self.advance()
            right = self.climb(found if token.text == "^" else found + 1, parse, combine)
            left = combine(token, left, right)
        self.depth -= 1
        return left

    def parse_field(self) -> Field:
        """Parse a field expression."""
        at = self.token.start
        found = self.climb(AND_LEVEL, self._parse_operand, self._combine_fields)
        if found == _NIL:
            raise fail(self.text, at, "nil may only be compared by = and !=")
        return found

    def _combine_fields(self, token: Token, left: Field, right: Field) -> Field:
        operator = token.text
        if operator in _SPANSET_ONLY:
            raise fail(self.text, token.start, f"{operator!r} is between spansets, expected an operator of fields")
        if _NIL not in {left, right}:
            return Binary(operator, left, right)
        if operator not in {"=", "!="}:
            raise fail(self.text, token.start, "nil may only be compared by = and !=")
        if left == right:
            return Static(Type.BOOL, value=False)
        return Existence(right if left == _NIL else left, operator == "=")

    def _parse_operand(self) -> Field:
        if self.accept("("):
            inside = self.parse_field()
            self.expect(")")
            return inside
        if self.is_at("-", "!"):
            return self._parse_unary()
        if self.token.kind in {"attribute", "intrinsic"} or self.is_at(*_PLAIN_INTRINSICS):
            return self.parse_attribute()
        return self.parse_static()

    def _parse_unary(self) -> Field:
        token = self.advance()
        level = PRODUCT_LEVEL
        at = self.token.start
        operand = self.climb(level, self._parse_operand, self._combine_fields)
        if operand == _NIL:
            raise fail(self.text, at, "nil may only be compared by = and !=")
        return Unary(token.text, operand)

    def parse_attribute(self) -> Attribute:
        """Parse an attribute or an intrinsic."""
        token = self.token
        if token.kind == "attribute":
            scope, name, is_parent = self.advance().value
            is_intrinsic = not scope and not is_parent and name in _PLAIN_INTRINSICS
            return Attribute("intrinsic" if is_intrinsic else scope, name, is_parent)
        name = _SCOPED.get(token.text) if token.kind == "intrinsic" else token.text
        if name is None:
            known = ", ".join(sorted(one for one in _SCOPED if one.startswith(f"{token.value[0]}:")))
            raise fail(self.text, token.start, f"unknown intrinsic {token.text!r}, expected one of {known}")
        if (token.kind == "word" and name not in _PLAIN_INTRINSICS) or token.kind not in {"word", "intrinsic"}:
            raise self.make_error("an attribute or an intrinsic")
        self.advance()
        return Attribute("intrinsic", name)

    def parse_static(self) -> Static:
        """Parse a constant."""
        token = self.token
        if token.kind in _LITERALS:
            self.advance()
            return Static(_LITERALS[token.kind], token.value)
        found = _WORDS.get(token.text) if token.kind == "word" else None
        if found is None:
            hint = ""
            if token.kind == "word":
                hint = f"; an attribute needs a scope, such as .{token.text} or span.{token.text}"
            raise self.make_error(f"a value, an attribute or an intrinsic{hint}")
        self.advance()
        return found


_LITERALS = {"string": Type.STRING, "integer": Type.INT, "float": Type.FLOAT, "duration": Type.DURATION}
_WORDS = {
    "true": Static(Type.BOOL, value=True),
    "false": Static(Type.BOOL, value=False),
    "nil": _NIL,
    "minInt": Static(Type.INT, -(2**63)),
    "maxInt": Static(Type.INT, 2**63 - 1),
    **{name: Static(Type.STATUS, code) for name, code in STATUSES.items()},
    **{name: Static(Type.KIND, code) for name, code in KINDS.items()},
}
