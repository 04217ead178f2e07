"""`neve trace` and `neve query --traceql`: waterfalls, critical paths, logs of spans, spans and series."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from neve.cli.terminal.waterfall import draw_waterfall
from neve.model.critical_path import find_critical_paths
from tests.cli.runner import run
from tests.explore.traces import CHECKOUT, SECRET, make_trace_lake
from tests.query.lakes import ACME, OTHER, settings_of

SINCE, UNTIL = "2025-10-09T08:50:00Z", "2025-10-09T08:55:00Z"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> str:
    """The configuration of a lake with a trace and its logs."""
    folder = tmp_path_factory.mktemp("traces")
    make_trace_lake(folder)
    path = folder / "neve.yaml"
    path.write_text(yaml.safe_dump({**settings_of(folder), "organization": ACME}))
    return str(path)


def test_waterfall(config: str) -> None:
    """A trace is drawn as a tree with bars, times on the critical path, and logs below their spans."""
    ended = run("-c", config, "trace", CHECKOUT.hex())
    assert ended.code == 0, ended.errors
    lines = ended.text.splitlines()
    assert lines[0].startswith(f"trace {CHECKOUT.hex()}, 120 ms, 7 spans, 3 services, 2 errors, 2025-10-09T08:53:20")
    assert lines[1].startswith("critical path: ")
    assert "payment" in lines[1]
    names = [line.split("  ")[0] for line in lines if "POST /checkout" in line]
    assert names == ["✗ web POST /checkout"]
    child = next(line for line in lines if "operation 2" in line)
    assert child.startswith("  web operation 2")
    assert "█" in child
    log = next(line for line in lines if "started" in line)
    assert log.strip().startswith("· 1 ms info started")


def test_json(config: str) -> None:
    """JSON has one object for each span, with its parent, its times and its logs."""
    ended = run("-c", config, "trace", CHECKOUT.hex(), "--json")
    assert ended.code == 0, ended.errors
    document = ended.json
    spans = {one["span_id"]: one for one in document["spans"]}
    assert len(spans) == document["span_count"] == 7
    payment = spans["0000000000000003"]
    assert (payment["service"], payment["status"], payment["kind"]) == ("payment", "error", "server")
    assert payment["parent_span_id"] == "0000000000000002"
    assert [one["severity_number"] for one in payment["logs"]] == [17]
    total = sum(one["nanoseconds"] for one in document["critical_path"])
    assert total == sum(one["critical_nano"] for one in document["spans"]) == 100_000_000


def test_limit_and_logs(config: str) -> None:
    """The spans nearest to the root are drawn, the others are counted, and logs can be left out."""
    ended = run("-c", config, "trace", CHECKOUT.hex(), "--limit", "2", "--no-logs")
    assert "5 more spans not drawn: raise --limit" in ended.text
    assert "started" not in ended.text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trace", "ab" * 16], f"trace {'ab' * 16} is not stored in the organization {ACME}"),
        (["trace", SECRET.hex()], "is not stored in the organization acme"),
        (["trace", "checkout"], "the trace id is 'checkout', expected 32 hexadecimal digits"),
        (["trace", "ab" * 16, "--server", "x", "--org", "y"], "the key selects the organization"),
        (["query", "--traceql", "{ .a = }"], "1:8: parse error: unexpected '}'"),
        (["query", "--traceql", "{ }", "--server", "http://127.0.0.1:1"], "request /tempo/api/search of the server"),
    ],
)
def test_refusals(config: str, words: list[str], message: str) -> None:
    """Mistakes, and traces of other organizations, are reported with the remedy."""
    ended = run("-c", config, *words)
    assert ended.code != 0
    assert message in ended.errors


def test_other_organization(config: str) -> None:
    """Another organization sees its own trace."""
    ended = run("-c", config, "trace", SECRET.hex(), "--org", OTHER)
    assert "vault secret" in ended.text


def test_spans(config: str) -> None:
    """A query of spansets prints the matching spans with their traces."""
    query = ("query", "--traceql", "{ status = error } >> { kind = client } | select(span.db.name)")
    ended = run("-c", config, *query, "--since", SINCE, "--until", UNTIL, "--json")
    assert ended.code == 0, ended.errors
    rows = [json.loads(line) for line in ended.text.splitlines()]
    assert [row["span_id"][-1] for row in rows] == ["2", "4", "6"]
    assert rows[0]["trace_id"] == CHECKOUT.hex()
    assert rows[1]["values"]["db.name"] == "cards"


def test_series(config: str) -> None:
    """A query of metrics prints values at each step, with a column for each label."""
    query = ("query", "--traceql", "{ } | count_over_time() by (resource.service.name)")
    ended = run("-c", config, *query, "--since", SINCE, "--until", UNTIL, "--step", "5m", "--json")
    assert ended.code == 0, ended.errors
    rows = [json.loads(line) for line in ended.text.splitlines()]
    counts = {row["resource.service.name"]: row["value"] for row in rows if row["value"]}
    assert counts == {"web": 2.0, "payment": 4.0, "mailer": 1.0}


def test_hostile_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of names and logs are escaped, and a cycle of parents ends."""
    document = {
        "trace_id": "00",
        "start_unix_nano": "0",
        "duration_nano": 10,
        "services": ["\x1b[2Jx"],
        "names": ["a"],
        "span_count": 2,
        "left_out": 0,
        "error_count": 0,
        "spans": {
            "span_id": ["01", "02"],
            "parent": [1, 0],
            "start": [0, None],
            "duration": [10, None],
            **{name: [0, 0] for name in ("service", "name", "kind", "status", "events", "links")},
        },
    }
    draw_waterfall(document, [{"span_id": "01", "message": "\x1b]0;pwned\x07"}], 10)
    assert "\x1b[2J" not in (out := capsys.readouterr().out)
    assert "\\x1b[2Jx a" in out
    assert "\x07" not in out


@given(st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8))
def test_critical_path_fills_the_roots(spans: list[tuple[int, int, int]]) -> None:
    """The times on the path of a tree add up to the duration of its root, whatever its children do."""
    parents = [parent if parent < place else -1 for place, (parent, _, _) in enumerate(spans)]
    starts = [start for _, start, _ in spans]
    ends = [start + duration for _, start, duration in spans]
    path = find_critical_paths(parents, starts, ends)
    assert sum(path) == sum(ends[one] - starts[one] for one, parent in enumerate(parents) if parent < 0)
    assert min(path) >= 0
