"""`neve serve` with all of its parts, as an operator starts it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import urllib3
import yaml

from tests.soak.house import House
from tests.soak.plan import Plan
from tests.telemetry import traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e
COUNT = "SELECT service_name, count(*) AS n FROM spans GROUP BY 1"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A lake in service whose API has every query answered by Spark."""
    made = House(tmp_path, Plan(seconds=1, rate=1, commit_seconds=1))
    said = yaml.safe_load(made.config.read_text())
    said["query"] |= {"spark_bytes": 1, "cache_bytes": 0}
    said["raw"] |= {"segment_seconds": 0.5}
    made.config.write_text(yaml.safe_dump(said))
    made.init()
    made.service.start()
    try:
        yield made
    finally:
        made.sweep()


def post(url: str, body: bytes, kind: str) -> Any:
    """What is answered, as JSON; nothing where the server can't now."""
    answer = urllib3.request("POST", url, body=body, headers={"content-type": kind}, timeout=600, retries=False)
    assert answer.status in (200, 503), answer.data
    return json.loads(answer.data or b"{}") if answer.status == 200 else None


def test_the_whole_group_has_one_spark(house: House) -> None:
    """What the receiver got is taken in and counted by the same JVM, for the API; a signal ends all of it well."""
    addresses = house.await_addresses()
    post(f"{addresses['http']}/v1/traces", traces(7), "application/x-protobuf")
    rows, deadline = None, time.monotonic() + 240  # Spark starts for it
    while rows != [["cart", 7]]:
        assert time.monotonic() < deadline, rows
        answer = post(f"{addresses['query']}/api/v1/query", json.dumps({"sql": COUNT}).encode(), "application/json")
        rows = answer and [list(row.values()) if isinstance(row, dict) else row for row in answer["rows"]]
        time.sleep(0.5)
    assert answer["statistics"]["engine"] == "spark"
    group = psutil.Process(house.service.pid).children(recursive=True)
    assert sum(process.name() == "java" for process in group) == 1
    assert urllib3.request("GET", f"{addresses['health']}/readyz", timeout=600).status == 200
    assert house.service.end(60) == 0, house.service.tail()
    assert house.errors == 0, house.service.tail()
