"""Search: the same traces, spansets and values as plain Python finds over whole traces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.traceql import search as search_module
from neve.traceql.language.parser import parse
from neve.traceql.search import find_traces, search
from neve.traceql.storage.span_reader import SpanReader, Window
from tests.traceql import oracle, queries
from tests.traceql.plain_traces import BASE, MS, open_random, random_spans

pytestmark = pytest.mark.slow


def find(text: str, reader: SpanReader, start: int, end: int) -> dict[int, list[Any]]:
    """Return the answer of the package in the form of the oracle."""
    found = search(reader, parse(text), Window(start, end), 1000, 1000)
    return {
        int.from_bytes(trace.trace_id, "big"): [
            (
                [(int.from_bytes(span.span_id, "big"), span.start_ns) for span in one.spans],
                tuple((name, (value.type.name.lower(), value.value)) for name, value in one.values),
            )
            for one in trace.spansets
        ]
        for trace in found
    }


def plain(found: dict[int, list[Any]]) -> str:
    """Return an answer that compares: NaN is equal to itself, and labels of arrays are not compared."""
    return repr(
        {
            trace: [
                (spans, [(name, value if value[0] != "array" else "array") for name, value in labels])
                for spans, labels in sets
            ]
            for trace, sets in sorted(found.items())
        }
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(seed=st.integers(0, 100), elements=queries.pipelines(), bounds=st.tuples(st.integers(0, 60), st.integers(1, 40)))
def test_search_finds_what_plain_python_finds(seed: int, elements: list[queries.Node], bounds: tuple[int, int]) -> None:
    """Filters, structures, groups and aggregates give the same spansets, with conditions in SQL or without."""
    text = queries.write_pipeline(elements)
    start = BASE + bounds[0] * MS
    end = start + bounds[1] * MS
    expected = oracle.search(elements, random_spans(seed), start, end)
    assert plain(find(text, open_random(seed), start, end)) == plain(expected), text


def test_rare_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search without candidates reaches the start of its time range in a few statements."""
    window = Window(0, 10**12)
    counts: list[int] = []

    def find_recent(_reader: object, _condition: object, given: Window, count: int) -> Window:
        counts.append(count)
        return given if count > 10**7 else Window(given.end_ns - count, given.end_ns)

    monkeypatch.setattr(search_module, "find_recent", find_recent)
    reader = SimpleNamespace(find_traces=lambda *_given, **_named: [])
    query = parse('{ span.user.id = "nobody" }')
    assert find_traces(cast("Any", reader), query, window, 20, 3) == []
    assert len(counts) <= 6
    assert counts == sorted(set(counts))
