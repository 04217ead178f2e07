"""`neve query --logql` and `neve logs`: lines and values, colours, a server that is restarted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from neve.cli.querying.logs import MAX_LINES, OVERLAP_NS, Batch, LogLine, Repeats, format_line
from neve.cli.querying.remote_logs import RemoteLogs
from neve.errors import QueryError
from tests.cli.runner import run
from tests.logql.otlp_logs import make_log_lake
from tests.query.lakes import ACME, OTHER, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SINCE, UNTIL = "2025-10-09T08:43:00Z", "2025-10-09T08:47:00Z"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> str:
    """The configuration of a lake with lines."""
    folder = tmp_path_factory.mktemp("logql")
    make_log_lake(folder)
    path = folder / "neve.yaml"
    path.write_text(yaml.safe_dump({**settings_of(folder), "organization": ACME}))
    return str(path)


def test_lines(config: str) -> None:
    """A log query prints lines with their labels."""
    query = ("query", "--logql", '{service_name="pay"} | logfmt | amount > 18', "--since", SINCE, "--until", UNTIL)
    ended = run("-c", config, *query, "--json")
    assert ended.code == 0, ended.errors
    row = json.loads(ended.text)
    assert row["line"].startswith("level=info msg=paid amount=19")
    assert row["labels"]["user"] == "u1"


def test_values(config: str) -> None:
    """A metric query prints values at each step."""
    query = ("query", "--logql", 'sum(rate({service_name="pay"}[1m]))', "--since", SINCE, "--until", UNTIL)
    ended = run("-c", config, *query, "--step", "1m", "--json")
    assert ended.code == 0, ended.errors
    assert [json.loads(line)["value"] for line in ended.text.splitlines()] == [0.1, 0.1, 0.1, pytest.approx(2 / 60)]


def test_logs(config: str) -> None:
    """The name of a service is a selector; lines come oldest first, and only those of the organization."""
    ended = run("-c", config, "logs", "pay", "--since", SINCE, "-n", "2", "--json")
    assert ended.code == 0, ended.errors
    rows = [json.loads(line) for line in ended.text.splitlines()]
    assert [row["line"].split()[2] for row in rows] == ["amount=18", "amount=19"]
    assert run("-c", config, "logs", "vault", "--since", SINCE).text == ""
    other = run("-c", config, "logs", "vault", "--since", SINCE, "--org", OTHER)
    assert other.text.strip().endswith("vault secret")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["logs", "{"], "parse error at line 1, col 2"),
        (["logs", 'rate({a="b"}[1m])'], "expected a log query"),
        (["logs", "pay", "--server", "x", "--org", "y"], "the key selects the organization"),
        (["query", "--logql", "--promql", "1"], "add one of --promql, --logql and --traceql"),
        (["query", "--logql", "1", "--server", "http://127.0.0.1:1"], "runs in this process"),
    ],
)
def test_refusals(config: str, words: list[str], message: str) -> None:
    """Mistakes are reported with the remedy."""
    ended = run("-c", config, *words)
    assert ended.code != 0
    assert message in ended.errors


def test_format() -> None:
    """A line shows time, level, service and text, without control characters that a terminal would obey."""
    line = LogLine(1_500_000_000, "bad \x1b[2J", {"service_name": "shop", "detected_level": "error", "pod": "p"})
    text = format_line(line, has_labels=True)
    assert "1970-01-01T00:00:01.500Z" in text
    assert "\x1b[2J" not in text
    assert "pod=p" in text


class Restarted(RemoteLogs):
    """Double of a server that is restarted once, and repeats a line then."""

    calls = 0

    def _listen(self, _query: str, start_ns: int, limit: int) -> Iterator[Batch]:
        self.calls += 1
        self.starts = [*getattr(self, "starts", []), (start_ns, limit)]
        if self.calls == 2:
            raise OSError("connection refused")
        lines = [LogLine(10**12, "a", {}), LogLine(10**12 + self.calls, f"b{self.calls}", {})]
        yield Batch(self.repeats.drop(lines))
        if self.calls > 2:
            raise QueryError("the end")
        raise OSError("connection reset")


def test_restart() -> None:
    """A tail goes on after a restart of the server, a little before its last line, and repeats no line."""
    notes: list[str] = []
    pauses: list[float] = []
    logs = Restarted("http://127.0.0.1:1", None, notes.append, pause=pauses.append)
    batches = logs.follow("{}", 0, 5)
    found = [line.text for _ in range(2) for line in next(batches).lines]
    with pytest.raises(QueryError, match="the end"):
        next(batches)
    assert found == ["a", "b1", "b3"]
    assert pauses == [1.0, 2.0]
    assert notes[0] == "note: connection reset; trying again in 1 s"
    assert logs.starts[1] == (10**12 + 1 - OVERLAP_NS, MAX_LINES)


def test_restart_after_a_full_batch() -> None:
    """Lines before those that a tail began with are not printed after a restart either."""
    logs = Restarted("http://127.0.0.1:1", None, lambda _note: None, pause=lambda _seconds: None)
    batches = logs.follow("{}", 0, 2)
    next(batches)
    next(batches)
    assert logs.starts[1] == (10**12, MAX_LINES)


def test_refused_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that refuses the key is not asked again."""
    refusal = InvalidStatus(Response(401, "Unauthorized", Headers(), b"no such key\n"))

    def refuse(*_arguments: object, **_options: object) -> None:
        raise refusal

    monkeypatch.setattr("websockets.sync.client.connect", refuse)
    with pytest.raises(QueryError, match="answered 401: no such key"):
        next(RemoteLogs("http://127.0.0.1:1", "x", print, pause=lambda _seconds: None).follow("{}", 0, 5))


def test_repeats() -> None:
    """A line is a repeat if time, text and labels are the same."""
    repeats = Repeats()
    assert len(repeats.drop([LogLine(1, "a", {}), LogLine(1, "a", {"x": "y"}), LogLine(1, "a", {})])) == 2
