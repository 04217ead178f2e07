"""`neve size`: options, JSON, and the numbers of the documentation."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.runner import run

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def test_every_number_has_a_reason() -> None:
    """As text and as JSON."""
    found = run("size", "-r", "10000", "--json").json
    assert all(need["reason"] for need in found["needs"])
    assert found["dollars_month"] == pytest.approx(sum(need["dollars_month"] for need in found["needs"]))
    text = run("size", "-r", "10000").text
    assert "10,000 records ingested a second / 57,700 per CPU second" in text


def test_costs_and_prices_can_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a file of measured costs, and by the settings of the lake."""
    (tmp_path / "costs.json").write_text(json.dumps({"ingested_per_cpu_s": 1000}))
    monkeypatch.setenv("NEVE_PRICES__COMPUTE_PER_CORE_HOUR", "1")
    found = run("size", "-r", "10000", "--slopes", str(tmp_path / "costs.json"), "--json").json
    [ingestion] = [need for need in found["needs"] if need["part"] == "ingestion"]
    assert (ingestion["amount"], ingestion["dollars_month"]) == (20, 20 * 730)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("-r", "0"), "0.0 is not in the range x>0"),
        (("-r", "1", "--signal-mix", "logs=1,events=2"), "'logs=1,events=2' is not a mix of signals"),
        (("-r", "1", "--signal-mix", "logs=0"), "'logs=0' is not a mix of signals"),
        (("-r", "1", "--retention", "soon"), "'soon' is not a duration, expected one like 30d"),
    ],
)
def test_wrong_options_are_named(options: tuple[str, ...], problem: str) -> None:
    """With the value and an example."""
    ended = run("size", *options)
    assert ended.code == 2
    assert problem in ended.errors


@pytest.mark.parametrize(
    ("text", "problem"),
    [('{"speed": 1}', "speed: extra inputs"), ('{"otlp_bytes": -1}', "otlp_bytes: input should be greater"), ("{", "")],
)
def test_wrong_costs_are_named(tmp_path: Path, text: str, problem: str) -> None:
    """With the key and the known ones."""
    (tmp_path / "costs.json").write_text(text)
    ended = run("size", "-r", "1", "--slopes", str(tmp_path / "costs.json"))
    assert ended.code == 1
    assert f"costs.json are not valid: {problem}" in ended.errors
    assert "the keys are received_per_cpu_s" in ended.errors


def test_a_missing_file_of_costs_is_named() -> None:
    """In one line."""
    assert (
        "can't read the costs no-such.json: No such file" in run("size", "-r", "1", "--slopes", "no-such.json").errors
    )


def test_the_page_shows_what_the_command_prints() -> None:
    """Each example of docs/scale.md is followed by its output."""
    examples = re.findall(r"```text\n\$ neve (size [^\n]*)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 3
    for command, printed in examples:
        assert _words(run(*command.split()).text) == _words(printed)


def _words(text: str) -> list[str]:
    return text.split()
