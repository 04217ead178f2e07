"""Files of rule unit tests in the format of `promtool test rules`."""

from __future__ import annotations

import glob
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import InvalidExpression
from neve.lexical.literals import LiteralError, parse_time
from neve.promql.language.parser import parse
from neve.promql.series_notation import read_labels, read_points
from neve.rules.yaml_nodes import NodeReader, Problem, Where, parse_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import yaml

    from neve.promql.histograms.native import Histogram
    from neve.promql.labels import Labels
    from neve.promql.series_notation import Point

__all__ = ["AlertTest", "ExpectedAlert", "ExpressionTest", "TestFile", "TestGroup", "read_tests"]

DEFAULT_INTERVAL_MS = 60_000
_FILE_KEYS = ("rule_files", "evaluation_interval", "group_eval_order", "fuzzy_compare", "tests")
_GROUP_KEYS = (
    "name",
    "interval",
    "input_series",
    "alert_rule_test",
    "promql_expr_test",
    "external_labels",
    "external_url",
    "start_timestamp",
)


@dataclass(frozen=True, slots=True)
class ExpectedAlert:
    """Firing alert that a test expects."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AlertTest:
    """Alerts of one name that fire at a time. The time counts from the start of the test, in milliseconds."""

    time_ms: int
    name: str
    expected: tuple[ExpectedAlert, ...]
    line: int


@dataclass(frozen=True, slots=True)
class ExpressionTest:
    """Samples of an expression at a time."""

    time_ms: int
    expression: str
    expected: tuple[tuple[Labels, float | Histogram], ...]
    line: int


@dataclass(frozen=True, slots=True)
class TestGroup:
    """Series and the tests on them."""

    __test__ = False  # not a class of pytest

    name: str
    line: int
    interval_ms: int
    series: tuple[tuple[Labels, Sequence[Point]], ...]
    alerts: tuple[AlertTest, ...]
    expressions: tuple[ExpressionTest, ...]
    external_labels: Mapping[str, str]
    external_url: str
    start_ms: int

    @property
    def last_ms(self) -> int:
        """Return the time of the last test, from the start."""
        times = [one.time_ms for one in self.alerts] + [one.time_ms for one in self.expressions]
        return max(times, default=0)


@dataclass(frozen=True, slots=True)
class TestFile:
    """Tests of one file, and its problems. A file with errors has no groups."""

    __test__ = False  # not a class of pytest

    path: str
    rule_files: tuple[Path, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS
    order: tuple[str, ...] = ()
    is_fuzzy: bool = False
    groups: tuple[TestGroup, ...] = ()
    problems: tuple[Problem, ...] = field(default=())

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Return the problems that are no warnings."""
        return tuple(one for one in self.problems if not one.is_warning)


