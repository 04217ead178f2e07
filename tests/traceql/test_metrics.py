"""Metrics: the same series as plain Python computes from the spans of whole traces."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.errors import LimitExceeded
from neve.traceql.language.parser import parse
from neve.traceql.metrics import engine
from neve.traceql.metrics.engine import evaluate_metrics
from neve.traceql.metrics.intervals import Intervals
from tests.traceql import oracle, queries
from tests.traceql.plain_traces import BASE, MS, PlainSpan, open_random, open_spans, random_spans

if TYPE_CHECKING:
    from neve.traceql.metrics.series import Series
    from neve.traceql.storage.span_reader import SpanReader

STEP = 20 * MS
FUNCTIONS = ("rate", "count_over_time", "min_over_time", "max_over_time", "avg_over_time", "sum_over_time")
FEW = (
    PlainSpan(1, 1, None, 0, 10, name="get", attributes={"size": 3}),
    PlainSpan(1, 2, 1, 1, 30, name="put", status=2, attributes={"size": 5}),
    PlainSpan(2, 1, None, 25, 20, name="get", service="pay"),
    PlainSpan(2, 2, 1, 26, 4, name="put", service="pay", attributes={"size": 4.5}),
)


def run(reader: SpanReader, text: str, start: int = 0, end: int = 100, exemplars: int = 0) -> list[Series]:
    """Evaluate metrics. Times are milliseconds after the first span."""
    intervals = Intervals.align(BASE + start * MS, BASE + end * MS, STEP)
    return evaluate_metrics(reader, parse(text), intervals, exemplars)


def simplify(series: list[Series]) -> dict[str, list[float]]:
    """Return values by labels."""
    return {
        ",".join(f"{name}={value}" for name, value in one.labels): [round(value, 9) for value in one.values.tolist()]
        for one in series
    }


def choose_spans(elements: list[queries.Node], spans: tuple[PlainSpan, ...]) -> list[tuple[PlainSpan, oracle.Trace]]:
    """Return the spans that a pipeline chooses, with their traces."""
    found = []
    for number in {one.trace for one in spans}:
        trace = oracle.Trace(sorted((one for one in spans if one.trace == number), key=lambda one: one.start))
        groups = oracle.run(elements, [oracle.Group(trace.spans)], trace)
        found += [(span, trace) for group in groups for span in group.spans]
    return found


def expect(
    function: str,
    field: queries.Node,
    by: list[queries.Node],
    chosen: list[tuple[PlainSpan, oracle.Trace]],
    bounds: tuple[int, int],
) -> dict[str, list[float]]:
    """Compute series in plain Python."""
    first, last = (BASE + bounds[0] * MS) // STEP, -(-(BASE + bounds[1] * MS) // STEP)
    cells: dict[str, list[list[float]]] = defaultdict(lambda: [[] for _ in range(last - first + 1)])
    for span, trace in chosen:
        value = oracle.first(oracle.read_field(field, span, trace))
        number = value[1] / 1e9 if value[0] == "duration" else value[1]
        place = math.ceil((span.start_ns - (first - 1) * STEP) / STEP) - 1
        is_counted = function in {"rate", "count_over_time"} or value[0] in oracle.NUMBERS
        if is_counted and 0 <= place <= last - first:
            cells[label(by, span, trace) or f'__name__="{function}"'][place].append(number)
    if not cells and not by and function in {"rate", "count_over_time"}:
        cells[f'__name__="{function}"'] = [[] for _ in range(last - first + 1)]
    return {name: [round(reduce(function, one), 9) for one in steps] for name, steps in cells.items()}


def label(by: list[queries.Node], span: PlainSpan, trace: oracle.Trace) -> str:
    """Return the labels of a span's series."""
    pairs = [(queries.write(one), oracle.first(oracle.read_field(one, span, trace))) for one in by]
    kept = [pair for pair in pairs if pair[1] != oracle.NIL] or pairs[:1]
    return ",".join(f"{name}={'nil' if value == oracle.NIL else queries.write_constant(value)}" for name, value in kept)


