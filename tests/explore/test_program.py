"""Traces, their records, services and edges over a small lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from neve.errors import LimitExceeded, QueryCancelled
from neve.explore import edges as edges_module
from neve.explore.edges import read_edges
from neve.explore.source import MAX_EXACT, RecordSource
from neve.explore.trace import read_trace
from neve.model.signals import Signal
from neve.query.config import QueryConfig
from neve.query.engine.program import ProgramContext
from neve.query.request import Request, TimeRange
from neve.query.service import QueryService, no_limits
from tests.explore.traces import (
    CHECKOUT,
    HOSTILE,
    MS,
    ODD,
    SECRET,
    make_span,
    make_trace_lake,
    pack_spans,
    run_program,
    span_id,
)
from tests.query.lakes import ACME, NOW, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from neve.query.engine.program import StatementRequest


SAMPLED = "sampled"
# Attributes and trace state of a span, and the calls that it stands for.
STATED: tuple[tuple[dict[str, str], str, int], ...] = (
    ({"sampling.adjusted_count": "4"}, "", 4),
    ({}, "ot=th:c", 4),  # three quarters of the traces were not kept
    ({}, "a=b,ot=rv:12;th:8", 2),
    ({}, "ot=th:ffffffffffffff", 1),  # more than is believed
    ({"sampling.adjusted_count": "-3"}, "th=8", 1),
)


def make_sampled_spans() -> ExportTraceServiceRequest:
    """Return a span of a service for each statement of a sampler."""
    spans = {}
    for number, (attributes, state, _calls) in enumerate(STATED):
        span = make_span(100 + number, 0, bytes([number + 1]) * 16, kind=2, status=2, attributes=attributes)
        span.trace_state = state
        spans[f"service-{number}"] = [span]
    return pack_spans(spans)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[QueryService]:
    """The service over a lake with a checkout and an odd trace."""
    lake = make_trace_lake(tmp_path_factory.mktemp("lake"))
    odd = [
        make_span(1, 2, ODD, start=3, stop=4),
        make_span(2, 1, ODD, start=2, stop=1),
        make_span(3, 3, ODD, start=1, stop=1),
        make_span(4, 99, ODD, start=0, stop=None),
        make_span(5, 4, ODD, start=-(10**10), stop=-(10**10) + 1),
    ]
    put(lake, ACME, Signal.TRACES, pack_spans({"odd": odd}), batch="-odd")
    put(lake, SAMPLED, Signal.TRACES, make_sampled_spans())
    made = QueryService(lake, QueryConfig(), limits=no_limits)
    yield made
    made.close()


def open_source(service: QueryService, memory_bytes: int = 10**9) -> RecordSource:
    """Return a source of the records of acme."""

    def read(wanted: StatementRequest) -> pa.RecordBatchReader:
        bounds = TimeRange(wanted.since, wanted.until)
        running = service.start(Request(wanted.sql, ACME, parameters=wanted.parameters, time=bounds))
        return pa.RecordBatchReader.from_batches(running.schema, running.batches())

    return RecordSource(ProgramContext(read, memory_bytes))


def test_trace(service: QueryService) -> None:
    """A trace is columns: parents by index, offsets from the first start, names and services by index."""
    trace = run_program(service, answer="trace", trace_id=CHECKOUT.hex())
    spans = trace["spans"]
    assert (trace["start_unix_nano"], trace["duration_nano"]) == (str(NOW), 120 * MS)
    assert (trace["span_count"], trace["left_out"], trace["error_count"]) == (7, 0, 2)
    assert spans["parent"] == [-1, 0, 1, 2, 2, 2, 4]
    assert spans["start"] == [one * MS for one in (0, 10, 20, 30, 61, 63, 90)]
    assert spans["duration"] == [one * MS for one in (100, 70, 50, 30, 1, 1, 30)]
    assert [trace["services"][one] for one in spans["service"]] == ["web"] * 2 + ["payment"] * 4 + ["mailer"]
    assert trace["names"][spans["name"][2]] == HOSTILE
    assert spans["events"] == [0, 0, 1, 0, 0, 0, 0]
    assert {len(column) for column in spans.values()} == {7}


def test_odd_trace(service: QueryService) -> None:
    """Cycles, missing parents, unknown ends, and negative durations are kept; huge offsets are text."""
    trace = run_program(service, answer="trace", trace_id=ODD.hex())
    spans = trace["spans"]
    by_id = {one: place for place, one in enumerate(spans["span_id"])}
    place = [by_id[span_id(number).hex()] for number in range(1, 6)]
    assert [spans["parent"][one] for one in place] == [place[1], place[0], place[2], -2, place[3]]
    assert [spans["duration"][one] for one in place] == [MS, -MS, 0, None, MS]
    far = 10**10 * MS
    assert far > MAX_EXACT
    assert [spans["start"][one] for one in place] == [*(str(far + one * MS) for one in (3, 2, 1, 0)), 0]


def test_unknown_trace(service: QueryService) -> None:
    """A trace that is not stored, or belongs to another organization, has no spans, logs or decisions."""
    for trace_id in ("ab" * 16, SECRET.hex()):
        trace = run_program(service, answer="trace", trace_id=trace_id)
        assert (trace["span_count"], trace["names"], trace["duration_nano"]) == (0, [], 0)
        assert run_program(service, answer="span", trace_id=trace_id, span_id=span_id(1).hex())["spans"] == []
        assert run_program(service, answer="logs", trace_id=trace_id, limit=10)["logs"] == []
        assert run_program(service, answer="decisions", trace_id=trace_id)["decisions"] == []


def test_levels(service: QueryService) -> None:
    """Of a larger trace than allowed come the first levels, and the count of the rest."""
    trace = read_trace(CHECKOUT.hex(), open_source(service), most=3)
    assert (len(trace["spans"]["parent"]), trace["span_count"], trace["left_out"]) == (3, 7, 4)
    assert trace["spans"]["parent"] == [-1, 0, 1]
    whole = read_trace(CHECKOUT.hex(), open_source(service, memory_bytes=10_000), most=3)  # reads 5 spans
    assert (whole["span_count"], whole["left_out"]) == (7, 4)


def test_span(service: QueryService) -> None:
    """A span in full has attributes, events and times as text; long values are cut and say so."""
    [found] = run_program(service, answer="span", trace_id=CHECKOUT.hex(), span_id=span_id(3).hex())["spans"]
    assert (found["operation_name"], found["service_name"]) == (HOSTILE, "payment")
    assert found["start_time_unix_nano"] == str(NOW + 20 * MS)
    assert found["resource_attributes"] == {"service.name": "payment"}
    assert [one["name"] for one in found["events"]] == ["exception"]
    [long] = run_program(service, answer="span", trace_id=CHECKOUT.hex(), span_id=span_id(7).hex())["spans"]
    assert long["attributes"]["long"].endswith("x… (cut: it has 40000 characters)")
    assert len(long["attributes"]["long"]) < 17_000


def test_logs(service: QueryService) -> None:
    """Logs near the trace are found, of one span or of all, and a limit says how many are left out."""
    found = run_program(service, answer="logs", trace_id=CHECKOUT.hex(), limit=10)
    assert [one["message"] for one in found["logs"]] == ["started", HOSTILE]
    own = run_program(service, answer="logs", trace_id=CHECKOUT.hex(), span_id=span_id(3).hex(), limit=10)
    assert [one["message"] for one in own["logs"]] == [HOSTILE]
    first = run_program(service, answer="logs", trace_id=CHECKOUT.hex(), limit=1)
    assert (len(first["logs"]), first["left_out"]) == (1, 1)


def test_decisions(service: QueryService) -> None:
    """Every revision of a decision has its policy, its reason and its late spans."""
    found = run_program(service, answer="decisions", trace_id=CHECKOUT.hex())
    kinds = [(one["revision"], one["kind"], one["late_spans"]) for one in found["decisions"]]
    assert kinds == [(0, "decided", 0), (1, "late", 2)]
    assert {one["policy"] for one in found["decisions"]} == {"errors"}
    assert found["open"] == []


def test_services(service: QueryService) -> None:
    """Services count the requests that enter them, operations all spans; one service can be chosen."""
    found = run_program(service, answer="services", since="2025-01-01T00:00:00Z", until="2025-12-01T00:00:00Z")
    by_name = {one["service"]: one for one in found["services"]}
    assert {name: (one["spans"], one["calls"], one["errors"]) for name, one in by_name.items() if name != "odd"} == {
        "web": (2, 1, 1),
        "payment": (4, 1, 1),
        "mailer": (1, 1, 0),
    }
    assert by_name["web"]["p95_ms"] == 100.0
    assert found["seconds"] == 334 * 86_400
    only = run_program(service, answer="services", service="payment")
    assert {one["service"] for one in (*only["services"], *only["operations"])} == {"payment"}
    assert {one["operation"] for one in only["operations"]} == {HOSTILE, "operation 4", "operation 5", "operation 6"}
    assert run_program(service, answer="services", until="2025-01-01T00:00:00Z")["services"] == []


def test_edges(service: QueryService) -> None:
    """Calls are pairs of spans; databases, queues, peers and users without spans are named by attributes."""
    found = run_program(service, answer="edges")
    assert {(one["client"], one["server"], one["connection"], one["errors"]) for one in found["edges"]} == {
        ("user", "web", "virtual_node", 1),
        ("web", "payment", "", 1),
        ("payment", "cards", "database", 0),
        ("payment", "fraud", "virtual_node", 0),
        ("payment", "mailer", "messaging_system", 0),
    }
    assert (found["share"], found["more_edges"]) == (1.0, False)


def test_edges_of_sampled_spans(service: QueryService) -> None:
    """A stored span stands for the calls that its attribute or its threshold states; nonsense counts as one call."""
    edges = {one["server"]: one for one in run_program(service, organization=SAMPLED, answer="edges")["edges"]}
    for number, (_attributes, _state, calls) in enumerate(STATED):
        edge = edges[f"service-{number}"]
        assert (edge["calls"], edge["estimated_calls"], edge["estimated_errors"]) == (1, calls, calls), number


def test_share_of_traces(service: QueryService) -> None:
    """Above a number of spans, a share of the traces is counted, and the counts are scaled."""
    half = read_edges(open_source(service), most=7)
    assert half["share"] < 1
    assert half["edges"] == []
    most = read_edges(open_source(service), most=int(np.ceil(half["spans"] * 0.9)))
    assert {one["calls"] for one in most["edges"]} == {1}
    assert 0.8 < most["share"] < 1


def test_bounded_edges(service: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    """More edges than allowed are left out, and the answer says so."""
    monkeypatch.setattr(edges_module, "MAX_EDGES", 2)
    found = read_edges(open_source(service))
    assert (len(found["edges"]), found["more_edges"]) == (2, True)


def test_memory(service: QueryService) -> None:
    """Records that are larger than the memory of the query are refused."""
    with pytest.raises(LimitExceeded, match="larger than"):
        run_program(service, memory_bytes=100, answer="span", trace_id=CHECKOUT.hex(), span_id=span_id(7).hex())


def test_interrupt(service: QueryService) -> None:
    """A cancelled request stops between batches."""

    def check() -> Any:
        raise QueryCancelled("the query was cancelled")

    with pytest.raises(QueryCancelled):
        run_program(service, check=check, answer="services")
