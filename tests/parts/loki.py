"""Loki with its OTLP receiver, the oracle for LogQL, and logcli, its command-line client."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.parts import cache, golang
from tests.parts.process import HOST, Part, PartError, free_ports, running, scratch

NAME = "loki"
CLIENT = "logcli"
VERSION = "3.7.8"
MODULE = "github.com/grafana/loki/v3"
REPLACEMENTS = (  # those of Loki's own go.mod that don't name a folder
    "github.com/Azure/azure-sdk-for-go => github.com/Azure/azure-sdk-for-go v68.0.0+incompatible",
    "github.com/Azure/azure-storage-blob-go => "
    "github.com/MasslessParticle/azure-storage-blob-go v0.14.1-0.20240322194317-344980fda573",
    "github.com/gocql/gocql => github.com/grafana/gocql v0.0.0-20200605141915-ba5dc39ece85",
    "github.com/hashicorp/memberlist => github.com/grafana/memberlist v0.3.1-0.20251126142931-6f9f62ab6f86",
    "github.com/grafana/regexp => github.com/grafana/regexp v0.0.0-20240518133315-a468a5bfb3bc",
    "github.com/influxdata/go-syslog/v3 => github.com/leodido/go-syslog/v4 v4.3.0",
    "github.com/thanos-io/objstore => github.com/grafana/objstore v0.0.0-20250728171719-b5d3b766d1b0",
)


def program(name: str = NAME) -> Path:
    """Return where the cache keeps a program: the server, or the client."""
    return cache.place(NAME, VERSION) / name


def missing() -> str | None:
    """Say why the server can't run here, or None when it can."""
    return None if program().exists() else f"{NAME}: not in the cache (python -m tests.parts.build {NAME})"


def make(into: Path) -> None:
    """Build both programs in one folder of the cache.

    A module of our own requires Loki's, which has replacements and can't be installed.
    """
    work = into.parent
    replacements = "".join(f"replace {each}\n" for each in REPLACEMENTS)
    (work / "go.mod").write_text(f"module neve.test/{NAME}\n\ngo 1.26\n\nrequire {MODULE} v{VERSION}\n\n{replacements}")
    for name in (NAME, CLIENT):
        golang.build(f"{MODULE}/cmd/{name}", into / name, work, "netgo")


def write_config(folder: Path, port: int, grpc_port: int) -> str:
    """Return a configuration for one process that takes lines of any age and calls nobody."""
    return f"""\
auth_enabled: false
analytics:
  reporting_enabled: false
server:
  http_listen_address: {HOST}
  http_listen_port: {port}
  grpc_listen_address: {HOST}
  grpc_listen_port: {grpc_port}
  log_level: warn
  http_server_read_timeout: 600s
  http_server_write_timeout: 600s
  grpc_server_max_recv_msg_size: 104857600
  grpc_server_max_send_msg_size: 104857600
common:
  instance_addr: {HOST}
  path_prefix: {folder}
  replication_factor: 1
  ring:
    kvstore:
      store: inmemory
  storage:
    filesystem:
      chunks_directory: {folder}/chunks
      rules_directory: {folder}/rules
schema_config:
  configs:
    - from: 2020-01-01
      store: tsdb
      object_store: filesystem
      schema: v13
      index:
        prefix: index_
        period: 24h
ingester:
  max_chunk_age: 10000h
  chunk_idle_period: 10000h
querier:
  query_ingesters_within: 0
query_range:
  parallelise_shardable_queries: false
  cache_results: false
limits_config:
  reject_old_samples: false
  creation_grace_period: 100000h
  volume_enabled: true
  split_queries_by_interval: 0
  max_query_length: 0
  max_query_series: 100000
  max_entries_limit_per_query: 100000
  query_timeout: 600s
  ingestion_rate_mb: 1000
  ingestion_burst_size_mb: 1000
  per_stream_rate_limit: 1GB
  per_stream_rate_limit_burst: 1GB
"""


@dataclass(frozen=True)
class Loki:
    """A running server."""

    port: int
    pid: int
    folder: Path

    @property
    def uri(self) -> str:
        """Return its address."""
        return f"http://{HOST}:{self.port}"

    def send(self, body: bytes) -> None:
        """Send an OTLP request of logs. Raises `PartError` if a line is rejected."""
        headers = {"content-type": "application/x-protobuf"}
        status, answer = request(self.port, "POST", "/otlp/v1/logs", body, headers)
        if status not in {200, 204}:
            raise PartError(f"the request was rejected: status={status}\n{answer.decode(errors='replace')}")


@contextmanager
def loki(kept: Path | None = None) -> Iterator[Loki]:
    """Run a server with an empty store, or with that of a folder, which is kept."""
    with ExitStack() as stack:
        folder = kept or stack.enter_context(scratch(NAME))
        folder.mkdir(parents=True, exist_ok=True)
        port, grpc_port = free_ports(2)
        (folder / "loki.yaml").write_text(write_config(folder, port, grpc_port))
        command = [str(program()), f"-config.file={folder / 'loki.yaml'}", "-target=all"]
        with running(Part(NAME, command, lambda: _is_ready(port), folder)) as process:
            yield Loki(port, process.pid, folder)


def _is_ready(port: int) -> bool:
    return request(port, "GET", "/ready")[0] == 200


def request(
    port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Send a request, and return status and body."""
    connection = http.client.HTTPConnection(HOST, port, timeout=600)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
