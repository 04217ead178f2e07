"""From a condition's text to its syntax tree."""

from __future__ import annotations

import math
from typing import Any

from lark import Token, Transformer, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken, VisitError

from neve.tail.policy.ottl.errors import OttlError
from neve.tail.policy.ottl.grammar import parser
from neve.tail.policy.ottl.strings import unquote
from neve.tail.policy.ottl.syntax import (
    And,
    Argument,
    Call,
    Comparison,
    Enum,
    Field,
    Group,
    Literal,
    Math,
    Negative,
    Node,
    Not,
    Or,
    Path,
    Unsupported,
)

LARGEST = (1 << 63) - 1
DEEPEST = 100  # brackets within brackets: far from what Python's own recursion allows


def parse(text: str) -> Node:
    """The syntax tree of a condition; raises `OttlError`."""
    if _depth(text) > DEEPEST:
        raise OttlError("it is nested too deep")
    try:
        root: Any = _Reader().transform(parser().parse(text))
        found: Node = root.children[0]
    except VisitError as error:
        raise error.orig_exc from None
    except UnexpectedInput as error:
        raise OttlError(_where(error, text)) from None
    return found


def _depth(text: str) -> int:
    """How many brackets are open at once, at most; those in texts count, too: nobody writes so many of them."""
    depth = most = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        most = max(most, depth)
    return most


def _where(error: UnexpectedInput, text: str) -> str:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return "it ends too early"
    at = error.pos_in_stream or 0
    return f"it can't be read from character {at + 1} on, {text[at : at + 20]!r}"


class _Reader(Transformer[Token, Tree[Any]]):
    """Each rule of the grammar as a node."""

    def disjunction(self, items: list[Any]) -> Node:
        return Or(tuple(items[::2]))

    def conjunction(self, items: list[Any]) -> Node:
        return And(tuple(items[::2]))

    def opposite(self, items: list[Any]) -> Node:
        return Not(items[1])

    def comparison(self, items: list[Any]) -> Node:
        left, operator, right = items
        return Comparison(str(operator), left, right)

    def math(self, items: list[Any]) -> Node:
        left, operator, right = items
        return Math(str(operator), left, right)

    def sign(self, items: list[Any]) -> Node:
        operator, value = items
        if operator == "+":
            return Group(value)
        if isinstance(value, Literal) and type(value.value) in (int, float):
            return Literal(-value.value)  # type: ignore[operator]  # a number, as the line above asks
        return Negative(value)

    def group(self, items: list[Any]) -> Node:
        return Group(items[0])

    def a_nil(self, _items: list[Token]) -> Node:
        return Literal(None)

    def a_bytes(self, items: list[Token]) -> Node:
        digits = items[0][2:]
        if len(digits) % 2:
            raise OttlError(f"the bytes {items[0]} have half a byte too much")
        return Literal(bytes.fromhex(digits))

    def a_float(self, items: list[Token]) -> Node:
        value = float(items[0])
        if not math.isfinite(value):
            raise OttlError(f"the number {items[0]} is too large")
        return Literal(value)

    def an_int(self, items: list[Token]) -> Node:
        value = int(items[0])
        if value > LARGEST:
            raise OttlError(f"the number {items[0]} is too large, expected at most {LARGEST}")
        return Literal(value)

    def a_string(self, items: list[Token]) -> Node:
        return Literal(unquote(items[0]))

    def a_boolean(self, items: list[Token]) -> Node:
        return Literal(items[0] == "true")

    def an_enum(self, items: list[Token]) -> Node:
        return Enum(str(items[0]))

    def a_list(self, _items: list[Any]) -> Node:
        return Unsupported("a list in brackets")

    def a_map(self, _items: list[Any]) -> Node:
        return Unsupported("a map in braces")

    def path(self, items: list[Any]) -> Node:
        return Path(tuple(items))

    def field(self, items: list[Any]) -> Node:
        return Field(str(items[0]), tuple(items[1:]))

    def key(self, items: list[Any]) -> Node:
        key: Node = items[0]
        return key

    def call(self, items: list[Any]) -> Node:
        arguments = tuple(item for item in items[1:] if isinstance(item, Argument))
        return Call(str(items[0]), arguments, tuple(item for item in items[1:] if not isinstance(item, Argument)))

    def named(self, items: list[Any]) -> Node:
        return Argument(str(items[0]), items[1])

    def placed(self, items: list[Any]) -> Node:
        return Argument("", items[0])
