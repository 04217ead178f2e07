"""`neve tail simulate` and `neve tail explain`, as a shell sees them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
import pytest

from neve.cli.time_options import SinceParam
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from tests.cli.runner import run
from tests.empty_tables import create_empty_tables
from tests.query.lakes import settings_of
from tests.tail.simulate.lakes import (
    ACME,
    DROP,
    ERRORS,
    LIMIT,
    REST,
    SLOW,
    Trace,
    policies,
    put,
    selector_of,
    some_traces,
)

if TYPE_CHECKING:
    from pathlib import Path

NEW, OLD = (SLOW, LIMIT, DROP), (ERRORS, REST)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Path:
    """A lake on which a selector has worked, two files of policies, and a neve.yaml."""
    made = tmp_path_factory.mktemp("tail")
    said = settings_of(made)
    lake = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(lake)
    put(lake, some_traces(60))
    selector_of(lake, made, policies(*OLD)).run()
    for name, stated in (("new", NEW), ("old", OLD)):
        (made / f"{name}.yaml").write_text(json.dumps({"policies": stated}))
    settings = {"organization": ACME, "state": {"path": str(made / "state.db")}, "tail": {"policies": "old.yaml"}}
    (made / "neve.yaml").write_text(json.dumps(said | settings))
    return made


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in that folder, without the user's own settings."""
    for variable in [name for name in os.environ if name.startswith("NEVE_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(folder)


def test_a_simulation_as_text() -> None:
    """Volume and cost, each policy, missed errors, and how well the rest tells."""
    ran = run("tail", "simulate", "--policies", "new.yaml", "--since", "2026-02-02", "--price", "1000000")
    assert (ran.code, ran.errors) == (0, "")
    lines = ran.text.splitlines()
    spans = sum(trace.spans for trace in some_traces(60))
    assert lines[0].startswith(f"60 traces of spans since 2026-02-02T00:00:00, {spans} spans, evaluated in ")
    (whole,) = [line.split() for line in lines if line.startswith("all ")]
    assert whole[1:4] == ["60", str(spans), "100.0%"]
    assert whole[-1] == f"{spans:,}.00"
    (slow,) = [line.split() for line in lines if line.startswith("slow ")]
    assert slow[:3] == ["slow", "latency", "kept"]
    assert any(line.startswith("no-search") and " dropped " in line for line in lines)
    assert "traces with an error are missed" in ran.text
    assert "no kept trace represents them" in ran.text
    assert any(line.startswith("latency p99, ms") for line in lines)


def test_a_simulation_as_json() -> None:
    """The same, for programs; without a file the configured policies are asked."""
    ran = run("tail", "simulate", "--json", "--until", "2026-02-02T09:05:00Z")
    assert ran.code == 0
    chosen = [trace for trace in some_traces(60) if trace.seconds < 300]
    assert ran.json["before"]["traces"] == len(chosen)
    assert [line["name"] for line in ran.json["policies"]] == ["errors", "rest"]
    assert (ran.json["errors"]["missed"], ran.json["errors"]["missed_share"]) == (0, 0)
    assert set(ran.json["estimates"]["latency_ms"]) == {"p50", "p95", "p99"}
    assert "no error is missed" in run("tail", "simulate").text


@pytest.mark.parametrize("other", ["old.yaml", "current"])
def test_a_comparison(other: str) -> None:
    """With a file, or with what is configured: what both keep, and what only one does."""
    arguments = ("tail", "simulate", "--policies", "new.yaml", "--compare", other)
    text, listed = run(*arguments), run(*arguments, "--json")
    assert (text.code, listed.code, text.errors) == (0, 0, "")
    told = listed.json
    assert told["old"]["policies_hash"] == policies(*OLD).fingerprint
    assert told["compared"] == 60 == sum(told[fate]["traces"] for fate in ("both", "only_new", "only_old", "neither"))
    assert told["difference"]["spans"] == told["only_new"]["spans"] - told["only_old"]["spans"]
    (difference,) = [line for line in text.text.splitlines() if line.startswith("difference")]
    assert f"{told['difference']['spans']:+,}" in difference
    for title in ("kept by the new policies only", "kept by the old policies only", "errors that only the old"):
        assert title in text.text


def test_semantics_hold_for_files_and_not_for_what_is_configured() -> None:
    """What runs now is compared as it runs."""
    arguments = ("tail", "simulate", "--policies", "new.yaml", "--semantics", "otelcol", "--json", "--compare")
    assert [run(*arguments, "old.yaml").json[one]["semantics"] for one in ("new", "old")] == ["otelcol", "otelcol"]
    assert [run(*arguments, "current").json[one]["semantics"] for one in ("new", "old")] == ["otelcol", "documented"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--since", "yesterday"), 2, "'yesterday' is not a time, expected one like 7d, 12h, 30m, 2026-01-31"),
        (("--since", "2999-01-01"), 2, "is in the future"),
        (("--since", "2026-02-03", "--until", "2026-02-02"), 2, "is not after --since"),
        (("--price", "-1"), 2, "-1"),
        (("--semantics", "loose"), 2, "'loose' is not one of 'documented', 'otelcol'"),
        (("--policies", "missing.yaml"), 1, "missing.yaml"),
    ],
)
def test_what_is_not_understood_is_refused(arguments: tuple[str, ...], code: int, words: str) -> None:
    """With what would be."""
    refused = run("tail", "simulate", *arguments)
    assert refused.code == code
    assert words in refused.errors


@pytest.mark.parametrize(
    ("text", "ago"),
    [("7d", timedelta(days=7)), ("12h", timedelta(hours=12)), ("30m", timedelta(minutes=30)), ("2w", timedelta(14))],
)
def test_how_long_ago(text: str, ago: timedelta) -> None:
    """Days, hours, minutes; or a time."""
    found = SinceParam().convert(text, None, None)
    assert abs(datetime.now(UTC) - ago - found) < timedelta(minutes=1)
    assert SinceParam().convert("2026-01-31T08:30", None, None) == datetime(2026, 1, 31, 8, 30, tzinfo=UTC)


def test_longer_ago_than_times_go() -> None:
    """Is refused like any other time that is none."""
    with pytest.raises(click.BadParameter, match="is too far in the past"):
        SinceParam().convert("99999999d", None, None)


def test_an_explanation() -> None:
    """The decision, then the votes; other policies may be asked."""
    kept = Trace(0).id.hex()
    text, listed = run("tail", "explain", kept), run("tail", "explain", kept.upper(), "--json")
    assert (text.code, listed.code, text.errors) == (0, 0, "")
    lines = text.text.splitlines()
    assert lines[0] == f"trace {kept} of acme: sampled by errors: a span matches its error"
    assert lines[1].startswith("  1 span, 7 ms, with an error; begins with cart, GET /cart, at 2026-02-02 09:00:00")
    assert "the policies now (documented): sampled by errors" in text.text
    assert listed.json["state"] == "decided"
    assert [vote["policy"] for vote in listed.json["now"]["votes"]] == ["errors", "rest"]
    other = run("tail", "explain", kept, "--policies", "new.yaml")
    assert "7 ms is not over 700 ms" in other.text
    assert "note: the trace was decided by other policies" in other.errors
    assert "note: limits and rates by key depend on other traces" in other.errors


def test_an_explanation_of_another_organization() -> None:
    """Traces are looked for where they belong."""
    theirs = Trace(4).id.hex()
    assert run("tail", "explain", theirs).code == 1
    assert run("tail", "explain", theirs, "--org", "globex", "--json").json["organization"] == "globex"


@pytest.mark.parametrize(
    ("trace", "code", "words"),
    [
        ("abc", 2, "'abc' is not a trace id, expected 32 hexadecimal digits"),
        ("g" * 32, 2, "expected 32 hexadecimal digits"),
        ("0" * 31 + "1", 1, "of acme: searched spans, trace_decisions, open_traces"),
    ],
)
def test_what_can_not_be_explained(trace: str, code: int, words: str) -> None:
    """An id that is none, and a trace that nobody knows."""
    refused = run("tail", "explain", trace)
    assert (refused.code, refused.text) == (code, "")
    assert words in refused.errors