def read_tests(path: Path) -> TestFile:
    """Return the tests of a file. A file that can't be read is a problem."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        return TestFile(str(path), problems=(Problem(str(path), 1, 1, f"can't read the file: {error.strerror}"),))
    except UnicodeDecodeError:
        return TestFile(str(path), problems=(Problem(str(path), 1, 1, "can't read the file: expected UTF-8"),))
    root, problems = parse_document(text, str(path))
    reader = NodeReader(str(path), problems)
    keys = reader.mapping(root, _FILE_KEYS)
    interval = reader.duration(keys.get("evaluation_interval")) or DEFAULT_INTERVAL_MS
    order = tuple(reader.text(one) for one in reader.sequence(keys.get("group_eval_order")))
    for name in sorted({one for one in order if order.count(one) > 1}):
        reader.add(keys["group_eval_order"], f'group name "{name}" is repeated in the evaluation order')
    files = _find_rule_files(keys.get("rule_files"), path.parent, reader)
    is_fuzzy = reader.boolean(keys.get("fuzzy_compare"))
    groups = tuple(_read_group(one, interval, reader) for one in reader.sequence(keys.get("tests")))
    found = TestFile(str(path), files, interval, order, is_fuzzy, groups, tuple(problems))
    return TestFile(str(path), problems=found.problems) if found.errors else found


def _find_rule_files(node: yaml.Node | None, folder: Path, reader: NodeReader) -> tuple[Path, ...]:
    found: list[Path] = []
    for one in reader.sequence(node):
        pattern = reader.text(one)
        matched = sorted(glob.glob(str(folder / pattern))) if pattern else []
        if not matched:
            reader.add(one, f'no file matches "{pattern}"', is_warning=True)
        found += [Path(name) for name in matched]
    return tuple(found)


def _read_group(node: yaml.Node, interval_ms: int, reader: NodeReader) -> TestGroup:
    keys = reader.mapping(node, _GROUP_KEYS)
    name = reader.text(keys.get("name"))
    inside = reader.at(Where(name))
    return TestGroup(
        name,
        node.start_mark.line + 1,
        inside.duration(keys.get("interval")) or interval_ms,
        tuple(_read_series(one, inside) for one in inside.sequence(keys.get("input_series"))),
        tuple(_read_alert_test(one, inside) for one in inside.sequence(keys.get("alert_rule_test"))),
        tuple(_read_expression_test(one, inside) for one in inside.sequence(keys.get("promql_expr_test"))),
        inside.texts(keys.get("external_labels")),
        inside.text(keys.get("external_url")),
        _read_start(keys.get("start_timestamp"), inside),
    )


def _read_series(node: yaml.Node, reader: NodeReader) -> tuple[Labels, Sequence[Point]]:
    keys = reader.mapping(node, ("series", "values"))
    labels: Labels = ()
    try:
        labels = read_labels(reader.text(keys.get("series")))
        return labels, read_points(reader.text(keys.get("values")))
    except LiteralError as error:
        reader.add(keys.get("values" if labels else "series") or node, f"input series: {error}")
        return (), ()


def _read_alert_test(node: yaml.Node, reader: NodeReader) -> AlertTest:
    keys = reader.mapping(node, ("eval_time", "alertname", "exp_alerts"))
    name = reader.text(keys.get("alertname"))
    if not name:
        reader.add(node, "alert_rule_test needs alertname")
    expected = []
    for one in reader.sequence(keys.get("exp_alerts")):
        inner = reader.mapping(one, ("exp_labels", "exp_annotations"))
        labels = {**reader.texts(inner.get("exp_labels")), "alertname": name}
        expected.append(ExpectedAlert(labels, reader.texts(inner.get("exp_annotations"))))
    return AlertTest(reader.duration(keys.get("eval_time")) or 0, name, tuple(expected), node.start_mark.line + 1)


def _read_expression_test(node: yaml.Node, reader: NodeReader) -> ExpressionTest:
    keys = reader.mapping(node, ("expr", "eval_time", "exp_samples"))
    text = reader.text(keys.get("expr"))
    try:
        parse(text)
    except InvalidExpression as error:
        reader.add(keys.get("expr") or node, f"could not parse expression: {error.message}")
    expected = tuple(_read_sample(one, reader) for one in reader.sequence(keys.get("exp_samples")))
    return ExpressionTest(reader.duration(keys.get("eval_time")) or 0, text, expected, node.start_mark.line + 1)


def _read_sample(node: yaml.Node, reader: NodeReader) -> tuple[Labels, float | Histogram]:
    keys = reader.mapping(node, ("labels", "value", "histogram"))
    number = reader.number(keys.get("value"))
    try:
        labels = read_labels(reader.text(keys.get("labels")) or "{}")
        described = reader.text(keys.get("histogram"))
        if not described:
            return labels, number
        points = read_points(described)
        if len(points) != 1 or points[0].value is None:
            raise LiteralError(f"expected one histogram, got {len(points)} values")
        return labels, points[0].value
    except LiteralError as error:
        reader.add(node, f"exp_samples: {error}")
        return (), number


def _read_start(node: yaml.Node | None, reader: NodeReader) -> int:
    """Return the start of a test in milliseconds since 1970."""
    text = reader.text(node)
    if not text:
        return 0
    moment = parse_time(text)
    if moment is None:
        reader.add(node, f'expected a time of RFC 3339 or seconds since 1970, got "{text}"')
        return 0
    return moment
