"""Trace summaries and the service map equal a computation from scratch, whatever came late or never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.model.signals import Signal
from neve.traces.config import TracesConfig
from neve.traces.job import TraceAssembler
from tests.compact.tables import documents_in
from tests.empty_tables import create_empty_tables
from tests.explore.traces import list_attributes, pack_spans, span_id
from tests.query.lakes import ACME, NOW, OTHER, fork_lake, put, settings_of
from tests.traces.plain import PlainSpan, by_trace, count_calls, summarize

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 10**9
ATTRIBUTES: tuple[dict[str, str], ...] = (
    {},
    {"peer.service": "bank"},
    {"db.system": "postgresql"},
    {"db.system": "redis", "peer.service": "cache"},
    {"messaging.destination.name": "orders"},
    {"sampling.adjusted_count": "4"},
)


@st.composite
def make_traces(draw: st.DrawFn) -> list[list[PlainSpan]]:
    """Return spans in the order of their arrival, by commit. Parents may come later, or never."""
    batches: list[list[PlainSpan]] = [[], [], []]
    for trace in range(draw(st.integers(1, 4))):
        organization = draw(st.sampled_from((ACME, OTHER)))
        count = draw(st.integers(1, 7))
        for number in range(1, count + 1):
            parent = draw(st.none() | st.integers(1, count + 1))  # some parents do not exist, some are no ancestors
            start = NOW + draw(st.integers(0, 500)) * SECOND
            length = draw(st.sampled_from((None, 0, 1, 30 * SECOND, 200 * SECOND, 37_000_001)))
            span = PlainSpan(
                organization,
                bytes([trace + 1]) * 16,
                number,
                parent,
                draw(st.sampled_from(("web", "cart", "pay"))),
                f"operation {number}",
                draw(st.integers(0, 5)),
                draw(st.integers(0, 2)),
                start,
                0 if length is None else start + length,
                draw(st.sampled_from(ATTRIBUTES)),
            )
            batches[draw(st.integers(0, 2))].append(span)
    return [batch for batch in batches if batch]


def send(lake: Lake, spans: list[PlainSpan]) -> None:
    """Commit spans, those of each organization at once."""
    for organization in sorted({one.organization for one in spans}):
        services: dict[str, list[Span]] = {}
        for one in spans:
            if one.organization == organization:
                services.setdefault(one.service, []).append(encode(one))
        put(lake, organization, Signal.TRACES, pack_spans(services), batch=uuid4().hex)


def encode(one: PlainSpan) -> Span:
    """Return a span as OTLP."""
    return Span(
        trace_id=one.trace,
        span_id=span_id(one.number),
        parent_span_id=b"" if one.parent is None else span_id(one.parent),
        name=one.name,
        kind=one.kind,  # type: ignore[arg-type]  # the enum is a number on the wire
        start_time_unix_nano=one.start,
        end_time_unix_nano=one.end,
        status=Status(code=one.status),  # type: ignore[arg-type]
        attributes=list_attributes(one.attributes),
    )


def stored_summaries(lake: Lake) -> dict[tuple[str, bytes], dict[str, Any]]:
    """Return the rows of the table of traces, in the form of the plain ones."""
    rows = lake.table("trace_summaries").scan().to_arrow().to_pylist()
    found = {
        (row["organization_id"], row["trace_id"]): {
            "root": tuple(row[f"root_{name}"] for name in ("service_name", "operation_name", "status_code")),
            "duration_ms": row["duration_ms"],
            "counts": (row["span_count"], row["error_count"], row["missing_parents"]),
            "times": tuple(
                row[name] for name in ("start_time_unix_nano", "end_time_unix_nano", "last_start_unix_nano")
            ),
            "services": {
                one["service_name"]: (one["spans"], one["errors"], one["critical_path_nano"]) for one in row["services"]
            },
        }
        for row in rows
    }
    assert len(found) == len(rows)
    return found


def stored_edges(lake: Lake) -> dict[tuple[str, int, str, str, str], dict[str, Any]]:
    """Return the service map by minute, summed over the minutes of traces, in the form of the plain one."""
    found: dict[tuple[str, int, str, str, str], dict[str, Any]] = {}
    for row in lake.table("service_edges").scan().to_arrow().to_pylist():
        minute = int(row["timestamp"].timestamp()) * SECOND
        key = (row["organization_id"], minute, row["client"], row["server"], row["connection_type"])
        total = found.setdefault(
            key, {"calls": 0, "errors": 0, "weight": 0.0, "failed": 0.0, "client": {}, "server": {}}
        )
        for name, column in (("weight", "estimated_calls"), ("failed", "estimated_errors")):
            total[name] += row[column]
        for name in ("calls", "errors"):
            total[name] += row[name]
        for side in ("client", "server"):
            for bucket, weight in row[f"{side}_buckets"] or ():
                total[side][bucket] = total[side].get(bucket, 0.0) + weight
    return found


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Callable[[], Lake]:
    """Return a function that makes an empty lake with a catalog of its own."""
    said = settings_of(tmp_path_factory.mktemp("lake"))
    made = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(made)
    return lambda: fork_lake(made, tmp_path_factory.mktemp("fork"))


@pytest.mark.slow
@given(make_traces(), st.booleans())
@settings(max_examples=20, phases=(Phase.explicit, Phase.generate))  # shrinking takes minutes
def test_equal(
    fork: Callable[[], Lake], tmp_path_factory: pytest.TempPathFactory, batches: list[list[PlainSpan]], is_small: bool
) -> None:
    """After each commit, both tables have what all spans so far give."""
    lake = fork()
    config = TracesConfig(chunk_spans=1 if is_small else 1000, threads=1)
    job = TraceAssembler(lake, config, documents_in(tmp_path_factory.mktemp("state")))
    arrived: list[PlainSpan] = []
    for batch in batches:
        arrived += batch
        send(lake, batch)
        job.run()
        assert stored_summaries(lake) == {key: summarize(spans) for key, spans in by_trace(arrived).items()}
        assert stored_edges(lake) == count_calls(arrived)
