"""Check the types of a query: operands that never compare, constants instead of fields, and what is not supported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.errors import InvalidExpression
from neve.lexical.matchers import RegexError, validate_regex
from neve.traceql.language.fields import COMPARISONS, Attribute, Binary, Existence, Static, Type, Unary
from neve.traceql.language.syntax import (
    Aggregate,
    Compare,
    Filter,
    Group,
    MetricsAggregate,
    MetricsMath,
    MetricsPipeline,
    Pipeline,
    Ranking,
    ScalarFilter,
    ScalarOperation,
    ScalarPipeline,
    Select,
    SpansetOperation,
)

if TYPE_CHECKING:
    from neve.traceql.language.fields import Field
    from neve.traceql.language.syntax import Element, MetricsQuery, Query, Scalar

__all__ = ["NotSupported", "check_query", "field_type"]

MAX_TOP = 1000
MAX_GROUPS = 5  # attributes of by()
_LOGICAL = frozenset({"&&", "||"})
_REGEX = frozenset({"=~", "!~"})
_ORDERED = frozenset({"<", "<=", ">", ">="})
_ARITHMETIC = frozenset("+-*/%^")
_ALLOWED: dict[Type, frozenset[str]] = {
    Type.BOOL: _LOGICAL | {"=", "!="},
    Type.STRING: COMPARISONS | _REGEX,
    Type.STATUS: frozenset({"=", "!="}),
    Type.KIND: frozenset({"=", "!="}),
    Type.NIL: frozenset({"=", "!="}),
    **dict.fromkeys((Type.INT, Type.FLOAT, Type.DURATION), COMPARISONS | _ARITHMETIC),
}


class NotSupported(InvalidExpression):
    """Raised when a query is TraceQL that neither Tempo nor Neve evaluates."""


def check_query(query: Query) -> None:
    """Raise `InvalidExpression` if operands of a query don't fit their operators."""
    if isinstance(query.root, Pipeline):
        _check_pipeline(query.root)
    else:
        _check_metrics(query.root, has_stages=False)


def field_type(node: Field) -> Type:
    """Return the type of a field, or `ANY`."""
    match node:
        case Static() | Attribute():
            return node.type
        case Existence():
            return Type.BOOL
        case Unary():
            return field_type(node.operand)
    if node.operator not in _ARITHMETIC:
        return Type.BOOL
    left = field_type(node.left)
    return field_type(node.right) if left is Type.ANY else left


def _references_span(node: Field) -> bool:
    match node:
        case Static():
            return False
        case Attribute():
            return True
        case Unary() | Existence():
            return _references_span(node.operand)
    return _references_span(node.left) or _references_span(node.right)


def _check_field(node: Field) -> None:
    match node:
        case Attribute():
            if node.is_parent or node == Attribute("intrinsic", "parent"):
                raise NotSupported(f"{node}: attributes of the parent are not supported")
        case Unary():
            _check_field(node.operand)
            _check_unary(node)
        case Existence():
            _check_field(node.operand)
            _check_absence(node)
        case Binary():
            _check_field(node.left)
            _check_field(node.right)
            _check_types(node.operator, field_type(node.left), field_type(node.right), str(node))
            if node.operator in _REGEX:
                _check_regex(node)


def _check_unary(node: Unary) -> None:
    kind = field_type(node.operand)
    fits = kind.is_number if node.operator == "-" else kind is Type.BOOL
    if kind is not Type.ANY and not fits:
        expected = "a number" if node.operator == "-" else "a boolean"
        raise InvalidExpression(f"{node}: {node.operand} is {_name(kind)}, expected {expected}")


def _check_absence(node: Existence) -> None:
    operand = node.operand
    is_intrinsic = isinstance(operand, Attribute) and operand.scope == "intrinsic"
    if node.is_absent and (is_intrinsic or operand == Attribute("resource", "service.name")):
        raise InvalidExpression(f"{node} is never true: every span has {operand}")


def _check_regex(node: Binary) -> None:
    if not isinstance(node.right, Static):
        raise InvalidExpression(f"{node}: the right side is {node.right}, expected a quoted regular expression")
    try:
        validate_regex(node.right.value)
    except RegexError as error:
        raise InvalidExpression(f"{node}: {error}") from None


