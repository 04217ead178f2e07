"""The door for events that are posted."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import urllib3
import uvicorn

from neve.autopilot.analyzer import analyze
from neve.autopilot.logs.event_receiver import MAX_EVENT_BYTES, EventReceiver
from neve.autopilot.logs.scan_reports import ScanReports
from neve.autopilot.logs.trino_log import TrinoEvents
from neve.autopilot.workload.tables import Tables
from tests.autopilot.analyze.schemas import DATA, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SINCE = datetime(2020, 1, 1, tzinfo=UTC)
TABLE = "/v1/prod/namespaces/shop/tables/orders/metrics"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server that keeps what it gets in a folder."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(EventReceiver(folder).application(), log_level="error", lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def test_what_is_posted_can_be_analysed(tmp_path: Path) -> None:
    """Events of Trino and reports of Iceberg go to folders of their own, with the time of arrival."""
    events = (DATA / "trino_476_events.jsonl").read_bytes().splitlines()
    reports = (DATA / "iceberg_1_12_scan_reports.jsonl").read_bytes().splitlines()
    with serving(tmp_path) as address, urllib3.PoolManager() as http:
        codes = [http.request("POST", address + "/v1/trino/events", body=one).status for one in events]
        codes += [http.request("POST", address + TABLE, body=one).status for one in reports]
    assert set(codes) == {204}
    assert analyze([TrinoEvents(str(tmp_path / "trino"), "lake")], Tables(), SINCE).counted == 5
    found = analyze([ScanReports(str(tmp_path / "scan-reports"))], TABLES, SINCE)
    assert found.counted == len(reports)
    assert abs((found.queries[0].at - datetime.now(UTC)).total_seconds()) < 600


def test_what_is_no_event_is_refused(tmp_path: Path) -> None:
    """Nothing is kept of it."""
    with serving(tmp_path) as address, urllib3.PoolManager() as http:
        for body, status in ((b"no json", 400), (b"[1]", 400), (b" " * (MAX_EVENT_BYTES + 1), 413)):
            assert http.request("POST", address + "/v1/trino/events", body=body, retries=False).status == status
        assert http.request("GET", address + "/v1/trino/events").status == 405
    assert not list(tmp_path.rglob("*.jsonl"))


def test_half_a_line_of_a_crash_costs_itself_only(tmp_path: Path) -> None:
    """The next event begins on a line of its own."""
    path = tmp_path / "trino" / f"{datetime.now(UTC):%Y-%m-%d}.jsonl"
    path.parent.mkdir()
    path.write_bytes(b'{"half": ')
    with serving(tmp_path) as address, urllib3.PoolManager() as http:
        assert http.request("POST", address + "/v1/trino/events", body=b'{"whole": 1}').status == 204
    assert json.loads(path.read_bytes().splitlines()[-1])["whole"] == 1
