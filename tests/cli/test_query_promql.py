"""`neve query --promql`: tables, JSON lines and plots of PromQL, for one organization."""

import json

import pytest
import yaml

from tests.cli.runner import run
from tests.promql.storage.otlp_metrics import COUNT, GAP_MS, START_MS, make_metric_lake
from tests.query.lakes import ACME, OTHER, settings_of

END = "2025-10-09T08:53:00Z"
BEFORE = "2025-10-09T08:51:00Z"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> str:
    """The configuration of a lake with metrics."""
    folder = tmp_path_factory.mktemp("promql")
    make_metric_lake(folder)
    path = folder / "neve.yaml"
    path.write_text(yaml.safe_dump({**settings_of(folder), "organization": ACME}))
    assert START_MS + (COUNT - 1) * GAP_MS == 1_759_999_980_000  # END
    return str(path)


def test_instant(config: str) -> None:
    """Without --since, the expression is evaluated once; labels are columns."""
    ended = run("-c", config, "query", "--promql", "sum by (path) (http_requests_total)", "--until", END, "--json")
    assert ended.code == 0, ended.errors
    rows = [json.loads(line) for line in ended.text.splitlines()]
    assert [(row["path"], row["value"]) for row in rows] == [("a", 1200.0), ("b", 2400.0)]


def test_range(config: str) -> None:
    """With --since, there is a row for each step. Infos are notes."""
    times = ("--since", BEFORE, "--until", END, "--step", "1m")
    ended = run("-c", config, "query", "--promql", "sum(rate(memory_bytes[5m]))", *times, "--json")
    assert ended.code == 0, ended.errors
    assert len(ended.text.splitlines()) == 3
    assert "note: PromQL info: metric might not be a counter" in ended.errors


def test_other_organization(config: str) -> None:
    """An organization has its own series only."""
    own = run("-c", config, "query", "--promql", "secret", "--until", END, "--json")
    assert (own.code, own.text) == (0, "")
    other = run("-c", config, "query", "--promql", "secret", "--until", END, "--json", "--org", OTHER)
    assert json.loads(other.text)["metric"] == "secret"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--promql", "sum("], "1:5: parse error: unclosed left parenthesis"),
        (["--promql", "1", "--step", "soon"], "--step is 'soon'"),
        (["SELECT 1", "--step", "1m"], "--step is for PromQL"),
        (["--promql", "1", "--explain"], "are for SQL"),
        (["--promql", "1", "--server", "http://127.0.0.1:1"], "runs in this process"),
    ],
)
def test_errors(config: str, options: list[str], message: str) -> None:
    """Wrong expressions and options are errors with a hint, not a traceback."""
    ended = run("-c", config, "query", *options)
    assert ended.code != 0
    assert message in ended.errors
