"""Dashboards, rules and runbooks name metrics, labels, settings and pages that exist."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from deploy.generate import list_stale, main, write
from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.grafana import render, select_job
from tools.metric_catalog import read_catalog, series_labels

from neve.promql.language.parser import parse
from neve.promql.language.syntax import Aggregate, VectorSelector, walk
from neve.rules.rule_file import Group, read_rules
from neve.rules.unit_test_file import read_tests
from neve.rules.unit_test_run import run_tests
from tests.docs.markdown import ROOT
from tests.parts import promtool

RULES = ROOT / "deploy" / "monitoring" / "prometheus"
TESTS = ("rules-test.yaml", "rules-days-test.yaml")
RUNBOOKS = ROOT / "docs" / "deploy" / "runbooks"
# Labels that Prometheus or the supervisor adds, and metrics that the client library and Prometheus have.
OUTSIDE_LABELS = {"job", "instance", "process"}
OUTSIDE_METRICS = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}
SETTING = re.compile(
    r"`((?:serve|receiver|raw|ingest|kafka|compact|query|tail|rules|maintain|spark|catalog)\.[a-z_.]+)`"
)


@cache
def groups() -> tuple[Group, ...]:
    """Return the groups of the rule file."""
    found = read_rules(RULES / "rules.yaml")
    assert not found.problems
    return found.groups


def expressions() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every expression of dashboards and rules, as Prometheus gets it."""
    for dashboard in DASHBOARDS:
        for row in dashboard.rows:
            for panel in row.panels:
                for query in panel.queries:
                    text = select_job(query.expression).replace("$__rate_interval", "5m").replace("$job", "neve")
                    yield f"{dashboard.name}: {panel.title}", text
    for group in groups():
        for rule in group.rules:
            yield rule.name, rule.expression


def find_problems(expression: str) -> list[str]:
    """Return the metrics and labels of an expression that do not exist."""
    labels = series_labels(read_catalog())
    recorded = {rule.name for group in groups() for rule in group.rules if not rule.is_alert}
    root, known = parse(expression), set(OUTSIDE_LABELS)
    problems: list[str] = []
    for node in walk(root):
        if isinstance(node, VectorSelector):
            metric = node.name
            if metric not in labels and metric not in OUTSIDE_METRICS | recorded:
                problems.append(f"no metric {metric}")
            mine = OUTSIDE_LABELS | labels.get(metric, frozenset())
            known |= mine
            problems += [f"{metric} has no label {one.name}" for one in node.matchers if one.name not in mine]
    grouping = [label for node in walk(root) if isinstance(node, Aggregate) for label in node.labels]
    return problems + [f"no metric of the expression has the label {one}" for one in grouping if one not in known]


@pytest.mark.slow
def test_expressions_use_what_exists() -> None:
    """Every query parses, and its metrics and labels are registered by the code."""
    assert {place: found for place, text in expressions() if (found := find_problems(text))} == {}


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("rate(neve_query_row_total[5m])", "no metric neve_query_row_total"),
        ('neve_query_rows_total{task="x"}', "neve_query_rows_total has no label task"),
        ("sum by (level) (neve_query_running)", "no metric of the expression has the label level"),
    ],
)
def test_wrong_expressions_are_found(expression: str, problem: str) -> None:
    """A misspelled metric, a label of another metric and a grouping by nothing are problems."""
    assert find_problems(expression) == [problem]


def test_catalog_has_registered_metrics() -> None:
    """The catalog has the metrics that modules register, with their labels and kinds."""
    from neve.jobs import metrics as jobs
    from neve.receive.metrics import ReceiverMetrics

    known = {metric.name: metric for metric in read_catalog()}
    families = [*ReceiverMetrics().registry.collect(), *jobs.JOB_SECONDS.collect(), *jobs.ATTEMPTS.collect()]
    for family in families:
        found = known[f"{family.name}_total" if family.type == "counter" else family.name]
        assert (found.kind, found.help) == (family.type, family.documentation)
    assert known["neve_work_attempts_total"].labels == ("task", "state")
    assert known["neve_receiver_requests_total"].labels == ("signal", "transport", "status")
    assert known["neve_store_calls_total"].labels == ("operation", "scheme")
    assert known["neve_serve_part_restarts_total"].labels == ("part",)
    assert known["neve_traces_files_missing"].labels == ("table",)


