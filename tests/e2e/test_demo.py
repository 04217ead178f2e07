"""The demo, as a newcomer runs it: every answer is held against the generator's own record."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.test_up import LIGHT

pytestmark = pytest.mark.e2e
NEVE = str(Path(sys.executable).with_name("neve"))
# A browser that loads the page, notes what it got, and presses Ctrl+C.
BROWSER = """
import os, pathlib, signal, sys, urllib.request
try:
    request = urllib.request.Request(sys.argv[1], headers={"Accept": "text/html"})
    with urllib.request.urlopen(request) as page:
        found = f"{sys.argv[1]} {page.status} {page.headers['content-type']}"
    pathlib.Path(__file__).with_name("opened.txt").write_text(found.partition(" charset")[0])
finally:
    os.kill(os.getppid(), signal.SIGINT)
"""


def neve(*arguments: str, cwd: Path) -> str:
    """Run a command in a folder, and give what it printed."""
    done = subprocess.run([NEVE, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the demo has run once."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / "first.txt").write_text(neve("demo", cwd=folder))
    return folder


def query(place: Path, sql: str) -> list[dict[str, object]]:
    """Rows of an answer, asked with the configuration that the demo left behind."""
    printed = neve("-c", "demo/neve.yaml", "query", "--json", sql, cwd=place)
    return [json.loads(line) for line in printed.splitlines()]


def test_every_record_that_was_made_is_in_the_lake(place: Path) -> None:
    """Spans, logs and points: as many as were generated, none rejected."""
    facts = json.loads((place / "demo/telemetry.json").read_text())
    tables = {
        table["name"]: table["rows"]
        for table in json.loads(neve("-c", "demo/neve.yaml", "tables", "--json", cwd=place))
    }
    assert tables["spans"] == facts["spans"]
    assert tables["logs"] == facts["logs"]
    assert tables["metrics"] == facts["points"]
    assert tables["quarantine"] == 0


def test_the_answers_tell_the_incident(place: Path) -> None:
    """The service, the minutes, the failures and the cause are in what the demo printed."""
    facts = json.loads((place / "demo/telemetry.json").read_text())
    printed = (place / "first.txt").read_text()
    start, end = (
        time.strftime("%H:%M", time.gmtime(facts[f"incident_{edge}_unix_nano"] // 10**9)) for edge in ("start", "end")
    )
    answer = printed.split("2. When did it begin and end?")[1].splitlines()[2].split()
    assert answer[:4] == [start, end, str(facts["requests_in_window"]), str(facts["failed_in_window"])]
    worst = printed.split("1. Which service slowed down and failed?")[1].splitlines()[2]
    assert worst.startswith(facts["incident_service"])
    assert "connection pool exhausted" in printed
    assert "frontend: POST /checkout" in printed.split("5. Which steps did the slowest failed checkout")[1]


def test_the_incident_raises_an_alert(place: Path) -> None:
    """The seconds that the demo prints are those from the first failed span to the alert of a replay."""
    facts = json.loads((place / "demo/telemetry.json").read_text())
    printed = re.search(r"HighErrors of \S+ fires (\d+) s after the first", (place / "first.txt").read_text())
    assert printed is not None
    service, start = facts["incident_service"], facts["incident_start_unix_nano"]
    condition = f"service_name = '{service}' AND status_code = 2 AND start_time_unix_nano >= {start}"
    [failed] = query(place, f"SELECT min(end_time_unix_nano) AS at FROM spans WHERE {condition}")
    times = [datetime.fromtimestamp(start // 10**9 + offset, UTC).isoformat() for offset in (-600, 600)]
    command = ("rules", "simulate", "demo/rules.yml", "--since", times[0], "--until", times[1], "--json")
    found = json.loads(neve("-c", "demo/neve.yaml", *command, cwd=place))
    fired = [one["fired_at"] for one in found["rules"][1]["periods"] if one["labels"]["service_name"] == service]
    seconds = datetime.fromisoformat(fired[0]).timestamp() - int(str(failed["at"])) / 10**9
    assert int(printed[1]) == round(seconds)
    assert 0 < seconds < 120


def test_three_questions_and_a_map_tell_the_incident(place: Path) -> None:
    """TraceQL and the service map name the service, the minutes, the visits and the callers."""
    facts = json.loads((place / "demo/telemetry.json").read_text())
    printed = (place / "first.txt").read_text().split("== 5.")[1].split("== 6.")[0]
    start, end = (
        time.strftime("%H:%M", time.gmtime(facts[f"incident_{edge}_unix_nano"] // 10**9)) for edge in ("start", "end")
    )
    assert f"{facts['incident_service']}: " in printed
    assert f"from {start} to {end}" in printed
    assert "most of them frontend: " in printed
    assert "checkout calls it" in printed


def test_the_incident_is_kept_at_a_few_percent(place: Path) -> None:
    """Every trace of the incident is among the kept ones, which still tell how many there were."""
    printed = (place / "first.txt").read_text()
    answer = printed.split("do the kept ones give correct estimates?")[1].splitlines()[2].split()
    incident, kept, share, traces, estimated = (float(number) for number in answer)
    facts = json.loads((place / "demo/telemetry.json").read_text())
    assert incident == kept > 100
    assert share < 10
    assert traces == facts["traces"]
    assert 0.8 < estimated / traces < 1.2


def test_the_layout_followed_the_questions(place: Path) -> None:
    """Another order was promised, proven, merged and measured; every answer stayed, and a command takes it back."""
    printed = (place / "first.txt").read_text().split("== 10.")[1]
    assert "proposed for telemetry.logs" in printed
    assert "canary passed: 4 of 4 results are identical" in printed
    delivered = printed.split("measured: frequent queries read ")[1].split(" %")[0]
    assert float(delivered) >= 30
    assert "repeated queries: 5 of 5 results are identical" in printed
    attempt = printed.split("autopilot rollback ")[1].split()[0]
    [line] = json.loads(neve("-c", "demo/neve.yaml", "autopilot", "history", "--json", cwd=place))
    assert (line["id"], line["steps"][-1]["stage"]) == (attempt, "merged")


def test_correlated_signals_join(place: Path) -> None:
    """Logs point to spans that are there, and exemplars of metrics to traces that are there."""
    [answer] = query(
        place,
        "SELECT count(*) AS logs, count(s.span_id) AS found FROM logs l "
        "LEFT JOIN spans s ON s.trace_id = l.trace_id AND s.span_id = l.span_id WHERE l.span_id IS NOT NULL",
    )
    assert answer["logs"] == answer["found"] != 0
    [exemplars] = query(
        place,
        "WITH e AS (SELECT unnest(exemplars) AS x FROM metrics WHERE len(exemplars) > 0) "
        "SELECT count(*) AS n, count(*) FILTER (x.trace_id IN (SELECT trace_id FROM spans)) AS found FROM e",
    )
    assert exemplars["n"] == exemplars["found"] != 0


def test_a_second_demo_is_quick_and_adds_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the questions are asked again, without Spark, which would find no Java."""
    monkeypatch.setenv("JAVA_HOME", str(place / "nowhere"))
    printed = neve("demo", cwd=place)
    assert "0 read, 36 skipped" in printed
    assert "(made earlier)" in printed
    assert "% less (merged earlier)" in printed


