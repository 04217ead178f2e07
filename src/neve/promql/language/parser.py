"""Parse the text of a PromQL expression into its syntax tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from lark import Token, Transformer
from lark.exceptions import UnexpectedToken

from neve.lexical.literals import LiteralError, parse_duration, parse_number, unquote
from neve.lexical.matchers import Matcher, MatchKind, RegexError, validate_regex
from neve.lexical.positions import Span
from neve.lexical.text_cache import cache_short_texts
from neve.promql.language.checks import check
from neve.promql.language.grammar import build_parser
from neve.promql.language.syntax import (
    AGGREGATIONS_WITH_PARAMETER,
    METRIC_NAME,
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Duration,
    DurationOperation,
    Edge,
    Node,
    Number,
    Paren,
    RangeSelector,
    Subquery,
    Text,
    Timing,
    Unary,
    VectorMatching,
    VectorSelector,
)
from neve.promql.language.tokens import PromToken, describe, fail, tokenize

if TYPE_CHECKING:
    from neve.errors import InvalidExpression

__all__ = ["parse"]

_MAX_SECONDS = (1 << 63) / 1e9  # a duration in nanoseconds has 64 bits
_MAX_AT_SECONDS = (1 << 62) / 1000  # its milliseconds, with any offset, are 64-bit integers
_OPERANDS = "must be preceded by an instant vector selector or range vector selector or a subquery"
_EXPECTED = {
    "label matching": {"NAME": "label matching operator", "EQUAL": "string", "MATCH": "string", "STRING": '"," or "}"'},
    "grouping opts": {"NAME": '"," or ")"', "STRING": '"," or ")"'},
}


class _Misplaced(Exception):  # it becomes an InvalidExpression as soon as the text is known
    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at


def _place(token: Token) -> Span:
    return Span(int(token.start_pos or 0), int(token.end_pos or 0))


def _kinds(children: list[Any], kind: str) -> list[Token]:
    return [one for one in children if isinstance(one, Token) and one.type == kind]


def _unquote(token: Token, *, keep_invalid: bool = False) -> str:
    try:
        return unquote(str(token), keep_invalid=keep_invalid)
    except LiteralError as error:
        raise _Misplaced(_place(token).start, str(error)) from None


class _Modifiers:
    """Modifiers of a binary operator while they are collected."""

    def __init__(self, is_bool: bool, matching: VectorMatching) -> None:
        self.is_bool = is_bool
        self.matching = matching


class _Builder(Transformer[Token, Any]):
    """Callbacks of the grammar's rules."""

    def start(self, children: list[Any]) -> Node:
        return cast("Node", children[0])

    def number(self, children: list[Any]) -> Number:
        [token] = children
        try:
            if token.type == "DURATION":
                return Number(parse_duration(str(token)) / 1000, True, span=_place(token))
            return Number(parse_number(str(token)), span=_place(token))
        except LiteralError as error:
            raise _Misplaced(_place(token).start, str(error)) from None

    def text(self, children: list[Any]) -> Text:
        return Text(_unquote(children[0], keep_invalid=True), span=_place(children[0]))

    def paren(self, children: list[Any]) -> Paren:
        left, inside, right = children
        return Paren(inside, span=_place(left).until(_place(right)))

    def unary(self, children: list[Any]) -> Node:
        sign, operand = children
        span = _place(sign).until(operand.span)
        if isinstance(operand, Number):
            return replace(operand, value=-operand.value if sign == "-" else operand.value, span=span)
        return Unary(str(sign), operand, span=span)

    def binary(self, children: list[Any]) -> Binary:
        left, operator, modifiers, right = children
        name = str(operator).lower()
        span = left.span.until(right.span)
        at = _place(operator).start
        return Binary(name, left, right, modifiers.is_bool, modifiers.matching, operator_at=at, span=span)

    def is_bool(self, children: list[Any]) -> bool:
        return bool(children)

    def modifiers(self, children: list[Any]) -> _Modifiers:
        matching = VectorMatching()
        for child in children[1:]:
            matching = child if isinstance(child, VectorMatching) else replace(matching, **child)
        return _Modifiers(children[0], matching)

    def matching(self, children: list[Any]) -> VectorMatching:
        labels = VectorMatching(labels=children[1], is_on=children[0].lower() == "on")
        if len(children) == 2:
            return labels
        kind = Cardinality(str(children[2]).lower())
        return replace(labels, cardinality=kind, include=children[3] if len(children) > 3 else ())

    def fill(self, children: list[Any]) -> dict[str, float]:
        value = self.number(children[-2:-1]).value
        if _kinds(children, "SIGN") and children[2] == "-":
            value = -value
        name = str(children[0]).lower()
        return {"fill_left": value, "fill_right": value} if name == "fill" else {name: value}

    def selector(self, children: list[Any]) -> VectorSelector:
        matchers, span = children[-1] if isinstance(children[-1], tuple) else ((), _place(children[-1]))
        if isinstance(children[0], Token):
            return VectorSelector(str(children[0]), matchers, span=_place(children[0]).until(span))
        return VectorSelector("", matchers, span=span)

    def matchers(self, children: list[Any]) -> tuple[tuple[Matcher, ...], Span]:
        found = tuple(one for one in children if isinstance(one, Matcher))
        return found, _place(children[0]).until(_place(children[-1]))

    def matcher(self, children: list[Any]) -> Matcher:
        label, operator, value = children
        name = _unquote(label) if label.type == "STRING" else str(label)
        found = Matcher(name, MatchKind(str(operator)), _unquote(value))
        if found.kind in {MatchKind.REGEX, MatchKind.NOT_REGEX}:
            try:
                validate_regex(found.value)
            except RegexError as error:
                raise _Misplaced(_place(label).start, str(error)) from None
        return found

    def metric_name(self, children: list[Any]) -> Matcher:
        return Matcher(METRIC_NAME, MatchKind.EQUAL, _unquote(children[0]))

    def arguments(self, children: list[Any]) -> tuple[Node, ...]:
        return tuple(one for one in children if not isinstance(one, Token))

    def call(self, children: list[Any]) -> Call:
        name, _, arguments, right = children
        return Call(str(name).lower(), arguments, span=_place(name).until(_place(right)))

    def labels(self, children: list[Any]) -> tuple[str, ...]:
        names = [one for one in children if one.type in {"NAME", "STRING", "NUMBER"}]
        found = tuple(_unquote(one) if one.type == "STRING" else str(one) for one in names)
        for token, name in zip(names, found, strict=True):
            if not name:
                raise _Misplaced(_place(token).start, 'invalid label name for grouping: ""')
        return found

    def grouping(self, children: list[Any]) -> tuple[bool, tuple[str, ...]]:
        return children[0].lower() == "without", children[1]

    def aggregate(self, children: list[Any]) -> Aggregate:
        name = str(children[0]).lower()
        span = _place(children[0]).until(_place(_kinds(children, "RPAR")[-1]))
        groupings = [one for one in children if isinstance(one, tuple) and one and isinstance(one[0], bool)]
        arguments = next(one for one in children if isinstance(one, tuple) and not (one and isinstance(one[0], bool)))
        if not arguments:
            raise _Misplaced(span.start, "no arguments for aggregate expression provided")
        count = 2 if name in AGGREGATIONS_WITH_PARAMETER else 1
        if len(arguments) != count:
            message = "wrong number of arguments for aggregate expression provided"
            raise _Misplaced(span.start, f"{message}, expected {count}, got {len(arguments)}")
        is_without, labels = groupings[0] if groupings else (False, ())
        parameter = arguments[0] if count == 2 else None
        return Aggregate(name, arguments[-1], parameter, labels, is_without, span=span)

    def range_selector(self, children: list[Any]) -> RangeSelector:
        selector, left, length, right = children
        at = _place(left).start
        if not isinstance(selector, VectorSelector):
            raise _Misplaced(at, "ranges only allowed for vector selectors")
        if selector.timing.offset is not None:
            raise _Misplaced(at, "no offset modifiers allowed before range")
        if selector.timing.has_at:
            raise _Misplaced(at, "no @ modifiers allowed before range")
        return RangeSelector(selector, _positive(length), span=selector.span.until(_place(right)))

    def subquery(self, children: list[Any]) -> Subquery:
        inside, length, right = children[0], children[2], children[-1]
        step = _positive(children[4]) if len(children) == 6 else None
        return Subquery(inside, _positive(length), step, span=inside.span.until(_place(right)))

    def offset(self, children: list[Any]) -> Node:
        operand, _, value = children
        if _timing(operand, f"offset modifier {_OPERANDS}").offset is not None:
            raise _Misplaced(operand.span.start, "offset may not be set multiple times")
        return _with_timing(operand, offset=_check_range(value))

    def at_time(self, children: list[Any]) -> Node:
        operand, number = children[0], self.number(children[-1:]).value
        seconds = -number if _kinds(children, "SIGN") and children[2] == "-" else number
        if not abs(seconds) < _MAX_AT_SECONDS:
            raise _Misplaced(operand.span.start, f"timestamp out of bounds for @ modifier: {seconds:f}")
        return _with_at(operand, at_ms=round(seconds * 1000))

    def at_edge(self, children: list[Any]) -> Node:
        name = str(children[2]).lower()
        if name not in {"start", "end"}:
            raise _Misplaced(
                _place(children[2]).start, f'unexpected identifier "{children[2]}" in @, expected timestamp'
            )
        return _with_at(children[0], at_edge=Edge(name))

    def extend(self, children: list[Any]) -> Node:
        operand, name = children[0], str(children[1]).lower()
        if isinstance(operand, Subquery):
            raise _Misplaced(operand.span.start, f"{name} modifier is not supported for subqueries")
        timing = _timing(operand, f"{name} modifier not implemented")
        if timing.is_smoothed or timing.is_anchored:
            raise _Misplaced(operand.span.start, "anchored and smoothed modifiers cannot be used together")
        return _with_timing(operand, is_anchored=name == "anchored", is_smoothed=name == "smoothed")

    def duration_binary(self, children: list[Any]) -> Duration:
        left, operator, right = children
        if operator in {"/", "%"} and isinstance(right, Number) and right.value == 0:
            raise _Misplaced(_place(operator).start, "division by zero" if operator == "/" else "modulo by zero")
        span = left.span.until(right.span)
        return DurationOperation(str(operator), _check_range(left), _check_range(right), span=span)

    def duration_unary(self, children: list[Any]) -> Duration:
        sign, value = children
        span = _place(sign).until(value.span)
        if isinstance(value, Number):
            return _check_range(replace(value, value=-value.value if sign == "-" else value.value, span=span))
        return DurationOperation("-", None, value, span=span) if sign == "-" else cast("Duration", value)

    def duration_call(self, children: list[Any]) -> Duration:
        name = str(children[0]).lower()
        values = [one for one in children if not isinstance(one, Token)]
        span = _place(children[0]).until(_place(children[-1]))
        if name not in ({"min_of", "max_of"} if values else {"step", "range"}):
            message = f'unexpected identifier "{children[0]}" in subquery or range selector'
            raise _Misplaced(span.start, f"{message}, expected number, duration, step(), or range()")
        return DurationOperation(name, *values, span=span)

    def duration_paren(self, children: list[Any]) -> Duration:
        left, value, right = children
        if isinstance(value, DurationOperation):
            return replace(value, is_wrapped=True)
        return DurationOperation("+", None, value, True, span=_place(left).until(_place(right)))


