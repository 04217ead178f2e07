"""`neve reservoir estimate`: what it says, its JSON, and what it refuses; reading folders is another's part."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from neve.cli.sampling.reservoir_estimate import estimate
from neve.errors import ConfigError
from neve.reservoir.otap.sample_reader import SampleRequest
from tests.reservoir.estimate.services import NAMES, services

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

SAMPLE, TRUTH = services()


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Loaders that give the tables of the services, and what they were asked for."""
    seen: dict[str, Any] = {}

    def load_sample(_lake: object, folder: str, wanted: SampleRequest) -> pa.Table:
        seen["sample"] = (folder, wanted)
        return SAMPLE if wanted.of else SAMPLE.drop(["value"])

    def load_truth(_lake: object, folder: str, sample: str, wanted: SampleRequest) -> pa.Table:
        seen["truth"] = (folder, sample, wanted)
        return TRUTH if wanted.of else TRUTH.drop(["value"])

    monkeypatch.setattr("neve.app.reservoir.load_sample", load_sample)
    monkeypatch.setattr("neve.app.reservoir.load_truth", load_truth)
    return seen


def run(*arguments: str) -> Result:
    """Run the command by itself."""
    return CliRunner().invoke(estimate, arguments, obj=SimpleNamespace(lake=None), catch_exceptions=False)


def test_totals_by_group_are_told(asked: dict[str, Any]) -> None:
    """The largest groups, all of them together, and how many are not shown."""
    ran = run("sampled", "--limit", "3")
    assert ran.exit_code == 0
    lines = ran.output.splitlines()
    assert "1,320 kept items of 2 windows represent" in lines[0]
    assert "confidence level of the intervals: 95 %" in lines[0]
    assert lines[2].split() == ["group", "kept", "records", "interval", "per", "second", "share", "note"]
    assert lines[3].split()[:2] == ["all", "1,320"]
    assert len(lines) == 8
    assert lines[7] == f"and {len(NAMES) - 3} more groups; --limit shows more, --json lists them"
    assert asked["sample"] == ("sampled", SampleRequest())


def test_values_have_a_table_of_their_own() -> None:
    """The sum, the mean and each quantile once, in the order asked for; names can't steer the terminal."""
    ran = run("sampled", "--of", "duration", "--quantile", "0.95", "--quantile", "0.5", "--quantile", "0.95")
    (header,) = [line for line in ran.output.splitlines() if line.startswith("duration by group")]
    assert [word for word in header.split() if word != "interval"][3:] == ["kept", "sum", "mean", "p95", "p50", "note"]
    whole = run("sampled", "--limit", "100").output
    assert "\x1b" not in whole
    assert "(no name)" in whole


def test_the_truth_stands_beside(asked: dict[str, Any]) -> None:
    """For the period of the sample's windows, with how many intervals hold it."""
    ran = run("sampled", "--truth", "full", "--of", "duration", "--by", "service")
    begin, end = (datetime(1970, 1, 1, 0, minute, tzinfo=UTC) for minute in (0, 2))
    assert asked["truth"] == ("full", "sampled", SampleRequest("service", "duration", begin, end))
    assert ran.output.count(" truth ") >= 3
    (held,) = re.findall(r"groups whose interval contains the true value: total (\d+) of (\d+), share", ran.output)
    assert 18 <= int(held[0]) <= int(held[1]) == len(NAMES)


def test_json_has_everything() -> None:
    """Every group, whatever the limit, under the name that was asked for."""
    ran = run("sampled", "--truth", "full", "--of", "duration", "--quantile", "0.5", "--json", "--limit", "1")
    told = json.loads(ran.output)
    assert (told["of"], told["level"], told["windows"], told["seconds"]) == ("duration", 0.95, 2, 120.0)
    assert {line["group"] for line in told["groups"]} == set(NAMES)
    assert set(told["groups"][0]["p50"]) >= {"estimate", "low", "high", "standard_error", "items", "truth", "inside"}
    assert told["covering"]["total"]["intervals"] == len(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--of", "duration"), ("--of", "duration", "--quantile", "0.5")])
def test_a_plot_is_drawn(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Of totals, of means or of the quantile, and said."""
    path = tmp_path / "services.svg"
    ran = run("sampled", "--plot", str(path), *options)
    assert f"drawn to {path}" in ran.output
    shown = "records" if not options else "p50 of duration" if "--quantile" in options else "mean of duration"
    assert shown in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--quantile", "0.5"), "--quantile needs --of"),
        (("--quantile", "1", "--of", "x"), "1.0 is not in the range 0<x<1"),
        (("--level", "0"), "0.0 is not in the range 0<x<1"),
        (("--limit", "0"), "0 is not in the range x>=1"),
        (("--since", "2026-01-02", "--until", "2026-01-01"), "is not after --since"),
    ],
)
def test_what_is_not_understood_is_refused(asked: dict[str, Any], arguments: tuple[str, ...], words: str) -> None:
    """Before anything is read."""
    ran = run("sampled", *arguments)
    assert ran.exit_code == 2
    assert words in ran.output
    assert not asked


def test_a_plot_of_another_kind_is_refused_before_anything_is_read(asked: dict[str, Any]) -> None:
    """As the error that the command line shows."""
    with pytest.raises(ConfigError, match=r"ends in \.png or \.svg"):
        run("sampled", "--plot", "services.pdf")
    assert not asked
