"""Parse the text of an OTTL condition into its syntax tree: the grammar, Go's quoted strings, and the tree builder."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken, VisitError

from neve.lexical.literals import UnknownEscape, decode_escapes
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
    OttlError,
    Path,
    Unsupported,
)


def unquote(quoted: str) -> str:
    r"""Return the text of a quoted string, or raise `OttlError` for an escape that is unknown in Go.

    >>> unquote('"a\\tb"')
    'a\tb'
    """
    inside = quoted[1:-1]
    if "\n" in inside:
        raise OttlError("a text in quotes has a line break, expected \\n")
    try:
        return decode_escapes(inside).decode()
    except UnknownEscape as error:
        raise OttlError(f"unknown escape {error.escape} in a text, expected \\\\ for a backslash") from None
    except UnicodeDecodeError:
        raise OttlError(f"the text {quoted} is not UTF-8") from None


# The grammar is wider than OTTL's at one point, so that one token of lookahead is enough: parentheses may contain a
# condition or a value. The translation checks which of them is needed.

GRAMMAR = r"""
start: disjunction

?disjunction: conjunction (OR conjunction)*
?conjunction: negation (AND negation)*
?negation: NOT comparison -> opposite
    | comparison
?comparison: sum (COMPARISON sum)?
?sum: product
    | sum SIGN product -> math
?product: signed
    | product SCALE signed -> math
?signed: SIGN atom -> sign
    | atom
?atom: NIL -> a_nil
    | BYTES -> a_bytes
    | FLOAT -> a_float
    | INT -> an_int
    | STRING -> a_string
    | BOOLEAN -> a_boolean
    | ENUM -> an_enum
    | path
    | call
    | "(" disjunction ")" -> group
    | "[" (sum ("," sum)*)? "]" -> a_list
    | "{" (STRING ":" sum ","?)* "}" -> a_map

path: field ("." field)*
field: NAME key*
key: "[" sum "]"
call: FUNCTION "(" (argument ("," argument)*)? ")" key*
argument: NAME "=" sum -> named_argument
    | sum -> positional_argument

BYTES.9: /0x[a-fA-F0-9]+/
FLOAT.8: /([0-9]+\.[0-9]*|[0-9]*\.[0-9]+)([eE][-+]?[0-9]+)?/
INT.7: /[0-9]+/
STRING.7: /"(\\.|[^\\"])*"/s
NIL.6: /\bnil\b/
NOT.6: /\bnot\b/
OR.6: /\bor\b/
AND.6: /\band\b/
BOOLEAN.6: /\b(true|false)\b/
COMPARISON.5: /==|!=|>=|<=|>|</
SIGN: /[+-]/
SCALE: /[*\/]/
FUNCTION.4: /[A-Z][A-Za-z0-9_]*(?=\s*\()/
ENUM.3: /[A-Z][A-Z0-9_]*/
NAME.2: /[a-z][a-z0-9_]*/
%ignore /\s+/
"""


@cache
def get_parser() -> Lark:
    """Return the parser, which is built once."""
    return Lark(GRAMMAR, parser="lalr", lexer="basic")


MAX_INTEGER = (1 << 63) - 1
MAX_DEPTH = 100  # nested brackets: far below the limit of Python's own recursion


def parse_condition(text: str) -> Node:
    """Parse a condition into its syntax tree.

    Raises `OttlError`.
    """
    if _measure_depth(text) > MAX_DEPTH:
        raise OttlError("it is nested too deeply")
    try:
        root: Any = _TreeBuilder().transform(get_parser().parse(text))
        found: Node = root.children[0]
    except VisitError as error:
        raise error.orig_exc from None
    except UnexpectedInput as error:
        raise OttlError(_describe_position(error, text)) from None
    return found


def _measure_depth(text: str) -> int:
    """Return the maximum depth of open brackets, including brackets in texts, as real conditions have few of them."""
    depth = most = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        most = max(most, depth)
    return most


def _describe_position(error: UnexpectedInput, text: str) -> str:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return "it ends too early"
    at = error.pos_in_stream or 0
    return f"syntax error at character {at + 1}, {text[at : at + 20]!r}"


class _TreeBuilder(Transformer[Token, Tree[Any]]):
    """Transformer of each grammar rule to a node."""

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
            raise OttlError(f"the bytes {items[0]} have an odd number of digits")
        return Literal(bytes.fromhex(digits))

    def a_float(self, items: list[Token]) -> Node:
        value = float(items[0])
        if not math.isfinite(value):
            raise OttlError(f"the number {items[0]} is too large")
        return Literal(value)

    def an_int(self, items: list[Token]) -> Node:
        value = int(items[0])
        if value > MAX_INTEGER:
            raise OttlError(f"the number {items[0]} is too large, expected at most {MAX_INTEGER}")
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

    def named_argument(self, items: list[Any]) -> Node:
        return Argument(str(items[0]), items[1])

    def positional_argument(self, items: list[Any]) -> Node:
        return Argument("", items[0])