def _check_range(value: Duration) -> Duration:
    if isinstance(value, Number) and not abs(value.value) <= _MAX_SECONDS:
        raise _Misplaced(value.span.start, "duration out of range")
    return value


def _positive(value: Duration) -> Duration:
    if isinstance(value, Number) and value.value <= 0:
        raise _Misplaced(value.span.start, "duration must be greater than 0")
    return _check_range(value)


def _timing(operand: Node, message: str) -> Timing:
    if isinstance(operand, RangeSelector):
        return operand.selector.timing
    if isinstance(operand, VectorSelector | Subquery):
        return operand.timing
    raise _Misplaced(operand.span.start, message)


def _with_timing(operand: Node, **changes: Any) -> Node:
    if isinstance(operand, RangeSelector):
        return replace(operand, selector=cast("VectorSelector", _with_timing(operand.selector, **changes)))
    known = cast("VectorSelector | Subquery", operand)
    return replace(known, timing=replace(known.timing, **changes))


def _with_at(operand: Node, **changes: Any) -> Node:
    if _timing(operand, f"@ modifier {_OPERANDS}").has_at:
        raise _Misplaced(operand.span.start, "@ <timestamp> may not be set multiple times")
    return _with_timing(operand, **changes)


_BUILDER = _Builder()


@cache_short_texts(256)
def parse(text: str) -> Node:
    """Return the syntax tree of an expression, with its types checked.

    Raises `InvalidExpression`, whose message begins with line and column.

    >>> parse("sum by (job) (rate(x[5m]))").operator
    'sum'
    """
    try:
        tree = build_parser(_BUILDER).parse(text)
    except _Misplaced as error:
        raise fail(text, error.at, str(error)) from None
    except UnexpectedToken as error:
        raise _explain(text, error) from None
    node = cast("Node", tree)
    check(text, node)
    return node


