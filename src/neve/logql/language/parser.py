"""Parse the text of LogQL: log queries, and metric queries as a tree of PromQL's nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.lexical.text_cache import cache_short_texts
from neve.logql.language.selector_parser import SelectorParser
from neve.logql.language.syntax import Grouping, LogQuery, LogRange, Query, RangeAggregation, Unwrap, ZeroAsNan
from neve.logql.language.tokens import AGGREGATIONS, RANGE_FUNCTIONS, fail, tokenize
from neve.promql.language.syntax import (
    COMPARISONS,
    SET_OPERATORS,
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Node,
    Number,
    Text,
    VectorMatching,
)
from neve.promql.operators import combine_floats

if TYPE_CHECKING:
    from neve.lexical.matchers import Matcher
    from neve.logql.language.syntax import Stage
    from neve.logql.language.tokens import LogToken

__all__ = ["parse", "parse_selector"]

_LEVELS = {
    "or": 1, "and": 2, "unless": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "^": 6,
}  # fmt: skip
_RANKINGS = frozenset({"topk", "bottomk", "approx_topk"})
_SORTS = frozenset({"sort", "sort_desc"})
_GROUPED = frozenset(
    [
        "avg_over_time",
        "stddev_over_time",
        "stdvar_over_time",
        "quantile_over_time",
        "max_over_time",
        "min_over_time",
        "first_over_time",
        "last_over_time",
    ]
)
_UNWRAPPED = _GROUPED | {"sum_over_time", "rate", "rate_counter", "absent_over_time"}
_PLAIN = frozenset({"bytes_over_time", "bytes_rate", "count_over_time", "rate", "absent_over_time"})


@dataclass(slots=True)
class _Parser(SelectorParser):
    """Recursive descent over the tokens of a query."""

    def parse_all(self) -> Query:
        found = self.parse_binary(1)
        if self.token.kind != "end":
            raise self.fail_unexpected()
        return found

    def parse_binary(self, level: int) -> Query:
        self.enter()
        left = self.parse_primary()
        while True:
            token = self.token
            operator = token.text.lower()
            found = _LEVELS.get(operator, 0) if token.kind in {"operator", "keyword"} else 0
            if found < level:
                break
            self.advance()
            is_bool, matching = self.parse_modifiers()
            right = self.parse_binary(found if operator == "^" else found + 1)
            left = self.combine(token, left, right, is_bool, matching)
        self.depth -= 1
        return left

    def combine(self, token: LogToken, left: Query, right: Query, is_bool: bool, matching: VectorMatching) -> Node:
        operator = token.text.lower()
        for side, leg in (("left", left), ("right", right)):
            if isinstance(leg, LogQuery):
                raise fail(self.text, token.start, f"unexpected type for {side} leg of binary operation ({operator})")
            if operator in SET_OPERATORS and isinstance(leg, Number):
                message = f"unexpected literal for {side} leg of logical/set binary operation ({operator})"
                raise fail(self.text, token.start, f"{message}: {leg.value:f}")
        if isinstance(left, Number) and isinstance(right, Number):
            return Number(fold(operator, left.value, right.value))
        divisor = ZeroAsNan(right) if operator == "/" else right
        return Binary(operator, left, divisor, is_bool and operator in COMPARISONS, matching)  # type: ignore[arg-type]  # leaves of LogQL are evaluated before PromQL sees them

    def parse_modifiers(self) -> tuple[bool, VectorMatching]:
        is_bool = self.accept_keyword("bool")
        word = str(self.token.value)
        if self.token.kind != "keyword" or word not in {"on", "ignoring"}:
            return is_bool, VectorMatching()
        self.advance()
        labels = self.parse_names()
        group = str(self.token.value)
        if self.token.kind != "keyword" or group not in {"group_left", "group_right"}:
            return is_bool, VectorMatching(labels=labels, is_on=word == "on")
        self.advance()
        include = self.parse_names() if self.token.text == "(" else ()
        return is_bool, VectorMatching(Cardinality(group), labels, word == "on", include)

    def parse_names(self) -> tuple[str, ...]:
        self.expect("(")
        names: list[str] = []
        while self.token.text != ")":
            if names:
                self.expect(",")
            names.append(self.expect_name())
        self.expect(")")
        return tuple(names)

    def parse_primary(self) -> Query:
        token = self.token
        if token.text == "{":
            return self.parse_log_query()
        if token.text == "(":
            self.advance()
            inside = self.parse_binary(1)
            self.expect(")")
            return inside
        if token.kind == "number" or token.text in {"+", "-"}:
            return Number(self.parse_number())
        if token.kind == "function":
            return self.parse_function(str(token.value))
        raise self.fail_unexpected()

    def parse_function(self, name: str) -> Query:
        if name in RANGE_FUNCTIONS:
            return self.parse_range_aggregation(name)
        if name in AGGREGATIONS:
            return self.parse_aggregation(name)
        if name == "vector":
            self.advance()
            self.expect("(")
            value = self.parse_number(is_signed=False)
            self.expect(")")
            return Call("vector", (Number(value),))
        if name == "label_replace":
            return self.parse_label_replace()
        raise self.fail_unexpected()

    def parse_label_replace(self) -> Call:
        self.advance()
        self.expect("(")
        vector, texts = self.parse_vector(), []
        for _ in range(4):
            self.expect(",")
            texts.append(Text(self.expect_string()))
        self.validate_regex(texts[-1].value, "invalid regex in label_replace: ")
        self.expect(")")
        return Call("label_replace", (vector, *texts))

    def parse_vector(self) -> Node:
        """Return a metric query that is no single number."""
        at = self.token.start
        found = self.parse_binary(1)
        if isinstance(found, LogQuery | Number):
            raise fail(self.text, at, "syntax error: expected a metric query of logs or vector()")
        return found  # type: ignore[return-value]  # leaves of LogQL are evaluated before PromQL sees them

    def parse_aggregation(self, name: str) -> Node:
        at = self.token.start
        self.advance()
        grouping = self.parse_grouping()
        self.expect("(")
        parameter = None
        if self.token.kind == "number" and self.next.text == ",":
            parameter = self.token.text
            self.advance()
            self.advance()
        inside = self.parse_vector()
        self.expect(")")
        grouping = grouping or self.parse_grouping()
        count = self.check_parameter(name, parameter, at, has_grouping=grouping is not None)
        labels, is_without = (grouping.labels, grouping.is_without) if grouping else ((), False)
        if name in _SORTS:
            return Call(name, (inside,))
        return Aggregate(name, inside, None if count is None else Number(count), labels, is_without)

    def check_parameter(self, name: str, parameter: str | None, at: int, *, has_grouping: bool) -> float | None:
        if name not in _RANKINGS:
            if parameter is not None:
                raise fail(self.text, at, f"unsupported parameter for operation {name}({parameter},")
            return None
        if parameter is None:
            raise fail(self.text, at, f"parameter required for operation {name}")
        if not parameter.isdigit():
            raise fail(self.text, at, f"invalid parameter {name}({parameter},")
        if int(parameter) <= 0:
            raise fail(self.text, at, f"invalid parameter (must be greater than 0) {name}({parameter}")
        if name == "approx_topk" and has_grouping:
            raise fail(self.text, at, f"grouping not allowed for {name} aggregation")
        return float(int(parameter))

    def parse_grouping(self) -> Grouping | None:
        word = str(self.token.value)
        if self.token.kind != "keyword" or word not in {"by", "without"}:
            return None
        self.advance()
        return Grouping(self.parse_names(), word == "without")

    def parse_range_aggregation(self, name: str) -> RangeAggregation:
        at = self.token.start
        self.advance()
        self.expect("(")
        parameter: float | None = None
        if self.token.kind == "number":
            if name != "quantile_over_time":
                raise fail(self.text, at, f"parameter {self.token.text} not supported for operation {name}")
            parameter = self.parse_number(is_signed=False)
            self.expect(",")
        elif self.token.text in {"+", "-"}:
            raise self.fail_unexpected("NUMBER")
        elif name == "quantile_over_time":
            raise fail(self.text, at, f"parameter required for operation {name}")
        log_range = self.parse_log_range()
        self.expect(")")
        grouping = self.parse_grouping()
        self.check_range(name, log_range, at, has_grouping=grouping is not None)
        return RangeAggregation(name, log_range, grouping, parameter)

    def check_range(self, name: str, log_range: LogRange, at: int, *, has_grouping: bool) -> None:
        if has_grouping and name not in _GROUPED:
            raise fail(self.text, at, f"grouping not allowed for {name} aggregation")
        if log_range.unwrap is not None and name not in _UNWRAPPED:
            raise fail(self.text, at, f"invalid aggregation {name} with unwrap")
        if log_range.unwrap is None and name not in _PLAIN:
            raise fail(self.text, at, f"invalid aggregation {name} without unwrap")

    def parse_log_range(self) -> LogRange:
        """Return a log query with a range. The range may stand before or after the stages."""
        parts = self.parse_range_parts()
        if parts.range_ns is None:
            raise self.fail_unexpected("RANGE")
        return LogRange(LogQuery(parts.matchers, tuple(parts.stages)), parts.range_ns, parts.offset_ns, parts.unwrap)

    def parse_range_parts(self) -> _RangeParts:
        self.enter()
        if self.token.text == "(":
            self.advance()
            parts = self.parse_range_parts()
            self.expect(")")
        else:
            parts = _RangeParts(self.parse_matchers(), [])
        self.parse_range_rest(parts)
        self.depth -= 1
        return parts

    def parse_range_rest(self, parts: _RangeParts) -> None:
        while True:
            if self.token.kind == "range" and parts.range_ns is None:
                parts.range_ns = int(self.token.value)
                self.advance()
            elif self.accept_keyword("offset"):
                if self.token.kind != "duration" or parts.range_ns is None:
                    raise self.fail_unexpected("DURATION")
                parts.offset_ns = int(self.token.value)
                self.advance()
            elif self.token.text == "|" and self.next.value == "unwrap" and self.next.kind == "keyword":
                self.advance()
                self.advance()
                parts.unwrap = self.parse_unwrap()
            elif self.is_stage:
                parts.stages += self.parse_stages()
            else:
                return

    def parse_unwrap(self) -> Unwrap:
        conversion = ""
        if self.token.kind == "function" and self.token.value in {"bytes", "duration", "duration_seconds"}:
            conversion = str(self.token.value)
            self.advance()
            self.expect("(")
            name = self.expect_name()
            self.expect(")")
        else:
            name = self.expect_name()
        filters = []
        while self.token.text == "|":
            self.advance()
            filters.append(self.parse_label_condition())
        return Unwrap(name, conversion, tuple(filters))


def fold(operator: str, left: float, right: float) -> float:
    """Return the value of an operation on two numbers. A comparison is 0 or 1, a division by zero NaN.

    >>> fold("+", 1, 2), fold(">", 1, 2), fold("/", 1, 0)
    (3.0, 0.0, nan)
    """
    with np.errstate(all="ignore"):
        values, kept = combine_floats(operator, np.array(float(left)), np.array(float(right)))
    if operator in COMPARISONS:
        return float(kept)
    return math.nan if operator == "/" and right == 0 else float(values)


@dataclass(slots=True)
class _RangeParts:
    """Log query with a range while it is parsed."""

    matchers: tuple[Matcher, ...]
    stages: list[Stage]
    range_ns: int | None = None
    offset_ns: int = 0
    unwrap: Unwrap | None = None


@cache_short_texts(256)
def parse(text: str) -> Query:
    """Return the syntax tree of a query. Raises `InvalidExpression`, whose message has line and column.

    >>> parse('sum by (job) (rate({app="a"} |= "x" [5m]))').operator
    'sum'
    """
    return _Parser(text, list(tokenize(text))).parse_all()


def parse_selector(text: str) -> LogQuery:
    """Return a log query. Raises `InvalidExpression` for a metric query."""
    found = parse(text)
    if not isinstance(found, LogQuery):
        raise fail(text, 0, 'expected a log query, for example {service_name="shop"}, got a metric query')
    return found
