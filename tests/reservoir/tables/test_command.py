"""`neve reservoir lake`: what it says, its JSON, and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from neve.app.reservoir import build_lake_sampler
from neve.app.settings import Settings
from neve.cli.sampling.reservoir_lake import lake as command
from neve.lake.calendar import micros_of
from neve.lake.time_ranges import BEGINNING
from neve.reservoir.config import LakeSampling
from tests.reservoir.tables.records import put, record, records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.reservoir.tables.job import Sampler

CONFIGURED = LakeSampling(window_seconds=60, invalid_weights="one")


def run(lake: Lake | None, *arguments: str) -> Result:
    """Run the command by itself, with what is configured."""
    context = SimpleNamespace(settings=SimpleNamespace(reservoir=SimpleNamespace(lake=CONFIGURED)), lake=lake)
    return CliRunner().invoke(command, arguments, obj=context, catch_exceptions=False)


@pytest.mark.long
def test_a_run_is_told(spark_lake: Lake, sampler: Callable[..., Sampler], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a plan, in words and in JSON: windows, what came of them, and what is to be known about them."""

    def build(_settings: object, _lake: Lake, table: str, config: LakeSampling, *_more: Any, **_said: Any) -> object:
        return sampler(config, table)

    monkeypatch.setattr("neve.app.reservoir.build_lake_sampler", build)
    put(spark_lake, [*records(range(90)), record(1000, weight="x")], "one")
    planned = run(spark_lake, "logs", "--k", "5", "--dry-run")
    assert "2 windows with 91 records would be sampled (5 by service_name, priority)" in planned.output
    told = run(spark_lake, "logs", "--k", "5")
    assert "2 windows of logs sampled (5 by service_name, priority): 30 of 91 records kept" in told.output
    assert "note: 1 record counted as 1: invalid weight" in told.output
    assert "logs_sample: 1 file of " in told.output
    other = run(spark_lake, "logs", "--k", "6")
    assert "0 windows of logs sampled" in other.output
    assert "note: unchanged windows were sampled with other setting" in other.output
    again = json.loads(run(spark_lake, "logs", "--k", "6", "--again", "--org", "acme", "--json").stdout)
    assert [window["kept"] for window in again["windows"]] == [18, 18]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("metrics",), "'metrics' is not one of 'logs', 'spans'"),
        (("logs", "--k", "0"), "0 is not in the range x>=1"),
        (("logs", "--since", "2026-01-02", "--until", "2026-01-01"), "is not after --since"),
    ],
)
def test_what_can_not_be_is_refused(arguments: tuple[str, ...], words: str) -> None:
    """With the option that is wrong, before anything is opened."""
    refused = run(None, *arguments)
    assert refused.exit_code == 2
    assert words in refused.output


def test_retention_freezes_what_it_may_have_taken(lake: Lake, tmp_path: Path) -> None:
    """By organization, as the settings have it."""
    rules = [{"days": 30}, {"organization": "globex", "days": 0}]
    settings = Settings.model_validate(
        {"state": {"path": str(tmp_path / "state.db")}, "maintain": {"retention": rules}}
    )
    made = build_lake_sampler(settings, lake, "spans", CONFIGURED, steal=True)
    assert (made.target, made.steal, made.frozen("globex")) == ("spans_sample", True, BEGINNING)
    ago = micros_of(datetime.now(UTC) - timedelta(days=30))
    assert abs(made.frozen("acme") - ago) < 60_000_000
