"""Prometheus with its OTLP receiver: the oracle for PromQL."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.parts import cache, promtool
from tests.parts.process import HOST, Part, PartError, free_port, running, scratch

NAME = "prometheus"
FEATURES = (
    "exemplar-storage",
    "otlp-deltatocumulative",
    "promql-delayed-name-removal",
    "promql-duration-expr",
    "promql-experimental-functions",
    "promql-per-step-stats",
)
CONFIG = """\
otlp:
  promote_all_resource_attributes: true
storage:
  exemplars:
    max_exemplars: 100000
"""


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    port: int

    @property
    def uri(self) -> str:
        """Return its address."""
        return f"http://{HOST}:{self.port}"

    def send(self, body: bytes) -> None:
        """Send an OTLP request of metrics. Raises `PartError` if a sample is rejected."""
        headers = {"content-type": "application/x-protobuf"}
        status, answer = _request(self.port, "POST", "/api/v1/otlp/v1/metrics", body, headers)
        if status != 200:
            raise PartError(f"the request was rejected: status={status}\n{answer.decode(errors='replace')}")


def missing() -> str | None:
    """Say why the server can't run here, or None when it can."""
    return None if program().exists() else f"{NAME}: not in the cache (python -m tests.parts.build {NAME})"


def program() -> Path:
    """Return where the cache keeps the program."""
    return cache.place(NAME, promtool.VERSION) / NAME


def make(into: Path) -> None:
    """Build the program in its folder of the cache."""
    promtool.build_command(NAME, into)


@contextmanager
def prometheus() -> Iterator[Prometheus]:
    """Run a server with an empty store."""
    with scratch(NAME) as folder:
        port = free_port()
        (folder / "prometheus.yml").write_text(CONFIG)
        command = [
            str(program()),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={HOST}:{port}",
            "--web.enable-otlp-receiver",
            f"--enable-feature={','.join(FEATURES)}",
            "--log.level=warn",
        ]
        with running(Part(NAME, command, lambda: _is_ready(port), folder)):
            yield Prometheus(port)


def _is_ready(port: int) -> bool:
    return _request(port, "GET", "/-/ready")[0] == 200


def _request(
    port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
