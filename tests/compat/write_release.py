"""Write the fixture of a release: `python -m tests.compat.write_release NAME` with that release on PYTHONPATH.

The commands of the release do the work in processes of their own, as a user runs them. What they leave is packed with
its paths as they are; `tests/compat/release.py` moves it. `expected.json` has the rows of all tables as pyiceberg reads
them, so that neither the writing nor the reading release is its own judge.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog

from tests.compat.release import ARCHIVES, EXPECTED, PLACE, digest_rows
from tests.telemetry import MAKERS

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = f"""
lake: {{warehouse: {PLACE}/warehouse, exchange: {PLACE}/exchange}}
catalog: {{kind: sqlite, path: {PLACE}/catalog.db}}
state: {{path: {PLACE}/state.db}}
raw: {{location: {PLACE}/raw}}
ingest: {{checkpoints: {PLACE}/checkpoints}}
receiver: {{auth: keys, grpc: false}}
spark: {{master: "local[1]", log_file: {PLACE}/spark.log}}
tail: {{policies: {PLACE}/tail.yaml}}
"""
TAIL = """
tail_sampling:
  decision_wait: 1s
  policies:
    - {name: half, type: probabilistic, probabilistic: {sampling_percentage: 50}}
"""
POLICIES = """
- name: quiet-spans
  tables: [spans]
  tasks: {compact: {every: 1h}}
"""
LINES = '{"time": "2025-10-09T08:00:00Z", "message": "from a file", "service": "file"}\n'


def neve(*arguments: str) -> str:
    """Run a command of the release and return its output."""
    done = subprocess.run(command(*arguments), cwd=PLACE, check=False, capture_output=True, text=True)
    print(" ".join(arguments), "->", done.returncode, done.stderr[-400:] if done.returncode else "")  # noqa: T201
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def command(*arguments: str) -> list[str]:
    """The command line of a command."""
    return [sys.executable, "-m", "neve", "-c", f"{PLACE}/neve.yaml", *arguments]


def receive(key: str, first: int, *, seal: bool, bad: bool = False) -> None:
    """Send messages to a receiver, and end it: by SIGTERM, which seals its segment, or by SIGKILL, which does not."""
    environment = {**os.environ, "NEVE_RAW__SEGMENT_SECONDS": "3600"}  # by time alone none is sealed
    arguments = command("serve", "--receiver", "--http-port", "14399", "--health-port", "0")
    process = subprocess.Popen(arguments, cwd=PLACE, env=environment)
    try:
        for signal_name, make in MAKERS.items():
            send(f"http://127.0.0.1:14399/v1/{signal_name}", make(40, first=first), key)
        if bad:
            send("http://127.0.0.1:14399/v1/traces", make_bad_span(), key)
    finally:
        process.send_signal(signal.SIGTERM if seal else signal.SIGKILL)
        process.wait(60)


def make_bad_span() -> bytes:
    """A message of one span without an id, which is quarantined."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = ExportTraceServiceRequest()
    message.resource_spans.add().scope_spans.add().spans.add(name="no id", trace_id=b"short")
    return message.SerializeToString()


def send(url: str, message: bytes, key: str) -> None:
    """Send a message, once the receiver is there."""
    headers = {"content-type": "application/x-protobuf", "x-api-key": key}
    for _ in range(300):
        try:
            urllib.request.urlopen(urllib.request.Request(url, message, headers)).close()  # noqa: S310 - loopback
            return
        except (ConnectionError, urllib.error.URLError):
            time.sleep(0.2)
    raise SystemExit(f"{url} does not answer")


def fill() -> dict[str, Any]:
    """Let the release write a lake, a raw zone and a state store; return what a reader should find."""
    for name, text in {"neve.yaml": CONFIG, "tail.yaml": TAIL, "policies.yaml": POLICIES, "old.jsonl": LINES}.items():
        (PLACE / name).write_text(text)
    neve("init")
    key = json.loads(neve("keys", "create", "--org", "acme", "--scope", "write", "--scope", "read", "--json"))
    revoked = json.loads(neve("keys", "create", "--org", "acme", "--json"))
    neve("keys", "revoke", revoked["id"])
    receive(key["key"], 0, seal=True, bad=True)
    neve("ingest", "raw", "--available-now", "--json")
    neve("ingest", "files", "old.jsonl", "--signal", "logs", "--org", "acme", "--json")
    neve("rollup", "run", "--json")
    neve("search", "build", "--json")
    neve("tail", "run", "--once", "--no-export", "--json")
    neve("reservoir", "lake", "logs", "--k", "5", "--window", "60", "--json")
    neve("compact", "run", "--json")
    neve("policies", "set", "policies.yaml")
    job = json.loads(neve("jobs", "start", "compact", "logs", "--json"))
    neve("jobs", "pause", "--task", "maintain", "--reason", "migration")
    neve("autopilot", "history", "--json")
    receive(key["key"], 40, seal=True)
    receive(key["key"], 80, seal=False)
    return {"key": key["key"], "revoked": revoked["key"], "job": job, "tables": read_tables()}


def read_tables() -> dict[str, dict[str, Any]]:
    """The number and a digest of the rows of every table, and the summaries of its snapshots."""
    catalog = SqlCatalog("neve", uri=f"sqlite:///{PLACE}/catalog.db", warehouse=str(PLACE / "warehouse"))
    found = {}
    for namespace in catalog.list_namespaces():
        for identifier in catalog.list_tables(namespace):
            table = catalog.load_table(identifier)
            rows = table.scan().to_arrow()
            found[".".join(identifier)] = {"rows": rows.num_rows, "digest": digest_rows(rows)}
    catalog.close()
    return found


def pack(name: str) -> Path:
    """Pack the folder without what is made anew: logs, exchange files, checksums of files that will be moved."""
    archive = ARCHIVES / f"{name}.tar.xz"

    def keep(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = 0
        dropped = entry.name.endswith((".crc", ".log", ".db-shm", ".db-wal")) or "/exchange" in entry.name
        return None if dropped else entry

    with lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as file, tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(PLACE, "release", filter=keep)
    return archive


def main() -> None:
    """Write the fixture."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    expected = fill()
    for database in ("state.db", "catalog.db"):
        subprocess.run(["sqlite3", PLACE / database, "PRAGMA wal_checkpoint(TRUNCATE)"], check=False)
    (PLACE / EXPECTED).write_text(json.dumps(expected, indent=1, sort_keys=True))
    archive = pack(sys.argv[1])
    print(archive, os.path.getsize(archive))  # noqa: T201


if __name__ == "__main__":
    main()
