"""From a condition to SQL over a span's columns.

Where OTTL fails on a span (a number without end as a text, a division by 0), a condition is null until the end, where
it becomes false: the collector passes over a condition that fails. What fails first counts, so `fails or true` fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from neve.tail.policy.ottl import arithmetic, functions, paths, syntax
from neve.tail.policy.ottl.compare import compare
from neve.tail.policy.ottl.errors import OttlError, unsupported
from neve.tail.policy.ottl.parse import parse
from neve.tail.policy.ottl.values import Kind, Value, literal
from neve.tail.policy.sql import FALSE, Sql, any_of, boolean, column, sql

if TYPE_CHECKING:
    from neve.tail.policy.ottl.syntax import Node

ENUMS = {
    **{f"SPAN_KIND_{name.upper()}": at for at, name in enumerate(paths.SPAN_KINDS)},
    "STATUS_CODE_UNSET": 0,
    "STATUS_CODE_OK": 1,
    "STATUS_CODE_ERROR": 2,
}


# The first of two where a third is false, the second where it is true, null where that is null; and it stands here only
# once, which keeps what is nested from growing at each level as it would in a CASE.
_CHOOSE = "[{}, {}][1 + CAST({} AS INTEGER)]"


@dataclass(frozen=True)
class Truth:
    """A condition; null where it fails, which it does only where it may."""

    sql: Sql
    may_fail: bool = False
    constant: bool | None = None


def read_condition(text: str, context: str) -> Truth:
    """A condition of a `span`, or of a `spanevent`. Raises `OttlError`."""
    try:
        return _truth(parse(text), context)
    except RecursionError:
        raise OttlError("it is nested too deep") from None


def any_condition(of_span: list[Truth], of_events: list[Truth], *, stop: bool) -> Sql:
    """One of the conditions of the span, or one of those of any of its events; never null.

    With `stop`, those after one that fails are not asked; otherwise one that fails is passed over.
    """
    span, event = (_sequence(truths, stop=stop) for truths in (of_span, of_events))
    parts = [] if span is None else [_never_null(span)]
    if event is not None:
        found = sql("list_filter({}, lambda e: {})", column("events"), _never_null(event))
        some_event = sql("coalesce(len({}) > 0, false)", found)
        unless = stop and span is not None and span.may_fail
        parts.append(sql("({} AND {} IS NOT NULL)", some_event, span.sql) if span and unless else some_event)
    return any_of(parts)


def _sequence(truths: list[Truth], *, stop: bool) -> Truth | None:
    if not truths:
        return None
    if stop:
        return reduce(_or, truths)
    return Truth(any_of([_never_null(truth) for truth in truths]))


def _never_null(truth: Truth) -> Sql:
    return sql("coalesce({}, false)", truth.sql) if truth.may_fail else truth.sql


def _truth(node: Node, context: str) -> Truth:  # noqa: PLR0911 - one way out for each kind of node
    match node:
        case syntax.Or(parts):
            return _either([_truth(part, context) for part in parts])
        case syntax.And(parts):
            return _both([_truth(part, context) for part in parts])
        case syntax.Not(part):
            return _opposite(_truth(part, context))
        case syntax.Group(inner):
            return _truth(inner, context)
        case syntax.Comparison(operator, left, right):
            one, other = _value(left, context), _value(right, context)
            return Truth(compare(one, other, operator), one.fails != FALSE or other.fails != FALSE)
        case syntax.Literal(bool() as value):
            return Truth(boolean(value), constant=value)
        case syntax.Call(name):
            made = _value(node, context)
            if Kind.BOOL not in made.kinds:
                raise OttlError(f"{name} makes {' or '.join(made.kinds)}, which is no condition")
            return Truth(made.kinds[Kind.BOOL], made.fails != FALSE)
    raise OttlError("a value stands where a condition is needed, such as a comparison")


def _either(parts: list[Truth]) -> Truth:
    if any(part.constant for part in parts):
        return Truth(boolean(True), constant=True)
    left = [part for part in parts if part.constant is None]
    return reduce(_or, left) if left else Truth(FALSE, constant=False)


def _both(parts: list[Truth]) -> Truth:
    if any(part.constant is False for part in parts):
        return Truth(FALSE, constant=False)
    left = [part for part in parts if part.constant is None]
    return reduce(_and, left) if left else Truth(boolean(True), constant=True)


def _or(one: Truth, other: Truth) -> Truth:
    """The second is asked only where the first is false."""
    if not one.may_fail:
        return Truth(sql("({} OR {})", one.sql, other.sql), other.may_fail)
    return Truth(sql(_CHOOSE, other.sql, "true", one.sql), may_fail=True)


def _and(one: Truth, other: Truth) -> Truth:
    if not one.may_fail:
        return Truth(sql("({} AND {})", one.sql, other.sql), other.may_fail)
    return Truth(sql(_CHOOSE, "false", other.sql, one.sql), may_fail=True)


def _opposite(part: Truth) -> Truth:
    constant = None if part.constant is None else not part.constant
    return Truth(sql("(NOT {})", part.sql), part.may_fail, constant)


def _value(node: Node, context: str) -> Value:  # noqa: PLR0911 - one way out for each kind of node
    match node:
        case syntax.Literal(value):
            return literal(value)
        case syntax.Enum(name):
            if name not in ENUMS:
                raise unsupported(f"name {name}", ", ".join(ENUMS))
            return literal(ENUMS[name])
        case syntax.Path():
            return paths.value_of(node, context)
        case syntax.Call():
            return _call(node, context)
        case syntax.Math(operator, left, right):
            return arithmetic.math(operator, _operand(left, context), _operand(right, context))
        case syntax.Negative(inner):
            return arithmetic.negative(_operand(inner, context))
        case syntax.Group(inner):
            return _operand(inner, context)
        case syntax.Unsupported(what):
            raise unsupported(what)
    raise OttlError("a condition stands where a value is needed")


def _operand(node: Node, context: str) -> Value:
    """A value that can be reckoned with: a number, a path, a function, or these put together."""
    if isinstance(node, syntax.Enum) or (isinstance(node, syntax.Literal) and type(node.value) not in (int, float)):
        raise OttlError("only numbers, paths and functions can be reckoned with or stand in parentheses")
    return _value(node, context)


def _call(node: syntax.Call, context: str) -> Value:
    if node.keys:
        raise unsupported(f"function {node.name} with a key in brackets")
    placed = [_value(argument.value, context) for argument in node.arguments if not argument.name]
    named = {argument.name: _value(argument.value, context) for argument in node.arguments if argument.name}
    return functions.call(node.name, context, placed, named)