def reduce(function: str, numbers: list[float]) -> float:
    """Compute one value."""
    if function == "count_over_time":
        return float(len(numbers))
    if function == "rate":
        return len(numbers) / (STEP / 1e9)
    if not numbers:
        return math.nan
    if function == "avg_over_time":
        return float(sum(numbers) / len(numbers))
    if function == "sum_over_time":
        return float(sum(numbers))
    return float(min(numbers) if function == "min_over_time" else max(numbers))


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    seed=st.integers(0, 100),
    elements=queries.pipelines(),
    function=st.sampled_from(FUNCTIONS),
    field=st.sampled_from([("intrinsic", "duration"), ("attribute", "span", "a"), ("attribute", "", "b")]),
    by=st.lists(
        st.sampled_from([("intrinsic", "name"), ("intrinsic", "status"), ("attribute", "resource", "service.name")]),
        max_size=2,
        unique=True,
    ),
    bounds=st.tuples(st.integers(0, 30), st.integers(30, 80)),
)
def test_series_are_those_of_plain_python(
    seed: int,
    elements: list[queries.Node],
    function: str,
    field: queries.Node,
    by: list[queries.Node],
    bounds: tuple[int, int],
) -> None:
    """Functions over time of the spans of any pipeline give the same values in the same intervals."""
    given_field = "" if function in {"rate", "count_over_time"} else queries.write(field)
    groups = f" by ({', '.join(map(queries.write, by))})" if by else ""
    text = f"{queries.write_pipeline(elements)} | {function}({given_field}){groups}"
    expected = expect(function, field, by, choose_spans(elements, random_spans(seed)), bounds)
    found = simplify(run(open_random(seed), text, *bounds))
    assert repr(dict(sorted(found.items()))) == repr(dict(sorted(expected.items()))), text


def test_intervals() -> None:
    """Intervals are open on the left, aligned to the step, and one is before the range."""
    intervals = Intervals.align(25, 41, 10)
    assert (intervals.start_ns, intervals.count) == (10, 4)
    assert intervals.find(np.array([10, 11, 20, 21, 50, 51])).tolist() == [-1, 0, 0, 1, 3, -1]


def test_quantiles_and_histograms() -> None:
    """Quantiles are exact, and buckets are powers of two."""
    reader = open_spans(FEW)
    found = simplify(run(reader, "{ } | quantile_over_time(duration, 0.5, 1)", 0, 20))
    assert [one for one in found["p=0.5"] if not math.isnan(one)] == [0.01, 0.03]
    found = simplify(run(reader, "{ span.size != nil } | histogram_over_time(span.size)", 0, 40))
    assert sorted(found) == ["__bucket=4.0", "__bucket=8.0"]
    assert sum(found["__bucket=8.0"]) == 2  # 5 and 4.5


def test_second_stages() -> None:
    """Rankings, comparisons and arithmetic work on series, interval by interval."""
    reader = open_spans(FEW)
    top = simplify(run(reader, "{ } | sum_over_time(duration) by (name) | topk(1)", 0, 40))
    assert [one for one in top['name="put"'] if not math.isnan(one)] == [0.03]
    assert not simplify(run(reader, "{ } | rate() by (name) > 1000", 0, 40))
    share = "({ status = error } | count_over_time()) / ({ } | count_over_time()) * 100"
    [values] = simplify(run(reader, share, 0, 20)).values()
    assert 100.0 in values  # the second span alone is in its interval
    by_name = simplify(run(reader, "({ } | count_over_time() by (name)) / ({ } | count_over_time())", 0, 40))
    assert set(by_name) == {'name="get"', 'name="put"'}


def test_compare() -> None:
    """Values of attributes are counted in the selection and in the other spans, with totals."""
    found = simplify(run(open_spans(FEW), "{ } | compare({ status = error })", 0, 40))
    counts = {name: sum(values) for name, values in found.items()}
    assert counts['__meta_type="selection",name="put"'] == 1
    assert counts['__meta_type="baseline",name="get"'] == 2
    assert counts['__meta_type="baseline",resource.service.name="pay"'] == 2
    assert counts['__meta_type="baseline_total",name=nil'] == 3
    assert counts['__meta_type="selection",span.size=5'] == 1
    limited = simplify(run(open_spans(FEW), "{ } | compare({ false }, 1)", 0, 40))
    assert '__meta_error="__too_many_values__",name=nil' in limited


def test_exemplars() -> None:
    """Exemplars have the id of their trace, their labels and their value."""
    [one] = [
        one
        for one in run(open_spans(FEW), "{ } | max_over_time(duration) by (name)", 0, 40, 5)
        if "put" in str(one.labels)
    ]
    assert [(each.value, each.labels[0][0]) for each in one.exemplars] == [(0.03, "trace:id"), (0.004, "trace:id")]


def test_shares_of_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many spans of whole traces are read in shares, with the same result."""
    text = "{ } >> { } | rate() by (name)"
    whole = simplify(run(open_random(3), text))
    monkeypatch.setattr(engine, "SHARE_SPANS", 1)
    assert simplify(run(open_random(3), text)) == whole


def test_limits() -> None:
    """A query that reads too many spans, or makes too many series, is refused with what to do."""
    with pytest.raises(LimitExceeded, match="too many spans"):
        run(open_spans(FEW, spans_left=2), "{ } | rate()")
    many = tuple(PlainSpan(1, number, None, number, 1, name=f"n{number}") for number in range(1, 30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neve.traceql.metrics.series.MAX_SERIES", 10)
        with pytest.raises(LimitExceeded, match="more than 10 series"):
            run(open_spans(many), "{ } | rate() by (name)")