def test_dashboards_are_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON files are those of the code, and a changed or superfluous one is named."""
    assert list_stale() == []
    write(tmp_path)
    (tmp_path / "monitoring/grafana/old.json").write_text("{}")
    (tmp_path / "monitoring/grafana/ingest.json").unlink()
    assert list_stale(tmp_path) == ["monitoring/grafana/ingest.json", "monitoring/grafana/old.json"]
    assert main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_dashboards_are_well_formed() -> None:
    """Ids are unique, panels neither overlap nor leave the grid, and each has a query."""
    assert len({one.uid for one in DASHBOARDS}) == len(DASHBOARDS)
    for dashboard in DASHBOARDS:
        panels = json.loads(json.dumps(render(dashboard)))["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        cells = [
            (x, y)
            for place in (panel["gridPos"] for panel in panels)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        assert len(set(cells)) == len(cells)
        assert max(x for x, _y in cells) < 24
        assert all(panel["type"] == "row" or panel["targets"] for panel in panels)


def test_each_alert_has_a_runbook() -> None:
    """Alerts have a severity, a summary and a page; pages without an alert do not exist."""
    alerts = [rule for group in groups() for rule in group.rules if rule.is_alert]
    for rule in alerts:
        assert dict(rule.labels)["severity"] in {"critical", "warning"}, rule.name
        assert dict(rule.annotations)["summary"], rule.name
        assert dict(rule.annotations)["runbook"] == f"docs/deploy/runbooks/{rule.name}.md"
    assert sorted(path.stem for path in RUNBOOKS.glob("Neve*.md")) == sorted(rule.name for rule in alerts)
    index = (RUNBOOKS.parent / "monitoring.md").read_text(encoding="utf-8")
    assert [rule.name for rule in alerts if f"(runbooks/{rule.name}.md)" not in index] == []


def test_runbooks_name_settings_that_exist() -> None:
    """Each setting of a runbook is on the page of the configuration."""
    known = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = {name for path in RUNBOOKS.glob("*.md") for name in SETTING.findall(path.read_text(encoding="utf-8"))}
    assert sorted(name for name in named if f"`{name}`" not in known) == []


def test_each_alert_is_tested_both_ways() -> None:
    """Each alert has a time at which it fires, and one at which it does not."""
    cases = [
        case
        for name in TESTS
        for test in yaml.safe_load((RULES / name).read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    alerts = {rule.name for group in groups() for rule in group.rules if rule.is_alert}
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == alerts
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == alerts


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_rule_tests_pass(name: str) -> None:
    """Neve's own evaluation of the rules passes their tests."""
    assert run_tests(read_tests(RULES / name)) == []


@pytest.mark.parts
def test_promtool_agrees() -> None:
    """Promtool accepts the rules and passes their tests."""
    program = promtool.program()
    if not program.exists():
        pytest.skip(f"promtool {promtool.VERSION} is absent: make parts")
    for command in (["check", "rules", "rules.yaml"], ["test", "rules", *TESTS]):
        subprocess.run([program, *command], cwd=RULES, check=True, capture_output=True, timeout=120)


@pytest.mark.parts
def test_promtool_parses_dashboards(tmp_path: Path) -> None:
    """Promtool parses every query of the dashboards as a recording rule."""
    program = promtool.program()
    if not program.exists():
        pytest.skip(f"promtool {promtool.VERSION} is absent: make parts")
    rules = [{"record": f"q{number}", "expr": text} for number, (_place, text) in enumerate(expressions())]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    subprocess.run([program, "check", "rules", file], check=True, capture_output=True, timeout=60)
