"""Real telemetry, where it stands beside the clone."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from neve.ingest.config import FieldsConfig
from neve.ingest.files.reader import ReadOptions, read_messages
from neve.model.signals import Signal
from neve.otlp import Intake, decode, encode
from tests.otlp.canonical import canonical
from tests.otlp.messages import CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTAKE = Intake(organization_id="acme", received_unix_nano=1_790_000_000_000_000_000)


@pytest.mark.parametrize(
    ("name", "signal"),
    [("trace", Signal.TRACES), ("logs", Signal.LOGS), ("events", Signal.LOGS), ("metrics", Signal.METRICS)],
)
def test_the_standards_own_examples_survive(shared_data: Path, name: str, signal: Signal) -> None:
    """The example messages of the OpenTelemetry protocol, from JSON to rows to protobuf."""
    [read] = read_messages(name, (shared_data / "otlp" / f"{name}.json").read_bytes(), ReadOptions(), FieldsConfig())
    assert read.signal is signal
    rows = decode(signal, read.messages, INTAKE)
    assert rows.rejected == ()
    [given] = read.messages.to_pylist()
    back, first = (CLASSES[signal].FromString(wire) for wire in (encode(signal, rows.batch), given))
    assert canonical(signal, back) == canonical(signal, first)


@pytest.mark.slow
def test_a_real_shops_spans_are_all_there(shared_data: Path) -> None:
    """85,000 spans of 1,882 traces, one OTLP JSON message a line."""
    data = gzip.decompress((shared_data / "tail" / "spans.otlp.jsonl.gz").read_bytes())
    [read] = read_messages("spans.otlp.jsonl", data, ReadOptions(), FieldsConfig())
    decoded = decode(Signal.TRACES, read.messages, INTAKE)
    assert decoded.rejected == ()
    assert decoded.batch.num_rows == data.count(b'"spanId"')
    assert len(set(decoded.batch.column("trace_id").to_pylist())) == 1882
    assert len(set(decoded.batch.column("record_id").to_pylist())) == len(set(_spans(data)))


def _spans(data: bytes) -> Iterator[str]:
    """Every span with its resource and scope as text; some were recorded twice, and only those are equal."""
    for line in data.splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    yield json.dumps([resource["resource"], scope["scope"], span])
