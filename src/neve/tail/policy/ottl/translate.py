"""Translate an OTTL condition to SQL over the columns of a span.

Where OTTL fails on a span (an infinite number as text, a division by 0), the SQL is null until the end, where it
becomes false: the collector ignores a condition that fails. The first failure counts, so `fails or true` fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from neve.tail.policy.ottl import functions, paths, syntax
from neve.tail.policy.ottl.functions import compare_values
from neve.tail.policy.ottl.parser import parse_condition
from neve.tail.policy.ottl.syntax import OttlError, make_unsupported_error
from neve.tail.policy.ottl.values import Kind, Value, make_literal
from neve.tail.policy.span_sql import FALSE, Sql, any_of, boolean, column, sql

if TYPE_CHECKING:
    from neve.tail.policy.ottl.syntax import Node

ENUMS = {
    **{f"SPAN_KIND_{name.upper()}": at for at, name in enumerate(paths.SPAN_KINDS)},
    "STATUS_CODE_UNSET": 0,
    "STATUS_CODE_OK": 1,
    "STATUS_CODE_ERROR": 2,
}


# Choose the first of two values if a third is false, the second if it is true, and null if it is null. Each appears
# only once, so that nested expressions don't grow at each level as they would in a CASE.
_CHOOSE = "[{}, {}][1 + CAST({} AS INTEGER)]"


@dataclass(frozen=True)
class Condition:
    """Condition as SQL, which is null where it fails, and never null unless `may_fail`."""

    sql: Sql
    may_fail: bool = False
    constant: bool | None = None


def translate_condition(text: str, context: str) -> Condition:
    """Translate a condition on a `span` or a `spanevent`.

    Raises `OttlError`.
    """
    try:
        return _translate_condition(parse_condition(text), context)
    except RecursionError:
        raise OttlError("it is nested too deeply") from None


def combine_conditions(of_span: list[Condition], of_events: list[Condition], *, stop: bool) -> Sql:
    """Combine conditions: true if one holds for the span, or one holds for any of its events, and never null.

    With `stop`, conditions after a failed one are not evaluated. Otherwise a failed condition is ignored.
    """
    span, event = (_combine_in_order(truths, stop=stop) for truths in (of_span, of_events))
    parts = [] if span is None else [_false_if_null(span)]
    if event is not None:
        found = sql("list_filter({}, lambda e: {})", column("events"), _false_if_null(event))
        some_event = sql("coalesce(len({}) > 0, false)", found)
        unless = stop and span is not None and span.may_fail
        parts.append(sql("({} AND {} IS NOT NULL)", some_event, span.sql) if span and unless else some_event)
    return any_of(parts)


def _combine_in_order(truths: list[Condition], *, stop: bool) -> Condition | None:
    if not truths:
        return None
    if stop:
        return reduce(_or, truths)
    return Condition(any_of([_false_if_null(truth) for truth in truths]))


def _false_if_null(truth: Condition) -> Sql:
    return sql("coalesce({}, false)", truth.sql) if truth.may_fail else truth.sql


def _translate_condition(node: Node, context: str) -> Condition:  # noqa: PLR0911 - one way out for each kind of node
    match node:
        case syntax.Or(parts):
            return _any_of([_translate_condition(part, context) for part in parts])
        case syntax.And(parts):
            return _all_of([_translate_condition(part, context) for part in parts])
        case syntax.Not(part):
            return _negate(_translate_condition(part, context))
        case syntax.Group(inner):
            return _translate_condition(inner, context)
        case syntax.Comparison(operator, left, right):
            one, other = _translate_value(left, context), _translate_value(right, context)
            return Condition(compare_values(one, other, operator), one.fails != FALSE or other.fails != FALSE)
        case syntax.Literal(bool() as value):
            return Condition(boolean(value), constant=value)
        case syntax.Call(name):
            made = _translate_value(node, context)
            if Kind.BOOL not in made.kinds:
                raise OttlError(f"{name} returns {' or '.join(made.kinds)}, expected a condition")
            return Condition(made.kinds[Kind.BOOL], made.fails != FALSE)
    raise OttlError("expected a condition, such as a comparison, but got a value")


def _any_of(parts: list[Condition]) -> Condition:
    if any(part.constant for part in parts):
        return Condition(boolean(True), constant=True)
    left = [part for part in parts if part.constant is None]
    return reduce(_or, left) if left else Condition(FALSE, constant=False)


def _all_of(parts: list[Condition]) -> Condition:
    if any(part.constant is False for part in parts):
        return Condition(FALSE, constant=False)
    left = [part for part in parts if part.constant is None]
    return reduce(_and, left) if left else Condition(boolean(True), constant=True)


def _or(one: Condition, other: Condition) -> Condition:
    """Evaluate the second condition only if the first is false."""
    if not one.may_fail:
        return Condition(sql("({} OR {})", one.sql, other.sql), other.may_fail)
    return Condition(sql(_CHOOSE, other.sql, "true", one.sql), may_fail=True)


def _and(one: Condition, other: Condition) -> Condition:
    if not one.may_fail:
        return Condition(sql("({} AND {})", one.sql, other.sql), other.may_fail)
    return Condition(sql(_CHOOSE, "false", other.sql, one.sql), may_fail=True)


def _negate(part: Condition) -> Condition:
    constant = None if part.constant is None else not part.constant
    return Condition(sql("(NOT {})", part.sql), part.may_fail, constant)


def _translate_value(node: Node, context: str) -> Value:  # noqa: PLR0911 - one way out for each kind of node
    match node:
        case syntax.Literal(value):
            return make_literal(value)
        case syntax.Enum(name):
            if name not in ENUMS:
                raise make_unsupported_error(f"name {name}", ", ".join(ENUMS))
            return make_literal(ENUMS[name])
        case syntax.Path():
            return paths.resolve_path(node, context)
        case syntax.Call():
            return _translate_call(node, context)
        case syntax.Math(operator, left, right):
            return functions.calculate(operator, _translate_operand(left, context), _translate_operand(right, context))
        case syntax.Negative(inner):
            return functions.negate(_translate_operand(inner, context))
        case syntax.Group(inner):
            return _translate_operand(inner, context)
        case syntax.Unsupported(what):
            raise make_unsupported_error(what)
    raise OttlError("expected a value, but got a condition")


def _translate_operand(node: Node, context: str) -> Value:
    """Translate an operand of arithmetic: a number, a path, a function, or an operation on these."""
    if isinstance(node, syntax.Enum) or (isinstance(node, syntax.Literal) and type(node.value) not in (int, float)):
        raise OttlError("only numbers, paths and functions are allowed in arithmetic and parentheses")
    return _translate_value(node, context)


def _translate_call(node: syntax.Call, context: str) -> Value:
    if node.keys:
        raise make_unsupported_error(f"function {node.name} with a key in brackets")
    positional = [_translate_value(argument.value, context) for argument in node.arguments if not argument.name]
    named = {argument.name: _translate_value(argument.value, context) for argument in node.arguments if argument.name}
    return functions.call_function(node.name, context, positional, named)