@pytest.mark.long
def test_the_page_is_opened(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser gets the logs of the demo's hour, and Ctrl+C ends the service."""
    for name, value in LIGHT.items():
        monkeypatch.setenv(name, value)
    browser = place / "browser.py"
    browser.write_text(BROWSER)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {browser} %s")
    printed = neve("demo", "--open", cwd=place)
    address, status, kind = (place / "opened.txt").read_text().split()
    assert f"the web page: {address}" in printed
    assert (status, kind) == ("200", "text/html;")
    assert "/logs?from=" in address


@pytest.mark.long
def test_counters_grew_by_the_spans_that_were_served(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some services send totals and others differences: the increases of all are what their spans say."""
    monkeypatch.setenv("NEVE_ROLLUP__PARTIAL", "true")  # the demo may end in a window that is still open
    levels = json.loads(neve("-c", "demo/neve.yaml", "rollup", "run", "--json", cwd=place))
    assert [level["table"] for level in levels] == ["metrics_1m", "metrics_5m", "metrics_1h", "metrics_1d"]
    served = query(place, "SELECT service_name, count(*) AS n FROM spans WHERE span_kind IN (2, 5) GROUP BY 1")
    for level in levels:
        grown = query(
            place,
            f"SELECT service_name, sum(increase)::BIGINT AS n FROM {level['table']} "
            "WHERE metric_name = 'shop.requests' GROUP BY 1",
        )
        assert {row["service_name"]: row["n"] for row in grown} == {row["service_name"]: row["n"] for row in served}