def _explain(text: str, error: UnexpectedToken) -> InvalidExpression:
    """Return the error in Prometheus' words."""
    tokens = list(tokenize(text))
    if not tokens:
        return fail(text, 0, "no expression found in input")
    is_end = error.token.type == "$END"
    at = len(text) if is_end else int(error.token.start_pos or 0)
    index = len(tokens) if is_end else next(i for i, one in enumerate(tokens) if one.start == at)
    token = PromToken("$END", "", at) if is_end else tokens[index]
    before = tokens[index - 1] if index else None
    if token.kind == "RPAR" and before and before.kind == "COMMA":
        return fail(text, before.start, "trailing commas not allowed in function call args")
    message = f"unexpected {describe(token)}"
    context = token.context or (before.context if before and token.kind in {"RBRACE", "RPAR"} else "")
    if before and before.kind == "AGGREGATION":
        context = "aggregation"
    elif before and before.kind in {"OFFSET", "AT"}:
        context = {"OFFSET": "offset", "AT": "@"}[before.kind]
    if not context:
        return fail(text, at, message)
    expected = _expect(context, before)
    return fail(text, at, f"{message} in {context}" + (f", expected {expected}" if expected else ""))


def _expect(context: str, before: PromToken | None) -> str:
    if context == "offset":
        return "number, duration, step(), or range()"
    if context == "@":
        return "timestamp"
    if context not in _EXPECTED:
        return ""
    fallback = 'identifier or "}"' if context == "label matching" else "label"
    return _EXPECTED[context].get(before.kind if before else "", fallback)
