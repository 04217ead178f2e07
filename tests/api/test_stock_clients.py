"""The senders that people have: telemetrygen, and a collector."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.raw.frame import Kind
from neve.receive.budget import Budget
from neve.receive.receiver import unpack
from tests.api.running import HOST, Running
from tests.parts.collector import collector
from tests.parts.process import free_port

COUNT = 40
KINDS = {Kind.TRACES: Signal.TRACES, Kind.LOGS: Signal.LOGS, Kind.METRICS: Signal.METRICS}


def generate(program: Path, kind: str, endpoint: str, *options: str) -> None:
    """Send telemetry with telemetrygen."""
    amount = ["--traces" if kind == "traces" else f"--{kind}", str(COUNT)]
    command = [str(program), kind, "--otlp-insecure", "--otlp-endpoint", endpoint, "--rate", "0", *amount, *options]
    subprocess.run(command, check=True, capture_output=True, timeout=600)


def records(receiver: Running) -> dict[Signal, int]:
    """How many records the zone holds."""
    found = dict.fromkeys(Signal, 0)
    for frame in receiver.frames():
        message = unpack(frame.payload, frame.packing, 2**26, Budget(2**30).hold())
        decoded = decode(KINDS[frame.kind], [message], Intake(frame.organization_id, frame.received_unix_nano))
        assert not decoded.rejected
        found[KINDS[frame.kind]] += decoded.batch.num_rows
    return found


@pytest.mark.parts
@pytest.mark.parametrize("kind", ["traces", "logs", "metrics"])
def test_telemetrygen_over_both_protocols(start: Callable[..., Running], telemetrygen_binary: Path, kind: str) -> None:
    """Each record that it sends is in the zone."""
    receiver = start()
    generate(telemetrygen_binary, kind, f"{HOST}:{receiver.grpc_port}")
    generate(telemetrygen_binary, kind, f"{HOST}:{receiver.http_port}", "--otlp-http")
    each = 2 if kind == "traces" else 1  # a trace has a client's span and a server's
    assert records(receiver)[Signal(kind)] == 2 * COUNT * each


@pytest.mark.parts
def test_a_collector_hands_everything_on(
    start: Callable[..., Running], collector_binary: Path, telemetrygen_binary: Path
) -> None:
    """Over gRPC with gzip, and over HTTP with zstd."""
    assert collector_binary.exists()
    receiver, port = start(), free_port()
    config = f"""
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "{HOST}:{port}"}}
exporters:
  otlp_grpc: {{endpoint: "{HOST}:{receiver.grpc_port}", compression: gzip, tls: {{insecure: true}}}}
  otlp_http: {{endpoint: "http://{HOST}:{receiver.http_port}", compression: zstd}}
service:
  pipelines:
    traces: {{receivers: [otlp], exporters: [otlp_grpc, otlp_http]}}
"""
    with collector(config, port):
        generate(telemetrygen_binary, "traces", f"{HOST}:{port}")
    assert records(receiver)[Signal.TRACES] == 2 * COUNT * 2
