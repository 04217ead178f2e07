"""Print a syntax tree as the text of an expression. Parsing the text gives an equal tree."""

from __future__ import annotations

import re
from dataclasses import replace

from neve.lexical.literals import format_duration, format_float, quote
from neve.lexical.matchers import MatchKind
from neve.promql.language.syntax import (
    METRIC_NAME,
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Duration,
    Edge,
    Evaluated,
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

__all__ = ["format_expression"]

_PLAIN_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def format_expression(node: Node) -> str:
    """Return the text of an expression.

    >>> from neve.promql.language.parser import parse
    >>> format_expression(parse("sum(rate(x{a='b'}[90m]))by(job)"))
    'sum by (job) (rate(x{a="b"}[1h30m]))'
    """
    if isinstance(node, RangeSelector | Subquery):
        return _format_range(node)
    if isinstance(node, Call):
        return f"{node.function}({', '.join(format_expression(one) for one in node.arguments)})"
    if isinstance(node, Unary | Paren):
        inside = format_expression(node.expression)
        return f"({inside})" if isinstance(node, Paren) else node.operator + inside
    if isinstance(node, Aggregate | Binary):
        return _format_aggregate(node) if isinstance(node, Aggregate) else _format_binary(node)
    return _format_leaf(node)


def _format_leaf(node: Number | Text | VectorSelector | Evaluated) -> str:
    if isinstance(node, Evaluated):
        raise TypeError("a computed value has no text")
    if isinstance(node, Number):
        return format_length(node) if node.is_duration else format_float(node.value)
    return quote(node.value) if isinstance(node, Text) else _format_selector(node)


def _format_range(node: RangeSelector | Subquery) -> str:
    if isinstance(node, RangeSelector):
        plain = replace(node.selector, timing=Timing())
        return f"{_format_selector(plain)}[{format_length(node.range)}]{_format_timing(node.selector.timing)}"
    step = "" if node.step is None else format_length(node.step)
    inside = format_expression(node.expression)
    return f"{inside}[{format_length(node.range)}:{step}]{_format_timing(node.timing)}"


def format_length(value: Duration) -> str:
    """Return the text of a duration."""
    if isinstance(value, Number):
        if not value.is_duration:
            return format_float(value.value)
        sign = "-" if value.value < 0 else ""
        return sign + format_duration(round(abs(value.value) * 1000))
    left = "" if value.left is None else format_length(value.left)
    right = "" if value.right is None else format_length(value.right)
    if value.operator in {"step", "range"}:
        inside = f"{value.operator}()"
    elif value.operator in {"min_of", "max_of"}:
        inside = f"{value.operator}({left}, {right})"
    elif value.left is None:
        inside = right if value.operator == "+" else f"-{right}"
    else:
        inside = f"{left} {value.operator} {right}"
    return f"({inside})" if value.is_wrapped else inside


def _format_timing(timing: Timing) -> str:
    parts = []
    if timing.is_anchored or timing.is_smoothed:
        parts.append("anchored" if timing.is_anchored else "smoothed")
    if timing.at_ms is not None:
        parts.append(f"@ {timing.at_ms / 1000:.3f}")
    elif timing.at_edge is not None:
        parts.append("@ start()" if timing.at_edge is Edge.START else "@ end()")
    if timing.offset is not None:
        parts.append(f"offset {format_length(timing.offset)}")
    return "".join(f" {part}" for part in parts)


def _format_selector(node: VectorSelector) -> str:
    matchers = [
        quote(one.value) if not node.name and one.name == METRIC_NAME and one.kind is MatchKind.EQUAL else str(one)
        for one in node.matchers
    ]
    braces = f"{{{','.join(matchers)}}}" if matchers or not node.name else ""
    return f"{node.name}{braces}{_format_timing(node.timing)}"


def _format_labels(labels: tuple[str, ...]) -> str:
    return ", ".join(one if _PLAIN_LABEL.fullmatch(one) else quote(one) for one in labels)


def _format_aggregate(node: Aggregate) -> str:
    grouping = ""
    if node.is_without or node.labels:
        grouping = f" {'without' if node.is_without else 'by'} ({_format_labels(node.labels)}) "
    parameter = "" if node.parameter is None else f"{format_expression(node.parameter)}, "
    return f"{node.operator}{grouping}({parameter}{format_expression(node.expression)})"


def _format_binary(node: Binary) -> str:
    operator = f"{node.operator}{' bool' if node.is_bool else ''}{_format_matching(node.matching)}"
    return f"{format_expression(node.left)} {operator} {format_expression(node.right)}"


def _format_matching(matching: VectorMatching) -> str:
    parts = []
    grouped = matching.cardinality in {Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY}
    if matching.labels or matching.is_on or grouped:
        parts.append(f"{'on' if matching.is_on else 'ignoring'} ({_format_labels(matching.labels)})")
    if grouped:
        parts.append(f"{matching.cardinality.value} ({_format_labels(matching.include)})")
    if matching.fill_left is not None and matching.fill_left == matching.fill_right:
        parts.append(f"fill ({format_float(matching.fill_left)})")
    else:
        parts += [
            f"{name} ({format_float(value)})"
            for name, value in (("fill_left", matching.fill_left), ("fill_right", matching.fill_right))
            if value is not None
        ]
    return "".join(f" {part}" for part in parts)
