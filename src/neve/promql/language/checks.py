"""Signatures of the functions, and checks of the types and the shape of an expression in Prometheus' words."""

from __future__ import annotations

from dataclasses import dataclass

from neve.lexical.literals import quote
from neve.promql.language.syntax import (
    COMPARISONS,
    METRIC_NAME,
    SET_OPERATORS,
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Node,
    Number,
    Paren,
    RangeSelector,
    Subquery,
    Text,
    Unary,
    ValueType,
    VectorSelector,
    children,
    walk,
)
from neve.promql.language.tokens import fail

__all__ = ["MAX_DEPTH", "SIGNATURES", "Signature", "check", "value_type"]

MAX_DEPTH = 150  # nested expressions: each takes up to five of the 1,000 frames of Python
_MISPLACED_BOOL = "bool modifier can only be used on comparison operators"
_NUMERIC = frozenset({ValueType.SCALAR, ValueType.VECTOR})
_FIXED_TYPES: dict[type, ValueType] = {
    Number: ValueType.SCALAR,
    Text: ValueType.STRING,
    RangeSelector: ValueType.MATRIX,
    Subquery: ValueType.MATRIX,
}

_TYPES = {"s": ValueType.SCALAR, "t": ValueType.STRING, "v": ValueType.VECTOR, "m": ValueType.MATRIX}


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of a function. `optional` is the number of arguments that may repeat the last type, -1 for any number."""

    name: str
    arguments: tuple[ValueType, ...]
    result: ValueType = ValueType.VECTOR
    optional: int = 0


def _signature(text: str) -> Signature:
    """Read `name(types) -> result`. A `?` makes the last argument optional, a `*` lets it repeat."""
    head, _, result = text.partition(" ")
    name, _, inside = head.rstrip(")").partition("(")
    types, repeat = inside.rstrip("?*9"), inside[len(inside.rstrip("?*9")) :]
    optional = {"": 0, "?": 1, "*": -1, "9": 9}[repeat]
    return Signature(name, tuple(_TYPES[one] for one in types), _TYPES[result or "v"], optional)


_SPECIAL = (
    "absent(v) absent_over_time(m) clamp(vss) clamp_max(vs) clamp_min(vs) double_exponential_smoothing(mss) "
    "histogram_fraction(ssv) histogram_quantile(sv) histogram_quantiles(vtss9) info(vv?) label_join(vttt*) "
    "label_replace(vtttt) predict_linear(ms) quantile_over_time(sm) round(vs?) sort_by_label(vt*) "
    "sort_by_label_desc(vt*) vector(s)"
)
_SCALARS = "end() max_of(ss) min_of(ss) pi() range() scalar(v) start() step() time()"
_DATES = "days_in_month day_of_month day_of_week day_of_year hour minute month year"
_ELEMENTWISE = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg exp floor histogram_avg histogram_count histogram_stddev "
    "histogram_stdvar histogram_sum ln log10 log2 rad sgn sin sinh sort sort_desc sqrt start_timestamp tan tanh "
    "timestamp"
)
_RANGES = (
    "avg_over_time changes count_over_time delta deriv first_over_time idelta increase irate last_over_time "
    "mad_over_time max_over_time min_over_time present_over_time rate resets stddev_over_time stdvar_over_time "
    "sum_over_time ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time"
)

SIGNATURES: dict[str, Signature] = {
    one.name: one
    for one in (
        *(_signature(text) for text in _SPECIAL.split()),
        *(_signature(f"{text} s") for text in _SCALARS.split()),
        *(_signature(f"{name}(v?)") for name in _DATES.split()),
        *(_signature(f"{name}(v)") for name in _ELEMENTWISE.split()),
        *(_signature(f"{name}(m)") for name in _RANGES.split()),
    )
}


def value_type(node: Node) -> ValueType:
    """Return the type of an expression's value."""
    while isinstance(node, Paren | Unary):
        node = node.expression
    if isinstance(node, Binary):
        return _chain_type(node)
    if isinstance(node, Call) and node.function in SIGNATURES:
        return SIGNATURES[node.function].result
    return _FIXED_TYPES.get(type(node), ValueType.VECTOR)


def _chain_type(node: Binary) -> ValueType:
    """Return the type of a long chain of operators without recursion to its left end."""
    left: Node = node
    while isinstance(left, Binary):
        if value_type(left.right) is not ValueType.SCALAR:
            return ValueType.VECTOR
        left = left.left
    return ValueType.SCALAR if value_type(left) is ValueType.SCALAR else ValueType.VECTOR


def check(text: str, root: Node) -> None:
    """Raise `InvalidExpression` if an expression is not valid. `text` is its source, for line and column."""
    _check_depth(text, root)
    label_selectors = _label_selectors(root)
    for node in walk(root):
        problem = _find_problem(node, any(node is one for one in label_selectors))
        if problem:
            at, message = problem
            raise fail(text, at, message)


def _check_depth(text: str, root: Node) -> None:
    stack = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise fail(text, node.span.start, f"expression is nested more than {MAX_DEPTH} levels deep")
        stack.extend((child, depth + 1) for child in children(node))


def _label_selectors(root: Node) -> list[Node]:
    """Return the second arguments of `info`: they may match everything."""
    return [
        node.arguments[1]
        for node in walk(root)
        if isinstance(node, Call) and node.function == "info" and len(node.arguments) > 1
    ]


