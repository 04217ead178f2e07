"""telemetrygen, which makes telemetry: a process for each signal and each way into a collector."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.model.signals import Signal
from tests.parts.collector import telemetrygen
from tests.parts.process import HOST

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

WORKERS = 2
RECORDS_EACH = {Signal.TRACES: 2, Signal.LOGS: 1, Signal.METRICS: 1}  # a trace has a client's span and a server's


@dataclass(frozen=True)
class Load:
    """So many records of a signal, as fast as this, to a port, from a service of this name."""

    signal: Signal
    records: int
    per_second: float
    port: int
    service: str

    @property
    def command(self) -> list[str]:
        """The command line; counts and rates are for each worker, and its own rate would be one a second."""
        each = WORKERS * RECORDS_EACH[self.signal]
        options = {
            "--otlp-endpoint": f"{HOST}:{self.port}",
            "--service": self.service,
            "--workers": WORKERS,
            "--rate": self.per_second / WORKERS,
            f"--{self.signal}": self.records // each,
        }
        flags = [text for name, value in options.items() for text in (name, str(value))]
        return [str(telemetrygen()), self.signal.value, "--otlp-insecure", *flags]


class Generators:
    """Running loads."""

    def __init__(self, loads: Iterable[Load], folder: Path) -> None:
        self._processes = {load: _start(load, folder) for load in loads}

    def finish(self, seconds: float) -> list[str]:
        """Wait for all of them; what went wrong."""
        return [trouble for load, process in self._processes.items() if (trouble := _wait(load, process, seconds))]

    def abandon(self) -> None:
        """End those that still run."""
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def _start(load: Load, folder: Path) -> subprocess.Popen[bytes]:
    with (folder / f"telemetrygen-{load.service}-{load.signal}.log").open("wb") as log:
        return subprocess.Popen(load.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def _wait(load: Load, process: subprocess.Popen[bytes], seconds: float) -> str | None:
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"telemetrygen for {load.signal} did not end in {seconds} seconds"
    return f"telemetrygen for {load.signal} ended with {code}" if code else None
