"""Search of Jaeger's API: the same traces as plain Python finds over single spans."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.jaeger.parameters import Parameters
from neve.traceql.search import find_traces
from tests.traceql.plain_traces import BASE, KEYS, MS, NAMES, SERVICES, PlainSpan, open_random, random_spans

pytestmark = pytest.mark.slow

VALUES = ("x", "y", "xy", "", "true", "false", "1", "2", "-3", "0.25", "1.5", "0")
STATUSES = ("UNSET", "OK", "ERROR")
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")


def is_equal(value: Any, text: str) -> bool:
    """Return whether a tag's text matches a value: of a list, any of its elements."""
    if isinstance(value, list):
        return any(is_equal(one, text) for one in value)
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, str):
        return bool(value == text)
    try:
        return bool(float(text) == value)
    except ValueError:
        return False


def has_tag(span: PlainSpan, name: str, text: str) -> bool:
    """Return whether a span has a tag."""
    if name == "span.kind":
        return KINDS[span.kind] == text
    if name == "otel.status_code":
        return STATUSES[span.status] == text
    pairs = [span.attributes, span.resource, span.scope, *(one for _, _, one in span.events)]
    if name == "error" and text == "true" and span.status == 2:
        return True
    if name == "event" and any(event == text for _, event, _ in span.events):
        return True
    return any(name in one and is_equal(one[name], text) for one in pairs)


tags = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2)
own_tags = st.sampled_from(
    [{}, {"error": "true"}, {"span.kind": "server"}, {"otel.status_code": "OK"}, {"event": "get"}, {"event": "put"}]
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    seed=st.integers(0, 100),
    service=st.sampled_from(SERVICES),
    operation=st.sampled_from(("", *NAMES)),
    wanted=tags,
    own=own_tags,
    durations=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    bounds=st.tuples(st.integers(0, 60), st.integers(1, 40)),
)
def test_search_finds_what_plain_python_finds(
    seed: int,
    service: str,
    operation: str,
    wanted: dict[str, str],
    own: dict[str, str],
    durations: tuple[int, int],
    bounds: tuple[int, int],
) -> None:
    """A trace is found exactly if one of its spans in the range fulfils every condition."""
    wanted = wanted | own
    low, high = min(durations), max(durations)
    start, end = bounds[0], bounds[0] + bounds[1]
    expected = {
        one.trace
        for one in random_spans(seed)
        if start <= one.start < end
        and one.service == service
        and operation in {"", one.name}
        and low <= one.duration <= high
        and all(has_tag(one, name, text) for name, text in wanted.items())
    }
    pairs = [
        *(("service", service), ("operation", operation), ("tags", json.dumps(wanted))),
        *(("minDuration", f"{low}ms"), ("maxDuration", f"{high}ms")),
        *(("start", str((BASE + start * MS) // 1000)), ("end", str((BASE + end * MS) // 1000))),
    ]
    parameters = Parameters(pairs, now_ns=0)
    found = find_traces(open_random(seed), parameters.query(), parameters.window(), 100, 1)
    assert {int.from_bytes(one.trace_id, "big") for one in found} == expected
