"""`neve tail`: what it says of a cycle, of a destination that is away, of a wrong file, and of what is not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
import yaml

from neve.errors import NeveError
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from tests.cli.runner import run
from tests.empty_tables import create_empty_tables
from tests.parts.process import free_port
from tests.query.lakes import settings_of
from tests.tail.lakes import Span, put

if TYPE_CHECKING:
    from pathlib import Path

POLICIES = {
    "tail_sampling": {
        "num_traces": 100,
        "policies": [
            {"name": "errors", "type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
            {"name": "rest", "type": "probabilistic", "probabilistic": {"sampling_percentage": 10}},
        ],
    }
}


@pytest.fixture
def folder(elsewhere: Path, iceberg: None) -> Path:
    """A lake with some traces, a policy file and this folder's neve.yaml."""
    said = settings_of(elsewhere)
    lake = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(lake)
    put(lake, [Span(number, part, error=number < 3) for number in range(100) for part in range(2)])
    (elsewhere / "policies.yaml").write_text(yaml.safe_dump(POLICIES))
    configure(elsewhere)
    return elsewhere


def configure(folder: Path, **tail: Any) -> None:
    """Write the settings."""
    said: dict[str, Any] = settings_of(folder) | {"organization": "acme", "state": {"path": str(folder / "state.db")}}
    (folder / "neve.yaml").write_text(json.dumps(said | {"tail": {"policies": "policies.yaml", **tail}}))


def test_check_tells_how_policies_and_columns_are_read(folder: Path) -> None:
    """The policies, the columns, and what means nothing here."""
    text, listed = run("tail", "check"), run("tail", "check", "--json")
    assert (text.code, listed.code) == (0, 0)
    assert "2 policies, documented semantics" in text.text
    assert "start_time_unix_nano" in text.text
    assert "num_traces has no effect here" in text.errors
    assert [one["name"] for one in listed.json["policies"]] == ["errors", "rest"]
    assert "attributes" not in listed.json["columns_read"]


def test_once_decides_exports_and_says_so(folder: Path) -> None:
    """A cycle and its export; the next has nothing to do."""
    configure(folder, export={"destinations": [{"name": "kept", "kind": "iceberg"}]})
    first = run("tail", "run", "--once")
    assert first.code == 0, first.errors
    assert "200 spans read by duckdb, 100 traces decided, 0 stay open" in first.text
    assert "errors: 3 traces, 6 spans" in first.text
    assert "kept took" in first.text

    second = run("tail", "run", "--once", "--json")
    assert (second.json["committed"], second.json["spans"]) == (False, 0)
    status = run("tail", "status")
    assert "cycle 1 at" in status.text
    assert "kept (iceberg): up to date" in status.text


def test_a_destination_that_is_away_is_an_error_after_the_decisions(folder: Path) -> None:
    """Decisions are there all the same, and the exit code says that something waits."""
    gone = {"name": "gone", "kind": "otlp_http", "endpoint": f"http://127.0.0.1:{free_port()}", "retry_seconds": 0}
    configure(folder, export={"destinations": [gone]})
    done = run("tail", "run", "--once")
    assert done.code == 1
    assert "100 traces decided" in done.text
    assert "gone is unavailable, kept traces wait" in done.errors
    assert "gone (otlp_http): 1 cycle" in run("tail", "status").text


def test_what_was_decided_is_said_when_the_export_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions are committed by then."""
    configure(folder, export={"destinations": [{"name": "kept", "kind": "iceberg"}]})

    def broken(*_any: object) -> None:
        raise NeveError("the disk is full")

    monkeypatch.setattr("neve.tail.export.exporter.Exporter.run", broken)
    done = run("tail", "run", "--once")
    assert done.code == 1
    assert "100 traces decided" in done.text
    assert "the disk is full" in done.errors


def test_metrics_are_served_while_it_runs(folder: Path) -> None:
    """As those of streams are."""
    port = free_port()
    assert run("tail", "run", "--once", "--metrics-port", str(port)).code == 0
    with urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        assert "neve_tail_cycles_total" in reply.read().decode()
    taken = run("tail", "run", "--once", "--metrics-port", str(port))
    assert "can't serve metrics" in taken.errors


def test_a_wrong_file_is_refused_with_every_fault(folder: Path) -> None:
    """The path, the value and what was expected."""
    (folder / "wrong.yaml").write_text(
        yaml.safe_dump(
            {"tail_sampling": {"policies": [{"name": "a", "type": "latncy"}, {"name": "", "type": "error"}]}}
        )
    )
    done = run("tail", "run", "--once", "--policies", "wrong.yaml")
    assert done.code == 1
    assert "latncy" in done.errors
    assert "policies[1]" in done.errors
    assert run("tail", "run", "--once", "--policies", "nowhere.yaml").code == 1


def test_status_before_anything_was_decided(folder: Path) -> None:
    """What to do is said."""
    configure(folder, export={"destinations": [{"name": "kept", "kind": "iceberg"}]})
    text = run("tail", "status").text
    assert "has made no decisions yet: `neve tail run --once` runs a cycle" in text
    assert "kept (iceberg): nothing to bring yet" in text
