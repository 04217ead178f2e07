"""`logcli` of Loki 3.7.8, unchanged, as a client of Neve: queries, labels, series, statistics, live tail."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from neve.api.loki.routes import loki_routes
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.receive.authentication import OpenGuard
from tests.api.querying import serving
from tests.logql.otlp_logs import COUNT, END, START, ingest, make_log_lake, message, record
from tests.parts import loki
from tests.parts.process import HOST
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake

pytestmark = pytest.mark.parts

SECONDS = 300  # ends a client that hangs, and no other


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with lines of two services, and of another organization."""
    if reason := loki.missing():
        pytest.skip(reason)
    return make_log_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def address(lake: Lake) -> Iterator[str]:
    """The address of a server for acme."""
    service = QueryService(lake, QueryConfig(), limits=no_limits)
    guard = OpenGuard(ACME)
    with serving(service, guard, first=loki_routes(service, guard)) as client:
        yield f"http://{HOST}:{client.port}"
    service.close()


def write_time(nanos: int) -> str:
    """Return a time as the client takes it."""
    return datetime.fromtimestamp(nanos / 1e9, UTC).isoformat().replace("+00:00", "Z")


def run(address: str, *arguments: str) -> str:
    """Run the client, and return what it prints."""
    command = [str(loki.program(loki.CLIENT)), f"--addr={address}", f"--org-id={OTHER}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


BOUNDS = (f"--from={write_time(START)}", f"--to={write_time(END)}")


def query(address: str, text: str, *more: str) -> list[dict[str, Any]]:
    """Return the lines of a query."""
    printed = run(address, "query", text, *BOUNDS, "--output=jsonl", "--limit=1000", "--include-common-labels", *more)
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def test_query_of_lines(address: str) -> None:
    """Lines come with labels, in the order that was asked for, in as many pages as the client wants."""
    found = query(address, '{service_name="pay"} | logfmt | amount > 10', "--forward", "--batch=3")
    assert [one["line"] for one in found] == [
        f"level=info msg=paid amount={index} user=u{index % 2}" for index in range(11, COUNT)
    ]
    assert found[0]["labels"]["user"] == "u1"
    assert found[0]["labels"]["service_name"] == "pay"
    assert query(address, '{service_name="vault"}') == []


def test_query_of_values(address: str) -> None:
    """A metric query has values at each step, and an instant query one."""
    text = 'sum by (service_name) (count_over_time({service_name=~".+"}[1m]))'
    found = json.loads(run(address, "query", text, *BOUNDS, "--step=1m"))
    assert {one["metric"]["service_name"] for one in found} == {"cart", "pay"}
    assert (
        sum(float(value) for one in found if one["metric"]["service_name"] == "pay" for _, value in one["values"]) > 0
    )
    text = 'sum(count_over_time({service_name="pay"}[1h]))'
    [series] = json.loads(run(address, "instant-query", text, f"--now={write_time(END)}"))
    assert series["value"][1] == str(COUNT)


def test_labels_and_series(address: str) -> None:
    """Names, values and series of the own organization are listed."""
    assert {"service_name", "k8s_pod_name"} <= set(run(address, "labels", *BOUNDS).split())
    assert run(address, "labels", "service_name", *BOUNDS).split() == ["cart", "pay"]
    assert 'k8s_pod_name="cart-1"' in run(address, "series", '{service_name="cart"}', *BOUNDS)
    analyzed = run(address, "series", '{service_name=~".+"}', "--analyze-labels", *BOUNDS)
    assert "Total Streams:" in analyzed


def test_statistics_and_volume(address: str) -> None:
    """Streams, lines and bytes are counted."""
    printed = run(address, "stats", '{service_name="pay"}', *BOUNDS)
    assert "entries" in printed
    assert str(COUNT) in printed
    [volume] = [
        one
        for one in json.loads(run(address, "volume", '{service_name=~".+"}', *BOUNDS))
        if one["metric"] == {"service_name": "pay"}
    ]
    assert float(volume["value"][1]) > 0
    ranged = json.loads(run(address, "volume_range", '{service_name="pay"}', *BOUNDS, "--step=1m"))
    assert sum(float(value) for one in ranged for _, value in one["values"]) == float(volume["value"][1])


def test_detected_fields(address: str) -> None:
    """Fields of lines are detected with their types."""
    printed = run(address, "detected-fields", '{service_name="pay"}', *BOUNDS)
    assert "label: amount\t\ttype: int" in printed


def test_errors(address: str) -> None:
    """An error of the server reaches the user of the client."""
    command = [str(loki.program(loki.CLIENT)), f"--addr={address}", "query", "{", *BOUNDS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode != 0
    assert "parse error" in done.stderr


def test_tail(address: str, lake: Lake) -> None:
    """A tail begins with the newest lines, then prints those of new commits, of its organization only."""
    wanted = ("query", '{service_name="pay"} |= "paid"', "--tail", BOUNDS[0], "--limit=2", "--output=raw")
    command = [str(loki.program(loki.CLIENT)), f"--addr={address}", *wanted]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as client:
        try:
            assert client.stdout is not None
            assert sorted(client.stdout.readline().split()[2] for _ in range(2)) == ["amount=18", "amount=19"]
            ingest(lake, OTHER, message("pay", [record(30, "secret paid")]))
            ingest(lake, ACME, message("pay", [record(31, "paid again"), record(32, "refused")]))
            assert client.stdout.readline() == "paid again\n"
        finally:
            client.terminate()
