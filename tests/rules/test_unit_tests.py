"""Rule unit tests: verdicts of our files, the same as those of promtool where it is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from neve.rules.unit_test_file import read_tests
from neve.rules.unit_test_run import Failure, run_tests
from tests.cli.runner import run
from tests.docs.markdown import ROOT, split_code
from tests.parts import promtool
from tests.parts.cache import home

CASES = Path(__file__).parent / "cases"
OUTSIDE = "prometheus/cmd/promtool/testdata"

PASSING = ("shop-test", "offsets-test", "stale-test", "templates-test")
FAILING = {
    "wrong-test": 'alerts "Down" at 0s differ',
    "nan-test": "x at 0s differs",
    "unknown-key-test": 'unknown key "input_serie"',
    "missing-name-test": "alert_rule_test needs alertname",
    "twice-test": "duplicate sample for timestamp",
    "empty-label-test": 'alerts "Many" at 0s differ',
    "limits-test": "exceeded limit of 2 with 3",
}
# Verdicts of Prometheus' own test of promtool.
CORPUS = {
    "unittest": True,
    "long-period": True,
    "no-test-group-interval": True,
    "start-time-test": True,
    "at-modifier-test": True,
    "negative-offset-test": True,
    "bad-input-series": False,
    "bad-promql": False,
    "bad-rules-syntax-test": False,
    "bad-rules-error-test": False,
    "failing": False,
    "rules_run": False,
    "rules_run_fuzzy": False,
    "rules_run_no_fuzzy": False,
    "rules_run_extrafields": False,
}


def failures(name: str) -> list[Failure]:
    """Return the failures of one of our files."""
    return run_tests(read_tests(CASES / f"{name}.yml"))


@pytest.mark.parametrize("name", PASSING)
def test_passing(name: str) -> None:
    """A file whose expectations are right passes."""
    assert failures(name) == []


@pytest.mark.parametrize("name", FAILING)
def test_failing(name: str) -> None:
    """A file whose expectations are wrong fails with the reason."""
    assert FAILING[name] in failures(name)[0].message


def test_all_files_have_a_verdict() -> None:
    """No test file is forgotten here."""
    assert {path.stem for path in CASES.glob("*-test.yml")} == {*PASSING, *FAILING}


def test_differences() -> None:
    """A failure names line, test, and both results."""
    found = failures("wrong-test")[0]
    assert (found.line, found.test) == (7, "an alert that does not fire is expected")
    assert found.expected == ('labels {alertname="Down", instance="b", job="a"}, annotations {}',)
    assert found.actual == ()


def test_command() -> None:
    """`neve rules test` prints verdicts and differences, and exits with 1 if a test fails."""
    good = run("rules", "test", str(CASES / "stale-test.yml"))
    assert (good.code, good.text) == (0, f"{CASES / 'stale-test.yml'}: 1 test passed\n")
    bad = run("rules", "test", str(CASES / "stale-test.yml"), str(CASES / "wrong-test.yml"))
    assert bad.code == 1
    assert "wrong-test.yml: 1 failure" in bad.text
    assert "    actual: nothing" in bad.text
    document = run("rules", "test", "--json", str(CASES / "wrong-test.yml"))
    assert document.code == 1
    assert document.json[0]["failures"][0]["line"] == 7


def test_check_command(tmp_path: Path) -> None:
    """`neve rules check` prints problems on standard error, and exits with 1 if there are errors."""
    good = run("rules", "check", str(CASES / "shop.yml"))
    assert (good.code, good.text) == (0, f"{CASES / 'shop.yml'}: 4 rules in 2 groups, no errors\n")
    (tmp_path / "bad.yml").write_text("groups:\n- name: g\n  rules:\n  - {record: r, expr: 'sum('}\n")
    bad = run("rules", "check", str(tmp_path / "bad.yml"))
    assert bad.code == 1
    assert f'error: {tmp_path}/bad.yml:4:23: group "g", rule 1 "r": could not parse expression: 1:5:' in bad.errors
    document = run("rules", "check", "--json", str(CASES / "twice.yml"))
    assert document.code == 0
    assert [one["level"] for one in document.json[0]["problems"]] == ["warning"]


def test_page(tmp_path: Path) -> None:
    """The rule file and the tests on the page of rules pass."""
    blocks = split_code((ROOT / "docs" / "rules.md").read_text(encoding="utf-8"))[1]
    texts = ["\n".join(block.lines) for block in blocks if block.language == "yaml"]
    for name, text in zip(("rules.yml", "neve.yaml", "rules-test.yml"), texts, strict=True):
        (tmp_path / name).write_text(text)
    assert run_tests(read_tests(tmp_path / "rules-test.yml")) == []


@pytest.mark.parts
def test_promtool_agrees() -> None:
    """Promtool has the same verdict on each of our files."""
    program = promtool.program()
    if not program.exists():
        pytest.skip(f"promtool {promtool.VERSION} is absent: make parts")
    verdicts = {}
    for name in (*PASSING, *FAILING):
        command = [str(program), "test", "rules", str(CASES / f"{name}.yml")]
        verdicts[name] = subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    assert verdicts == dict.fromkeys(PASSING, True) | dict.fromkeys(FAILING, False)


@pytest.mark.outside
@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Prometheus' own files of rule tests have the verdicts that promtool gives them."""
    if "outside" not in (request.config.option.markexpr or ""):
        pytest.skip("runs by make test-outside")
    folder = Path(os.environ.get("NEVE_OUTSIDE") or home() / "outside") / OUTSIDE
    if not folder.exists():
        pytest.skip(f"{OUTSIDE} is absent: see tests/outside/README.md")
    shutil.copytree(folder, tmp_path / "testdata")
    found = run_tests(read_tests(tmp_path / "testdata" / f"{name}.yml"))
    assert (not found) == CORPUS[name], found
