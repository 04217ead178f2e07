"""`neve rules`: check, test, replay and run recording and alerting rules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from neve.cli.alerting.rules_run import explain, run, status
from neve.cli.output import (
    escape_controls,
    json_option,
    org_option,
    print_json,
    print_note,
    print_table,
    print_text,
    progress_bar,
)
from neve.cli.time_options import SinceParam, TimeParam
from neve.text import format_count

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context
    from neve.rules.rule_file import RuleFile
    from neve.rules.simulation import AlertPeriod, Simulation
    from neve.rules.unit_test_file import TestFile
    from neve.rules.unit_test_run import Failure
    from neve.rules.yaml_nodes import Problem

FILES = click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False))


@click.group(short_help="Check, test, replay and run rules of Prometheus.")
def rules() -> None:
    """Check, test, replay and run recording and alerting rules in Prometheus' format.

    \b
    Examples:
      neve rules check rules.yml
      neve rules test rules-test.yml
      neve rules simulate rules.yml --since 30d
      neve rules run --once rules.yml
      neve rules explain HighErrors
    """


rules.add_command(run)
rules.add_command(status)
rules.add_command(explain)


@rules.command()
@FILES
@json_option
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Check rule files: YAML, expressions, labels and templates.

    Prints each problem with file, line, group and rule. Exits with 1 if there are errors. Warnings are no errors.
    """
    from pathlib import Path

    from neve.rules.rule_file import read_rules

    found = [read_rules(Path(name)) for name in files]
    if as_json:
        print_json([_describe_file(one) for one in found])
    else:
        for one in found:
            _print_file(one)
    if any(one.errors for one in found):
        sys.exit(1)


@rules.command()
@FILES
@json_option
def test(files: tuple[str, ...], as_json: bool) -> None:
    """Run unit tests of rules, in the format of `promtool test rules`.

    Each test loads series, evaluates the rules, and compares firing alerts and results of expressions. Exits with 1 if
    a test fails.
    """
    from pathlib import Path

    from neve.rules.unit_test_file import read_tests
    from neve.rules.unit_test_run import run_tests

    failed = False
    documents = []
    for name in files:
        tests = read_tests(Path(name))
        failures = run_tests(tests)
        failed = failed or bool(failures)
        documents.append(
            {"file": name, "tests": len(tests.groups), "failures": [_describe_failure(f) for f in failures]}
        )
        if not as_json:
            _print_tests(tests, failures)
    if as_json:
        print_json(documents)
    if failed:
        sys.exit(1)


@rules.command(name="simulate", short_help="Replay rules over the past, and show alerts.")
@FILES
@click.option(
    "--since", type=SinceParam(), default="1d", show_default=True, metavar="TIME", help="Start of the replay."
)
@click.option("--until", type=TimeParam(past=True), metavar="TIME", help="End of the replay.  [default: now]")
@click.option(
    "--interval", default="1m", show_default=True, metavar="DURATION", help="Interval of groups that have none."
)
@org_option
@json_option
@click.pass_obj
def simulate_command(
    context: Context,
    files: tuple[str, ...],
    since: datetime,
    until: datetime | None,
    interval: str,
    org: str | None,
    as_json: bool,
) -> None:
    """Replay rule files over the metrics of an organization: which alerts would have fired, and when.

    Nothing is stored and nothing is sent. Rules see the results of the rules before them.
    """
    from pathlib import Path

    from neve.app.rules.evaluation import open_rule_series
    from neve.lake.calendar import now_utc
    from neve.rules.evaluation import EvaluationOptions
    from neve.rules.rule_file import load_rules
    from neve.rules.simulation import simulate

    groups = load_rules(Path(name) for name in files)
    options = EvaluationOptions(_parse_interval(interval))
    start, end = (int(moment.timestamp() * 1000) for moment in (since, until or now_utc()))
    with (
        progress_bar(enabled=not as_json) as bar,
        open_rule_series(context.settings, context.lake, context.organization(org)) as source,
    ):
        found = simulate(groups, source, start, end, options, bar)
    if as_json:
        print_json(found.as_document())
    else:
        _print_simulation(found)


