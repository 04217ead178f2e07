"""What of Neve's own telemetry has become durable in a receiver's zone, and what was counted on the way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY

from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.raw.compression import decompress_payload
from neve.raw.frame import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api.running import Running

KINDS = {Signal.TRACES: Kind.TRACES, Signal.LOGS: Kind.LOGS}
PATIENCE_SECONDS = 600.0


def address(running: Running) -> str:
    """Where a receiver is."""
    return f"http://127.0.0.1:{running.http_port}"


def landed(running: Running, signal: Signal) -> list[dict[str, Any]]:
    """The rows that ingestion would make of what is in the zone."""
    frames = [frame for frame in running.frames() if frame.kind is KINDS[signal]]
    decoded = decode(
        signal, [decompress_payload(frame.payload, frame.packing) for frame in frames], Intake("acme", time.time_ns())
    )
    assert not decoded.rejected
    rows: list[dict[str, Any]] = decoded.batch.to_pylist(maps_as_pydicts="strict")
    return rows


def counted(name: str, **labels: str) -> float:
    """What this process has counted."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)