def _check_types(operator: str, left: Type, right: Type, text: str) -> None:
    is_pair = Type.ANY in {left, right} or left is right or (left.is_number and right.is_number)
    if not is_pair:
        raise InvalidExpression(
            f"{text}: {_name(left)} and {_name(right)} never compare, expected operands of one type"
        )
    for one in (left, right):
        if one is not Type.ANY and operator not in _ALLOWED[one]:
            raise InvalidExpression(f"{text}: the operator {operator} can't be used with {_name(one)}")


def _name(kind: Type) -> str:
    article = "an" if kind is Type.INT else "a"
    return f"{article} {kind.name.lower()}"


def _check_pipeline(pipeline: Pipeline) -> None:
    for element in pipeline.elements:
        _check_element(element)


def _check_element(element: Element | Pipeline) -> None:
    match element:
        case Pipeline():
            _check_pipeline(element)
        case Filter():
            _check_filter(element)
        case SpansetOperation():
            _check_element(element.left)
            _check_element(element.right)
        case ScalarFilter():
            _check_scalar_filter(element)
        case Group():
            if not _references_span(element.operand):
                raise InvalidExpression(f"{element}: expected a field of spans")
            _check_field(element.operand)
        case Select():
            for attribute in element.attributes:
                _check_field(attribute)


def _check_filter(element: Filter) -> None:
    _check_field(element.condition)
    kind = field_type(element.condition)
    if kind not in {Type.ANY, Type.BOOL}:
        raise InvalidExpression(f"{element}: the condition is {_name(kind)}, expected a boolean")


def _check_scalar_filter(element: ScalarFilter) -> None:
    for side in (element.left, element.right):
        _check_scalar(side)
    _check_types(element.operator, _scalar_type(element.left), _scalar_type(element.right), str(element))
    if not isinstance(element.left, Aggregate) or not isinstance(element.right, Static):
        raise NotSupported(f"{element}: only comparisons of one aggregate with a number are supported")


def _scalar_type(node: Scalar) -> Type:
    match node:
        case Static():
            return node.type
        case Aggregate():
            return Type.INT if node.operand is None else field_type(node.operand)
        case ScalarPipeline():
            return _scalar_type(node.aggregate)
    left = _scalar_type(node.left)
    return _scalar_type(node.right) if left is Type.ANY else left


def _check_scalar(node: Scalar) -> None:
    match node:
        case Aggregate():
            if node.operand is not None:
                _check_aggregate(node, node.operand)
        case ScalarOperation():
            _check_scalar(node.left)
            _check_scalar(node.right)
        case ScalarPipeline():
            _check_pipeline(node.pipeline)
            _check_scalar(node.aggregate)


def _check_aggregate(node: Aggregate, operand: Field) -> None:
    _check_field(operand)
    kind = field_type(operand)
    if kind is not Type.ANY and not kind.is_number:
        raise InvalidExpression(f"{node}: {operand} is {_name(kind)}, expected a number")
    if not _references_span(operand):
        raise InvalidExpression(f"{node}: expected a field of spans")


def _check_metrics(query: MetricsQuery, *, has_stages: bool) -> None:
    for stage in query.stages:
        if isinstance(stage, Ranking) and stage.count < 1:
            raise InvalidExpression(f"{stage.operator}({stage.count}): expected a number above 0")
    if isinstance(query, MetricsPipeline):
        _check_pipeline(query.pipeline)
        _check_first(query.first, has_stages=has_stages or bool(query.stages))
        return
    operands = (query.left, query.right) if isinstance(query, MetricsMath) else (query.operand,)
    for one in operands:
        _check_metrics(one, has_stages=True)


def _check_first(first: MetricsAggregate | Compare, *, has_stages: bool) -> None:
    if isinstance(first, Compare):
        _check_filter(first.selection)
        if has_stages:
            raise InvalidExpression("compare() can't be followed by other functions, comparisons or arithmetic")
        if not 1 <= first.top <= MAX_TOP:
            raise InvalidExpression(f"compare(): the number of values is {first.top}, expected 1 to {MAX_TOP}")
        if (first.start or first.end) and not 0 < first.start < first.end:
            raise InvalidExpression("compare(): expected a start above 0 and an end after it, in nanoseconds")
        return
    for attribute in (*first.by, *filter(None, (first.attribute,))):
        _check_field(attribute)
    if len(first.by) > MAX_GROUPS:
        raise InvalidExpression(f"{first.operator}() by {len(first.by)} attributes, expected at most {MAX_GROUPS}")
    for one in first.quantiles:
        if not 0 <= one <= 1:
            raise InvalidExpression(f"the quantile {one} is not between 0 and 1")
