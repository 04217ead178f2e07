"""`neve rules`: check and test recording and alerting rules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import escape_controls, json_option, print_json, print_note, print_text
from neve.text import format_count

if TYPE_CHECKING:
    from neve.rules.rule_file import RuleFile
    from neve.rules.unit_test_file import TestFile
    from neve.rules.unit_test_run import Failure
    from neve.rules.yaml_nodes import Problem

FILES = click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False))


@click.group()
def rules() -> None:
    """Check and test recording and alerting rules in Prometheus' format.

    \b
    Examples:
      neve rules check rules.yml
      neve rules test rules-test.yml
    """


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
