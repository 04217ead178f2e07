"""A lake with six minutes of the demo's shop and its incident, made without a JVM, and `neve serve` over it."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import yaml
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from neve.demo import generate
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from tests.empty_tables import create_empty_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from neve.demo import Telemetry

ORGANIZATION = "default"
START = 1_770_026_400_000_000_000  # 2026-02-02 10:00:00
MINUTES = 6
BEGINNING, END = "2026-02-02T10:00:00.000Z", "2026-02-02T10:06:00.000Z"
RANGE = f"from={BEGINNING}&to={END}"  # the address of the whole run


@dataclass(frozen=True)
class DemoLake:
    """A lake, the folder of its configuration, and the ground truth of its telemetry."""

    folder: Path
    lake: Lake
    telemetry: Telemetry

    def write_config(self, name: str, **sections: Any) -> Path:
        """Write a configuration of this lake; `sections` add to it."""
        path = self.folder / f"{name}.yaml"
        own = {
            "lake": {"warehouse": str(self.folder / "warehouse")},
            "catalog": {"path": str(self.folder / "catalog.db")},
            "state": {"path": str(self.folder / f"{name}.state.db")},
            "raw": {"location": str(self.folder / f"{name}.raw")},
        }
        path.write_text(yaml.safe_dump(own | sections))
        return path

    def commit(self, signal: Signal, messages: Sequence[bytes], batch: str, organization: str = ORGANIZATION) -> None:
        """Decode messages and commit their records."""
        decoded = decode(signal, list(messages), Intake(organization, START))
        assert decoded.rejected == ()
        table = self.lake.table(signal.table)
        files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
        append_once(table, files, batch_id=f"{organization}-{signal}-{batch}", operation="test")


def make_demo_lake(folder: Path) -> DemoLake:
    """Generate the shop and commit a file at a time, so that queries have files to leave out."""
    telemetry = generate(
        folder / "demo",
        seed=7,
        start_unix_nano=START,
        minutes=MINUTES,
        traces_per_minute=80,
        incident_minute=3,
        incident_minutes=2,
    )
    lake = Lake(
        LakeConfig(warehouse=str(folder / "warehouse")), CatalogConfig(name="neve", path=str(folder / "catalog.db"))
    )
    create_empty_tables(lake)
    made = DemoLake(folder, lake, telemetry)
    for path in sorted(telemetry.out.glob("traces/*.binpb")):
        made.commit(Signal.TRACES, [path.read_bytes()], path.name)
    for path in sorted(telemetry.out.glob("logs/*.json.gz")):
        made.commit(Signal.LOGS, [_parse_line(line) for line in _read_lines(path)], path.name)
    for path in sorted(telemetry.out.glob("metrics/*.binpb.zst")):
        made.commit(Signal.METRICS, [pa.input_stream(str(path), compression="zstd").read()], path.name)
    return made


def _read_lines(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()


def _parse_line(line: bytes) -> bytes:
    """Return a line of OTLP JSON, whose ids are hexadecimal, as protobuf."""
    document = json.loads(line)
    for resource in document["resourceLogs"]:
        for scope in resource["scopeLogs"]:
            for record in scope["logRecords"]:
                for name in ("traceId", "spanId"):
                    if record.get(name):
                        record[name] = _hex_to_base64(record[name])
    return ParseDict(document, ExportLogsServiceRequest()).SerializeToString()


def _hex_to_base64(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text)).decode()


@contextmanager
def serve_api(config: Path, port: int = 0, only: str = "api") -> Iterator[dict[str, Any]]:
    """Run `neve serve` with a configuration, and yield its addresses: `query` is that of the page."""
    command = [sys.executable, "-m", "neve", "-c", str(config), "serve", "--only", only]
    command += ["--query-port", str(port), "--health-port", "0", "--json"]
    with (
        (config.parent / f"{config.stem}.log").open("a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (config.parent / f"{config.stem}.log").read_text()[-2000:]
            yield json.loads(line)
        finally:
            process.terminate()


def format_time(nanoseconds: int) -> str:
    """Return a time as the address of the page has it."""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