def _find_problem(node: Node, selects_labels: bool) -> tuple[int, str] | None:
    if isinstance(node, VectorSelector):
        return _check_selector(node, selects_labels)
    if isinstance(node, Call):
        return _check_call(node)
    if isinstance(node, Aggregate | Binary):
        return _check_aggregate(node) if isinstance(node, Aggregate) else _check_binary(node)
    if isinstance(node, Unary) and value_type(node.expression) not in _NUMERIC:
        found = value_type(node.expression)
        message = "unary expression only allowed on expressions of type scalar or instant vector"
        return node.span.start, f"{message}, got {quote(found.value)}"
    if isinstance(node, Subquery) and value_type(node.expression) is not ValueType.VECTOR:
        words = {ValueType.MATRIX: "matrix", ValueType.VECTOR: "vector"}
        found = value_type(node.expression)
        return (
            node.span.start,
            f"subquery is only allowed on instant vector, got {words.get(found, found.value)} instead",
        )
    return None


def _check_selector(node: VectorSelector, selects_labels: bool) -> tuple[int, str] | None:
    if node.name:
        for matcher in node.matchers:
            if matcher.name == METRIC_NAME:
                names = f"{quote(node.name)} or {quote(matcher.value)}"
                return node.span.start, f"metric name must not be set twice: {names}"
        return None
    if selects_labels or any(not matcher.matches("") for matcher in node.matchers):
        return None
    return node.span.start, "vector selector must contain at least one non-empty matcher"


def _check_aggregate(node: Aggregate) -> tuple[int, str] | None:
    found = value_type(node.expression)
    if found is not ValueType.VECTOR:
        return node.expression.span.start, f"expected type instant vector in aggregation expression, got {found.value}"
    if node.parameter is None:
        return None
    wanted = ValueType.STRING if node.operator == "count_values" else ValueType.SCALAR
    found = value_type(node.parameter)
    if found is not wanted:
        message = f"expected type {wanted.value} in aggregation parameter, got {found.value}"
        return node.parameter.span.start, message
    return None


def _check_call(node: Call) -> tuple[int, str] | None:
    known = SIGNATURES.get(node.function)
    at = node.span.start
    if known is None:
        return at, f"unknown function with name {quote(node.function)}"
    count, most = len(node.arguments), len(known.arguments) + max(known.optional - 1, 0)
    least = len(known.arguments) - (1 if known.optional else 0)
    if count < least or (known.optional >= 0 and count > most):
        bound = "" if not known.optional else ("at least " if count < least else "at most ")
        wanted = least if count < least else most
        return at, f"expected {bound}{wanted} argument(s) in call to {quote(node.function)}, got {count}"
    if node.function == "info" and count > 1:
        problem = _check_info(node)
        if problem:
            return problem
    for index, argument in enumerate(node.arguments):
        wanted_type = known.arguments[min(index, len(known.arguments) - 1)]
        found = value_type(argument)
        if found is not wanted_type:
            message = f"expected type {wanted_type.value} in call to function {quote(node.function)}, got {found.value}"
            return argument.span.start, message
    return None


def _check_info(node: Call) -> tuple[int, str] | None:
    selector = node.arguments[1]
    if not isinstance(selector, VectorSelector):
        return selector.span.start, "expected label selectors only"
    if selector.name:
        return selector.span.start, "expected label selectors only, got vector selector instead"
    return None


def _check_binary(node: Binary) -> tuple[int, str] | None:
    left, right, matching = value_type(node.left), value_type(node.right), node.matching
    is_scalar_comparison = node.operator in COMPARISONS and left is right is ValueType.SCALAR
    if node.is_bool != is_scalar_comparison and (is_scalar_comparison or node.operator not in COMPARISONS):
        wrong = "comparisons between scalars must use BOOL modifier"
        return node.operator_at, wrong if is_scalar_comparison else _MISPLACED_BOOL
    for label in matching.labels:
        if matching.is_on and label in matching.include:
            return node.operator_at, f"label {quote(label)} must not occur in ON and GROUP clause at once"
    for side, found in ((node.left, left), (node.right, right)):
        if found not in _NUMERIC:
            return side.span.start, "binary expression must contain only scalar and instant vector types"
    if ValueType.SCALAR in {left, right}:
        return _check_scalar_side(node)
    if node.operator in SET_OPERATORS:
        return _check_set_operator(node)
    return None


def _has_fill(node: Binary) -> bool:
    return node.matching.fill_left is not None or node.matching.fill_right is not None


def _check_scalar_side(node: Binary) -> tuple[int, str] | None:
    at = node.span.start
    if node.matching.labels:
        return at, "vector matching only allowed between instant vectors"
    if _has_fill(node):
        return at, "filling in missing series only allowed between instant vectors"
    if node.operator in SET_OPERATORS:
        return at, f"set operator {quote(node.operator)} not allowed in binary scalar expression"
    return None


def _check_set_operator(node: Binary) -> tuple[int, str] | None:
    if node.matching.cardinality is not Cardinality.ONE_TO_ONE:
        return node.span.start, f"no grouping allowed for {quote(node.operator)} operation"
    if _has_fill(node):
        return node.span.start, "filling in missing series not allowed for set operators"
    return None
