"""Syntax tree of PromQL. Nodes are frozen, and their spans don't take part in comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

from neve.lexical.matchers import Matcher, MatchKind
from neve.lexical.positions import NOWHERE, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "AGGREGATIONS",
    "AGGREGATIONS_WITH_PARAMETER",
    "COMPARISONS",
    "METRIC_NAME",
    "NAME_DROPPING_OPERATORS",
    "SET_OPERATORS",
    "TRIM_OPERATORS",
    "Aggregate",
    "Binary",
    "Call",
    "Cardinality",
    "Duration",
    "DurationOperation",
    "Edge",
    "Evaluated",
    "Node",
    "Number",
    "Paren",
    "RangeSelector",
    "Subquery",
    "Text",
    "Timing",
    "Unary",
    "ValueType",
    "VectorMatching",
    "VectorSelector",
    "children",
    "strip_parens",
    "walk",
]

METRIC_NAME = "__name__"
AGGREGATIONS_WITH_PARAMETER = frozenset({"topk", "bottomk", "quantile", "count_values", "limitk", "limit_ratio"})
AGGREGATIONS = AGGREGATIONS_WITH_PARAMETER | {"sum", "avg", "count", "min", "max", "group", "stddev", "stdvar"}
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
SET_OPERATORS = frozenset({"and", "or", "unless"})
TRIM_OPERATORS = frozenset({"</", ">/"})
NAME_DROPPING_OPERATORS = frozenset({"+", "-", "*", "/", "%", "^", "atan2"})


class ValueType(StrEnum):
    """Type of the value of an expression, as messages name it."""

    SCALAR = "scalar"
    STRING = "string"
    VECTOR = "instant vector"
    MATRIX = "range vector"


class Edge(Enum):
    """Edge of the query's time range: `@ start()` and `@ end()`."""

    START = "start"
    END = "end"


class Cardinality(Enum):
    """Number of series on each side of a match."""

    ONE_TO_ONE = "one-to-one"
    MANY_TO_ONE = "group_left"
    ONE_TO_MANY = "group_right"
    MANY_TO_MANY = "many-to-many"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Located:
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Number(_Located):
    """Number, or a duration in seconds."""

    value: float
    is_duration: bool = False


@dataclass(frozen=True, slots=True)
class Text(_Located):
    """Quoted string."""

    value: str


@dataclass(frozen=True, slots=True)
class DurationOperation(_Located):
    """Arithmetic of durations: `+ - * / % ^`, `step`, `range`, `min_of`, `max_of`. A sign has no left side."""

    operator: str
    left: Duration | None = None
    right: Duration | None = None
    is_wrapped: bool = False


Duration = Number | DurationOperation


@dataclass(frozen=True, slots=True)
class Timing:
    """Modifiers of a selector or subquery: `offset`, `@`, `anchored`, `smoothed`."""

    offset: Duration | None = None
    at_ms: int | None = None
    at_edge: Edge | None = None
    is_anchored: bool = False
    is_smoothed: bool = False

    @property
    def has_at(self) -> bool:
        """Return whether the time is fixed."""
        return self.at_ms is not None or self.at_edge is not None


@dataclass(frozen=True, slots=True)
class VectorSelector(_Located):
    """Selection of series. `name` is the metric name that was written before the braces."""

    name: str
    matchers: tuple[Matcher, ...]
    timing: Timing = Timing()

    @property
    def all_matchers(self) -> tuple[Matcher, ...]:
        """Return the matchers, with one for the name."""
        if not self.name:
            return self.matchers
        return (*self.matchers, Matcher(METRIC_NAME, MatchKind.EQUAL, self.name))


@dataclass(frozen=True, slots=True)
class RangeSelector(_Located):
    """Samples of series within a range: `x[5m]`. The modifiers are those of the selector."""

    selector: VectorSelector
    range: Duration


@dataclass(frozen=True, slots=True)
class Subquery(_Located):
    """Evaluation of an expression at steps within a range: `x[1h:5m]`."""

    expression: Node
    range: Duration
    step: Duration | None = None
    timing: Timing = Timing()


@dataclass(frozen=True, slots=True)
class Call(_Located):
    """Call of a function."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Aggregate(_Located):
    """Aggregation over the series of a vector."""

    operator: str
    expression: Node
    parameter: Node | None = None
    labels: tuple[str, ...] = ()
    is_without: bool = False


@dataclass(frozen=True, slots=True)
class VectorMatching:
    """Rules that pair the series of two vectors."""

    cardinality: Cardinality = Cardinality.ONE_TO_ONE
    labels: tuple[str, ...] = ()
    is_on: bool = False
    include: tuple[str, ...] = ()
    fill_left: float | None = None
    fill_right: float | None = None


@dataclass(frozen=True, slots=True)
class Binary(_Located):
    """Binary operation. `matching` is used if both sides are vectors."""

    operator: str
    left: Node
    right: Node
    is_bool: bool = False
    matching: VectorMatching = VectorMatching()
    operator_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Unary(_Located):
    """Sign before an expression."""

    operator: str
    expression: Node


@dataclass(frozen=True, slots=True)
class Paren(_Located):
    """Expression in parentheses."""

    expression: Node


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated(_Located):
    """Value that another language has computed: a leaf of its tree, which the parser of PromQL never makes."""

    value: Any  # a value of `matrix.py`


Node = Number | Text | VectorSelector | RangeSelector | Subquery | Call | Aggregate | Binary | Unary | Paren | Evaluated


def children(node: Node) -> Iterator[Node]:
    """Yield the expressions inside an expression, from left to right."""
    if isinstance(node, Call):
        yield from node.arguments
    elif isinstance(node, Aggregate):
        if node.parameter is not None:
            yield node.parameter
        yield node.expression
    elif isinstance(node, Binary):
        yield node.left
        yield node.right
    elif isinstance(node, RangeSelector):
        yield node.selector
    elif isinstance(node, Unary | Paren | Subquery):
        yield node.expression


def walk(node: Node) -> Iterator[Node]:
    """Yield an expression and all expressions inside it, without recursion."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(reversed(list(children(one))))


def strip_parens(node: Node) -> Node:
    """Return the expression inside of parentheses."""
    while isinstance(node, Paren):
        node = node.expression
    return node
