"""The OpenTelemetry collector, and telemetrygen, which makes traffic for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.parts import cache
from tests.parts.probe import listens
from tests.parts.process import HOST, Part, running, scratch

VERSION = "0.160.0"
TELEMETRYGEN_VERSION = "0.161.0"
MANIFEST = Path(__file__).with_name("collector.builder.yaml")
WITHOUT_METRICS_PORT = "--set=service.telemetry.metrics.level=none"


@dataclass(frozen=True)
class Collector:
    """A running collector, the port it was awaited on, and the log in which it says what it does."""

    port: int
    log: Path
    host: str = HOST

    @property
    def uri(self) -> str:
        """The address as OTLP/HTTP clients read it."""
        return f"http://{self.host}:{self.port}"


def missing() -> str | None:
    """Say why the collector can't run here, or None when it can."""
    return None if program().exists() else "collector: not in the cache (python -m tests.parts.build collector)"


def missing_telemetrygen() -> str | None:
    """Say why telemetrygen can't run here, or None when it can."""
    found = telemetrygen().exists()
    return None if found else "telemetrygen: not in the cache (python -m tests.parts.build telemetrygen)"


@contextmanager
def collector(config: str, port: int) -> Iterator[Collector]:
    """Run the collector with a YAML configuration whose receiver listens on `port`; its own metrics port stays shut."""
    with scratch("collector") as folder:
        path = folder / "config.yaml"
        path.write_text(config)
        command = [str(program()), f"--config={path}", WITHOUT_METRICS_PORT]
        part = Part("collector", command, partial(listens, port), folder)
        with running(part):
            yield Collector(port, part.log)


def program() -> Path:
    """Return where the cache keeps the collector."""
    return cache.place("otelcol", VERSION) / "otelcol"


def telemetrygen() -> Path:
    """Return where the cache keeps telemetrygen."""
    return cache.place("telemetrygen", TELEMETRYGEN_VERSION) / "telemetrygen"
