"""Parse the text of TraceQL: pipelines of spansets, scalar filters, metrics and hints.

One recursive descent reads everything between `|` and operators. `combine` then decides by the kinds of both sides what
an operator means: `>` is a structure between spansets, a filter after an aggregate, and one of series after metrics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.lexical.text_cache import cache_short_texts
from neve.traceql.language.checks import check_query
from neve.traceql.language.field_parser import AND_LEVEL, POWER_LEVEL, FieldParser
from neve.traceql.language.fields import COMPARISONS, Attribute, Static, Type
from neve.traceql.language.syntax import (
    Aggregate,
    Coalesce,
    Compare,
    Filter,
    Group,
    MetricsAggregate,
    MetricsFilter,
    MetricsMath,
    MetricsPipeline,
    MetricsScalarMath,
    Pipeline,
    Query,
    Ranking,
    ScalarFilter,
    ScalarOperation,
    ScalarPipeline,
    Select,
    SpansetOperation,
)
from neve.traceql.language.tokens import fail, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.traceql.language.syntax import SecondStage
    from neve.traceql.language.tokens import Token

__all__ = ["parse"]

SPANSET_OPERATORS = frozenset(
    ["&&", "||", ">", "<", ">>", "<<", "~", "!>", "!<", "!>>", "!<<", "!~", "&>", "&<", "&>>", "&<<", "&~"]
)
_AGGREGATES = frozenset({"avg", "max", "min", "sum"})
_OF_ATTRIBUTE = frozenset({"min_over_time", "max_over_time", "avg_over_time", "sum_over_time", "histogram_over_time"})
_METRICS = _OF_ATTRIBUTE | {"rate", "count_over_time", "quantile_over_time", "compare"}
_ARITHMETIC = frozenset("+-*/")


@dataclass(frozen=True, slots=True)
class _MetricsStep:
    """First stage or ranking of metrics that a pipeline continues with, and the filters after it."""

    first: MetricsAggregate | Compare | None
    stages: tuple[SecondStage, ...] = ()


_Spansets = Filter | SpansetOperation | Pipeline
_Metrics = MetricsPipeline | MetricsMath | MetricsScalarMath
_Scalars = Aggregate | ScalarOperation | ScalarPipeline
_Part = _Spansets | _Metrics | _Scalars | Static | ScalarFilter | Group | Select | Coalesce | _MetricsStep


@dataclass(slots=True)
class _Parser(FieldParser):
    """Recursive descent over the tokens of a query."""

    def parse_query(self) -> Query:
        at = self.token.start
        found = self.parse_parts()
        hints: list[tuple[str, Static]] = []
        while self.accept("with"):
            hints += self.parse_hints()
        if self.token.kind != "end":
            raise self.make_error("an operator, '|', 'with(' or the end of the query")
        if isinstance(found, ScalarPipeline | Aggregate | ScalarOperation | Static):
            raise fail(self.text, at, f"{found} is a number, expected a comparison such as `{found} > 1`")
        if isinstance(found, _Metrics):
            return Query(found, tuple(hints))
        return Query(found if isinstance(found, Pipeline) else Pipeline((found,)), tuple(hints))

    def parse_hints(self) -> list[tuple[str, Static]]:
        self.expect("(")
        found: list[tuple[str, Static]] = []
        while not found or self.accept(","):
            if self.token.kind != "word":
                raise self.make_error("the name of a hint")
            name = self.advance().text
            self.expect("=")
            found.append((name, self.parse_static()))
        self.expect(")")
        return found

    def parse_parts(self) -> _Spansets | _Metrics | _Scalars | Static | ScalarFilter:
        """Parse what `|` joins: a pipeline of spansets, or metrics, or inside parentheses a number."""
        at = self.token.start
        parts = [(at, self.parse_part())]
        while self.accept("|"):
            at = self.token.start
            parts.append((at, self.parse_part()))
        if len(parts) == 1 and not isinstance(parts[0][1], Group | Select | Coalesce | _MetricsStep):
            return parts[0][1]
        found: _Part = self.begin_pipeline(*parts[0])
        for at, part in parts[1:]:
            found = self.continue_pipeline(found, at, part)
        return found  # type: ignore[return-value]  # a pipeline, metrics or a number

    def begin_pipeline(self, at: int, part: _Part) -> Pipeline | _Metrics:
        if isinstance(part, _Metrics):
            return part
        if isinstance(part, Pipeline):
            return part
        if isinstance(part, Filter | SpansetOperation | ScalarFilter | Group | Select):
            return Pipeline((part,))
        raise fail(self.text, at, f"a query can't begin with {_describe(part)}, expected spansets such as {{ }}")

    def continue_pipeline(self, left: _Part, at: int, part: _Part) -> _Part:
        if isinstance(left, _Metrics):
            if isinstance(part, _MetricsStep) and part.first is None:
                return replace(left, stages=(*left.stages, *part.stages))
            raise fail(self.text, at, f"unexpected {_describe(part)} after metrics, expected topk() or bottomk()")
        if not isinstance(left, Pipeline):
            raise fail(self.text, at, f"unexpected {_describe(part)} after {_describe(left)}")
        if isinstance(part, _MetricsStep):
            if part.first is None:
                raise fail(self.text, at, "topk() and bottomk() need metrics before them, such as rate()")
            return MetricsPipeline(left, part.first, part.stages)
        if isinstance(part, Aggregate):
            return ScalarPipeline(left, part)
        if isinstance(part, Filter | SpansetOperation | ScalarFilter | Group | Select | Coalesce):
            return Pipeline((*left.elements, part))
        raise fail(self.text, at, f"unexpected {_describe(part)} in a pipeline, expected spansets or a filter of them")

    def parse_part(self) -> _Part:
        return self.climb(AND_LEVEL, self.parse_unit, self.combine)

    def parse_unit(self) -> _Part:
        token = self.token
        if self.accept("{"):
            return self.parse_filter()
        if self.accept("("):
            inside = self.parse_parts()
            self.expect(")")
            if isinstance(inside, ScalarFilter):
                return Pipeline((inside,))
            return inside
        if self.accept("-"):
            return self.negate(token, self.climb(POWER_LEVEL, self.parse_unit, self.combine))
        if token.kind in {"integer", "float", "duration"}:
            return self.parse_static()
        if token.kind == "word" and token.text in _FUNCTIONS:
            self.advance()
            self.expect("(")
            found = _FUNCTIONS[token.text](self, token.text)
            self.expect(")")
            if isinstance(found, MetricsAggregate):
                found = replace(found, by=self.parse_by())
            return _MetricsStep(found) if isinstance(found, MetricsAggregate | Compare) else found
        raise self.make_error("spansets such as { }, an aggregate, by(), select() or metrics")

    def parse_filter(self) -> Filter:
        """Parse a condition after its brace."""
        if self.accept("}"):
            return Filter(Static(Type.BOOL, value=True))
        condition = self.parse_field()
        self.expect("}")
        return Filter(condition)

    def parse_attributes(self) -> tuple[Attribute, ...]:
        found = [self.parse_attribute()]
        while self.accept(","):
            found.append(self.parse_attribute())
        return tuple(found)

    def parse_by(self) -> tuple[Attribute, ...]:
        if not self.accept("by"):
            return ()
        self.expect("(")
        found = self.parse_attributes()
        self.expect(")")
        return found

    def parse_metrics(self, name: str) -> MetricsAggregate:
        if name in {"rate", "count_over_time"}:
            return MetricsAggregate(name)
        attribute = self.parse_attribute()
        quantiles: list[float] = []
        if name == "quantile_over_time":
            self.expect(",")
            while not quantiles or self.accept(","):
                if self.token.kind not in {"integer", "float"}:
                    raise self.make_error("a quantile between 0 and 1")
                quantiles.append(float(self.advance().value))
        return MetricsAggregate(name, attribute, quantiles=tuple(quantiles))

    def parse_compare(self, _name: str) -> Compare:
        self.expect("{")
        selection = self.parse_filter()
        if not self.accept(","):
            return Compare(selection)
        top = self.expect_integer()
        if not self.accept(","):
            return Compare(selection, top)
        start = self.expect_integer()
        self.expect(",")
        return Compare(selection, top, start, self.expect_integer())

    def parse_ranking(self, name: str) -> _MetricsStep:
        return _MetricsStep(None, (Ranking(name, self.expect_integer()),))

    def parse_aggregate(self, name: str) -> Aggregate:
        return Aggregate(name, self.parse_field() if name in _AGGREGATES else None)

    def negate(self, token: Token, operand: _Part) -> Static:
        if not isinstance(operand, Static):
            raise fail(self.text, token.start, "'-' needs a number after it")
        return Static(operand.type, -operand.value)

    def combine(self, token: Token, left: _Part, right: _Part) -> _Part:
        """Apply an operator to its sides, or fail with their kinds."""
        found: _Part | None = None
        if isinstance(left, _Spansets) and isinstance(right, _Spansets):
            if token.text in SPANSET_OPERATORS:
                found = SpansetOperation(token.text, left, right)
        elif isinstance(left, Static) and isinstance(right, Static):
            found = self.fold(token, left, right)
        elif isinstance(left, _Metrics | _MetricsStep) or isinstance(right, _Metrics | _MetricsStep):
            found = self.combine_metrics(token, left, right)
        elif isinstance(left, _Scalars | Static) and isinstance(right, _Scalars | Static):
            found = self.combine_scalars(token.text, left, right)
        if found is None:
            message = f"{token.text!r} can't join {_describe(left)} and {_describe(right)}"
            raise fail(self.text, token.start, message)
        return found

    def combine_scalars(self, operator: str, left: _Scalars | Static, right: _Scalars | Static) -> _Part | None:
        if operator in COMPARISONS:
            return ScalarFilter(operator, left, right)
        return ScalarOperation(operator, left, right) if operator in {*_ARITHMETIC, "%", "^"} else None

    def combine_metrics(self, token: Token, left: _Part, right: _Part) -> _Part | None:
        operator = token.text
        if isinstance(right, Static) and operator in COMPARISONS and isinstance(left, _Metrics | _MetricsStep):
            number = right.value / 1e9 if right.type is Type.DURATION else float(right.value)
            return replace(left, stages=(*left.stages, MetricsFilter(operator, number)))
        if operator not in _ARITHMETIC:
            return None
        if isinstance(left, _Metrics) and isinstance(right, _Metrics):
            return MetricsMath(operator, left, right)
        if isinstance(left, _Metrics) and isinstance(right, Static):
            return MetricsScalarMath(operator, self.expect_plain(token, right), left, is_left=False)
        if isinstance(right, _Metrics) and isinstance(left, Static):
            return MetricsScalarMath(operator, self.expect_plain(token, left), right, is_left=True)
        return None

    def expect_plain(self, token: Token, number: Static) -> float:
        if number.type is Type.DURATION:
            raise fail(self.text, token.start, "a duration can't be used in arithmetic with metrics")
        return float(number.value)

    def fold(self, token: Token, left: Static, right: Static) -> Static | None:
        """Compute a constant. Integers are divided as integers."""
        if token.text not in _ARITHMETIC:
            return None
        if Type.DURATION in {left.type, right.type}:
            raise fail(self.text, token.start, "durations can't be used in arithmetic of numbers")
        try:
            value = _compute(token.text, left.value, right.value)
        except (ZeroDivisionError, OverflowError):
            raise fail(self.text, token.start, "division by zero, or a number that is too large") from None
        is_int = left.type is right.type is Type.INT
        return Static(Type.INT if is_int else Type.FLOAT, value)


def _compute(operator: str, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right if right else math.nan


def _describe(part: _Part) -> str:
    """Return the kind of a part for messages."""
    names: dict[type, str] = {
        Filter: "spansets", SpansetOperation: "spansets", Pipeline: "spansets", Static: "a number",
        Aggregate: "an aggregate", ScalarOperation: "an aggregate", ScalarPipeline: "an aggregate",
        ScalarFilter: "a comparison", Group: "by()", Select: "select()", Coalesce: "coalesce()",
        _MetricsStep: "metrics without parentheses",
    }  # fmt: skip
    return names.get(type(part), "metrics")


_FUNCTIONS: dict[str, Callable[[_Parser, str], _Part | MetricsAggregate | Compare]] = {
    "by": lambda parser, _: Group(parser.parse_field()),
    "select": lambda parser, _: Select(parser.parse_attributes()),
    "coalesce": lambda _parser, _: Coalesce(),
    **dict.fromkeys((*_AGGREGATES, "count"), _Parser.parse_aggregate),
    **dict.fromkeys(_METRICS, _Parser.parse_metrics),
    **dict.fromkeys(("topk", "bottomk"), _Parser.parse_ranking),
    "compare": _Parser.parse_compare,
}


@cache_short_texts(256)
def parse(text: str) -> Query:
    """Parse and check a query. Raises `InvalidExpression`, with line and column where the text is malformed."""
    found = _Parser(text, list(tokenize(text))).parse_query()
    check_query(found)
    return found
