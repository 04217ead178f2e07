"""Syntax tree of TraceQL: pipelines of spansets, and metrics. `fields.py` has the conditions on spans.

`str` of a node is TraceQL. Results name groups and aggregates by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from neve.lexical.literals import format_general
from neve.traceql.language.fields import Attribute, Field, Static

__all__ = [
    "Aggregate",
    "Coalesce",
    "Compare",
    "Element",
    "Filter",
    "Group",
    "MetricsAggregate",
    "MetricsFilter",
    "MetricsMath",
    "MetricsPipeline",
    "MetricsQuery",
    "MetricsScalarMath",
    "Pipeline",
    "Query",
    "Ranking",
    "Scalar",
    "ScalarFilter",
    "ScalarOperation",
    "ScalarPipeline",
    "SecondStage",
    "Select",
    "SpansetOperation",
]


@dataclass(frozen=True, slots=True)
class Filter:
    """`{ condition }`: the spans that fulfil it."""

    condition: Field

    def __str__(self) -> str:
        return f"{{ {self.condition} }}"


@dataclass(frozen=True, slots=True)
class SpansetOperation:
    """`&&`, `||`, or a structural operator between two sets of spans."""

    operator: str
    left: Filter | SpansetOperation | Pipeline
    right: Filter | SpansetOperation | Pipeline

    def __str__(self) -> str:
        return f"({self.left}) {self.operator} ({self.right})"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Number of a spanset: `count()`, or `avg`, `max`, `min`, `sum` of a field."""

    operator: str
    operand: Field | None = None

    def __str__(self) -> str:
        return f"{self.operator}({'' if self.operand is None else self.operand})"


@dataclass(frozen=True, slots=True)
class ScalarOperation:
    """Arithmetic between numbers of spansets."""

    operator: str
    left: Scalar
    right: Scalar

    def __str__(self) -> str:
        return f"({self.left}) {self.operator} ({self.right})"


@dataclass(frozen=True, slots=True)
class ScalarPipeline:
    """`(pipeline | aggregate)`."""

    pipeline: Pipeline
    aggregate: Aggregate

    def __str__(self) -> str:
        return f"({self.pipeline} | {self.aggregate})"


Scalar = Static | Aggregate | ScalarOperation | ScalarPipeline


@dataclass(frozen=True, slots=True)
class ScalarFilter:
    """Spansets whose number compares with another."""

    operator: str
    left: Scalar
    right: Scalar

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, slots=True)
class Group:
    """`by(field)`: a spanset for each value."""

    operand: Field

    def __str__(self) -> str:
        return f"by({self.operand})"


@dataclass(frozen=True, slots=True)
class Select:
    """`select(a, b)`: attributes that the answer has too."""

    attributes: tuple[Attribute, ...]

    def __str__(self) -> str:
        return f"select({', '.join(map(str, self.attributes))})"


@dataclass(frozen=True, slots=True)
class Coalesce:
    """`coalesce()`: the spansets of a trace as one."""

    def __str__(self) -> str:
        return "coalesce()"


Element = Filter | SpansetOperation | ScalarFilter | Group | Select | Coalesce


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Elements that the spans of a trace pass through. Among them may be parenthesized pipelines."""

    elements: tuple[Element | Pipeline, ...]

    def __str__(self) -> str:
        return " | ".join(f"({one})" if isinstance(one, Pipeline) else str(one) for one in self.elements)


@dataclass(frozen=True, slots=True)
class MetricsAggregate:
    """First stage of metrics: a function over time, of an attribute if it needs one, by attributes."""

    operator: str
    attribute: Attribute | None = None
    by: tuple[Attribute, ...] = ()
    quantiles: tuple[float, ...] = ()

    def __str__(self) -> str:
        given = [str(one) for one in (self.attribute,) if one is not None] + [
            format_general(one) for one in self.quantiles
        ]
        by = f" by({', '.join(map(str, self.by))})" if self.by else ""
        return f"{self.operator}({', '.join(given)}){by}"


@dataclass(frozen=True, slots=True)
class Compare:
    """`compare({…}, top, start, end)`: values of attributes in a selection and in the other spans. Times: ns, or 0."""

    selection: Filter
    top: int = 10
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        times = f", {self.start}, {self.end}" if self.start or self.end else ""
        return f"compare({self.selection}, {self.top}{times})"


@dataclass(frozen=True, slots=True)
class Ranking:
    """`topk(n)` or `bottomk(n)` of the series at each step."""

    operator: str
    count: int

    def __str__(self) -> str:
        return f"| {self.operator}({self.count})"


@dataclass(frozen=True, slots=True)
class MetricsFilter:
    """Values of series that compare with a number."""

    operator: str
    value: float

    def __str__(self) -> str:
        return f"{self.operator} {format_general(self.value)}"


SecondStage = Ranking | MetricsFilter


@dataclass(frozen=True, slots=True)
class MetricsPipeline:
    """Series of the spans of a pipeline."""

    pipeline: Pipeline
    first: MetricsAggregate | Compare
    stages: tuple[SecondStage, ...] = ()

    def __str__(self) -> str:
        return " ".join([f"{self.pipeline} | {self.first}", *map(str, self.stages)])


@dataclass(frozen=True, slots=True)
class MetricsMath:
    """Arithmetic between series with the same labels."""

    operator: str
    left: MetricsQuery
    right: MetricsQuery
    stages: tuple[SecondStage, ...] = ()

    def __str__(self) -> str:
        return " ".join([f"({self.left}) {self.operator} ({self.right})", *map(str, self.stages)])


@dataclass(frozen=True, slots=True)
class MetricsScalarMath:
    """Arithmetic between series and a number, which is on the left side with `is_left`."""

    operator: str
    number: float
    operand: MetricsQuery
    is_left: bool
    stages: tuple[SecondStage, ...] = ()

    def __str__(self) -> str:
        number = format_general(self.number)
        parts = (number, f"({self.operand})") if self.is_left else (f"({self.operand})", number)
        return " ".join([f"{parts[0]} {self.operator} {parts[1]}", *map(str, self.stages)])


MetricsQuery = MetricsPipeline | MetricsMath | MetricsScalarMath


@dataclass(frozen=True, slots=True)
class Query:
    """Whole query: spansets or metrics, and hints, which do not change the result."""

    root: Pipeline | MetricsQuery
    hints: tuple[tuple[str, Static], ...] = ()

    @property
    def is_metrics(self) -> bool:
        """Return whether the result is series."""
        return not isinstance(self.root, Pipeline)

    def __str__(self) -> str:
        hints = f" with({', '.join(f'{name}={value}' for name, value in self.hints)})" if self.hints else ""
        return f"{self.root}{hints}"
