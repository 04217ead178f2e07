"""Conditions in SQL: they pass every span that the evaluation chooses."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from neve.traceql.evaluation.field_evaluator import evaluate
from neve.traceql.evaluation.span_batch import SpanBatch
from neve.traceql.language.parser import parse
from neve.traceql.language.rewrites import simplify
from neve.traceql.language.syntax import Filter, Pipeline
from neve.traceql.storage.columns import TREE, list_attributes
from neve.traceql.storage.conditions import narrow
from neve.traceql.storage.span_reader import SpanReader, Window
from tests.traceql import queries
from tests.traceql.plain_traces import BASE, open_spans, random_spans

if TYPE_CHECKING:
    from neve.traceql.language.fields import Attribute

WINDOW = Window(BASE, BASE + 10**12)


@lru_cache(maxsize=1)
def open_many() -> SpanReader:
    """Return the spans of 200 traces, so that one condition meets many values."""
    spans = [replace(one, trace=one.trace + 10 * seed) for seed in range(50) for one in random_spans(seed)]
    return open_spans(spans, spans_left=1 << 60, bytes_left=1 << 60)


@lru_cache(maxsize=8)
def read_all(attributes: tuple[Attribute, ...]) -> SpanBatch:
    """Return all spans with these attributes."""
    return SpanBatch.sort(open_many().read(list(attributes), WINDOW, None, TREE))


def list_missed(text: str) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Return the number of chosen spans, and those of them that SQL does not pass."""
    root = simplify(parse(f"{{ {text} }}").root)
    assert isinstance(root, Pipeline)
    [element] = root.elements
    assert isinstance(element, Filter)
    reader, attributes = open_many(), list_attributes(root)
    every = read_all(tuple(attributes))
    is_chosen = evaluate(element.condition, every).is_true.tolist()
    keys = zip(every.column("trace_id").to_pylist(), every.column("span_id").to_pylist(), is_chosen, strict=True)
    chosen = [(trace, span) for trace, span, is_true in keys if is_true]
    passed = reader.read(attributes, WINDOW, narrow(element.condition), TREE)
    known = set(zip(passed.column("trace_id").to_pylist(), passed.column("span_id").to_pylist(), strict=True))
    return len(chosen), [one for one in chosen if one not in known]


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(condition=queries.conditions())
def test_conditions_only_narrow(condition: queries.Node) -> None:
    """No span that fulfils a condition is kept from being read."""
    text = queries.write(condition)
    assert list_missed(text)[1] == [], text


@pytest.mark.parametrize("symbol", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("value", ["1", "1.0", "0.25", '"x"', "5ms"])
@pytest.mark.parametrize("field", ["span.a", ".b", "event.a", "link.c"])
def test_comparisons_of_attributes(field: str, symbol: str, value: str) -> None:
    """Comparisons with integers, floats, texts and elements of arrays pass what equals the constant."""
    count, missed = list_missed(f"{field} {symbol} {value}")
    assert missed == []
    assert list_missed(f"{value} {symbol} {field}")[1] == []
    assert count or symbol == "=" or value == "5ms"


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ('name = "get"', "operation_name = ?"),
        ("status = error && duration > 1ms", "(status_code = ? AND duration_ms >= ?)"),
        ('span:id = "0000000000000001"', "span_id = unhex('0000000000000001')"),
        ("nestedSetParent < 0", "parent_span_id IS NULL"),
        ('resource.service.name = "cart"', "(service_name = ? OR starts_with(service_name, '['))"),
        ("span.a = 1 || traceDuration > 1s", None),
        ("!(span.a = 1)", None),
    ],
)
def test_columns_that_prune_files(text: str, sql: str | None) -> None:
    """Intrinsics compare their columns as they are, and what SQL can't express narrows nothing."""
    root = simplify(parse(f"{{ {text} }}").root)
    assert isinstance(root, Pipeline)
    element = root.elements[0]
    assert isinstance(element, Filter)
    found = narrow(element.condition)
    assert (None if found is None else found.text) == sql