def _parse_interval(text: str) -> int:
    from neve.lexical.literals import LiteralError, parse_duration

    try:
        milliseconds = parse_duration(text)
    except LiteralError:
        milliseconds = 0
    if milliseconds < 1000:
        raise click.BadParameter(f"{text!r} is not a duration of at least 1s, expected one like 30s or 1m")
    return milliseconds


def _print_simulation(found: Simulation) -> None:
    rows = [
        (
            *(one.group, one.rule, one.kind, f"{one.steps:,}"),
            *(f"{number:,}" for number in (one.firing_count, len(one.periods), one.notifications, one.failures)),
        )
        for one in found.rules
    ]
    headers = ("group", "rule", "kind", "evaluations", "fired", "active", "notifications", "failures")
    print_table(headers, rows, right=(3, 4, 5, 6, 7))
    periods = [period for one in found.rules for period in one.periods]
    if periods:
        print_text()
        columns = ("alert", "active since", "fired at", "ended at", "peak")
        print_table(columns, [_format_period(period) for period in periods], right=(4,))
    for one in found.rules:
        for text in filter(None, (one.note, f"the last failure: {one.error}" if one.error else "")):
            print_note(escape_controls(f"note: {one.rule}: {text}"))


def _format_period(period: AlertPeriod) -> tuple[str, ...]:
    from neve.promql.labels import format_labels
    from neve.rules.simulation import format_time

    labels = format_labels(tuple(pair for pair in period.labels if pair[0] != "alertname"))
    fired = format_time(period.fired_at_ms) if period.fired_at_ms is not None else "never"
    ended = format_time(period.ended_at_ms) if period.ended_at_ms is not None else "still active"
    return f"{period.rule}{labels}", format_time(period.active_at_ms), fired, ended, f"{period.peak:.6g}"


def _describe_file(file: RuleFile) -> dict[str, Any]:
    return {
        "file": file.path,
        "groups": len(file.groups),
        "rules": sum(len(group.rules) for group in file.groups),
        "problems": [_describe_problem(one) for one in file.problems],
    }


def _describe_problem(one: Problem) -> dict[str, Any]:
    return {
        "level": "warning" if one.is_warning else "error",
        "line": one.line,
        "column": one.column,
        "group": one.where.group,
        "rule": one.where.rule or None,
        "name": one.where.name,
        "message": one.message,
    }


def _print_file(file: RuleFile) -> None:
    for one in file.problems:
        print_note(escape_controls(f"{'warning' if one.is_warning else 'error'}: {one}"))
    if not file.errors:
        count = sum(len(group.rules) for group in file.groups)
        groups = format_count(len(file.groups), "group")
        print_text(escape_controls(f"{file.path}: {format_count(count, 'rule')} in {groups}, no errors"))


def _describe_failure(one: Failure) -> dict[str, Any]:
    return {
        "file": one.path,
        "line": one.line,
        "test": one.test,
        "message": one.message,
        "expected": list(one.expected),
        "actual": list(one.actual),
    }


def _print_tests(tests: TestFile, failures: list[Failure]) -> None:
    for problem in tests.problems:
        if problem.is_warning:
            print_note(escape_controls(f"warning: {problem}"))
    if not failures:
        print_text(escape_controls(f"{tests.path}: {format_count(len(tests.groups), 'test')} passed"))
        return
    print_text(escape_controls(f"{tests.path}: {format_count(len(failures), 'failure')}"))
    for one in failures:
        name = f'"{one.test}": ' if one.test else ""
        print_text(escape_controls(f"  {one.path}:{one.line}: {name}{one.message}"))
        if one.expected or one.actual:
            for word, lines in (("expected", one.expected), ("actual", one.actual)):
                print_text(f"    {word}:{'' if lines else ' nothing'}")
                for line in lines:
                    print_text(escape_controls(f"      {line}"))
