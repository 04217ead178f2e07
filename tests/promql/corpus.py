"""Runner for Prometheus' own test corpus (`promql/promqltest/testdata`), which is read from a folder."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.errors import QueryError
from neve.lexical.literals import LiteralError, parse_duration, parse_number, unquote
from neve.promql.engine import Engine, Result, SeriesResult
from neve.promql.evaluator import Options
from neve.promql.histograms.native import Histogram
from neve.promql.labels import Labels, format_labels
from neve.promql.language.parser import parse
from neve.promql.language.printer import format_expression
from neve.promql.language.syntax import (
    Aggregate,
    Binary,
    Call,
    Node,
    Paren,
    RangeSelector,
    Subquery,
    Unary,
    VectorSelector,
    walk,
)
from neve.promql.series import MemorySource, Sample, is_stale
from neve.promql.series_notation import Point, add_hints, read_series, read_start_times
from tests.promql.corpus_series import convert_classic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOLERANCE = 1e-6
_SMALLEST = float(np.finfo(np.float64).smallest_normal)
_INSTANT = re.compile(r"eval(?:_(?P<mode>fail|warn|ordered|info))?\s+instant\s+at\s+(?P<at>\S+)\s+(?P<text>.+)")
_INSTANT_NOW = re.compile(r"eval(?:_(?P<mode>fail|warn|ordered|info))?\s+instant\s+(?P<text>.+)")
_RANGE = re.compile(
    r"eval(?:_(?P<mode>fail|warn|info))?\s+range\s+from\s+(?P<start>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+)"
    r"\s+(?P<text>.+)"
)
_EXPECT = re.compile(r"expect\s+(ordered|fail|warn|no_warn|info|no_info)(?:\s+(regex|msg):(.+))?")
_EXPECT_RANGE = re.compile(r"expect range vector\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)")
_TIME_DEPENDENT = frozenset(
    [
        "days_in_month",
        "day_of_month",
        "day_of_week",
        "day_of_year",
        "end",
        "hour",
        "minute",
        "month",
        "year",
        "predict_linear",
        "range",
        "start",
        "step",
        "time",
        "timestamp",
    ]
)
_QUERY_DEPENDENT = re.compile(r"(start|end|range|step)\(\)")


@dataclass
class Evaluation:
    """One evaluation of the corpus with its expectations."""

    name: str
    text: str
    start_ms: int
    end_ms: int
    step_ms: int
    is_range: bool
    expects: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    series: dict[Labels, tuple[int, list[Point]]] = field(default_factory=dict)
    scalar: float | None = None
    string: str | None = None
    lists_samples: bool = False


class Mismatch(AssertionError):
    """Raised when a result is not the expected one."""


def read_file(path: Path) -> Iterator[tuple[MemorySource, Evaluation]]:
    """Yield the evaluations of a file, each with the series that are loaded then."""
    lines = [_strip(line) for line in path.read_text().split("\n")]
    source, at = MemorySource(), 0
    while at < len(lines):
        line = lines[at]
        if not line:
            at += 1
            continue
        block: list[str] = []
        while at + 1 < len(lines) and lines[at + 1]:
            block.append(lines[at + 1])
            at += 1
        at += 1
        if line == "clear":
            source = MemorySource()
            at -= len(block)
        elif line.startswith("load"):
            _load(source, line, block)
        elif line.startswith("eval"):
            number = at - len(block)
            evaluation, used = _read_evaluation(f"{path.stem}:{number}", line, block)
            at -= len(block) - used
            yield source, evaluation


def _strip(line: str) -> str:
    line = line.strip()
    return "" if line.startswith("#") else line


def _load(source: MemorySource, line: str, block: list[str]) -> None:
    command, gap = line.split()[:2]
    gap_ms = parse_duration(gap)
    starts: list[int | None] = []
    loaded: list[tuple[Labels, list[Sample]]] = []
    for one in block:
        head, _, rest = one.partition(" ")
        if head.endswith("@st"):
            starts = read_start_times(rest)
            continue
        labels, points = read_series(one)
        samples: list[Sample] = []
        for index, point in enumerate(points):
            if point.value is not None:
                shift = starts[index] if starts else None
                samples.append((index * gap_ms, point.value, 0 if shift is None else index * gap_ms + shift))
        loaded.append((labels, samples))
        starts = []
    if command == "load_with_nhcb":
        loaded += convert_classic(loaded)
    for labels, samples in loaded:
        known = source.samples(labels)
        source.add(labels, add_hints(samples, known[-1][1] if known else None))


def _read_evaluation(name: str, line: str, block: list[str]) -> tuple[Evaluation, int]:
    found = _RANGE.match(line)
    if found:
        start, end, step = (parse_duration(found[key]) for key in ("start", "end", "step"))
        evaluation = Evaluation(name, found["text"], start, end, step, True)
    else:
        found = _INSTANT.match(line) or _INSTANT_NOW.match(line)
        assert found, line
        at = parse_duration(found["at"]) if "at" in found.groupdict() else 0
        evaluation = Evaluation(name, found["text"], at, at, 0, False)
    if found["mode"]:
        evaluation.expects.setdefault(found["mode"], []).append(("regex", ".*"))
    used = 0
    for position, one in enumerate(block):
        if one.split()[0] in {"load", "load_with_nhcb", "clear", "eval"} or one.startswith("eval_"):
            break
        used = position + 1
        if _read_expectation(evaluation, one, position):
            break
    return evaluation, used


def _read_expectation(evaluation: Evaluation, line: str, position: int) -> bool:
    """Add a line to the expectations, and return whether it ends them."""
    found = _EXPECT_RANGE.match(line)
    if found:
        evaluation.start_ms, evaluation.end_ms, evaluation.step_ms = (parse_duration(one) for one in found.groups())
        evaluation.lists_samples = True
        return False
    if line.startswith("expect string"):
        evaluation.string = unquote(line.removeprefix("expect string").strip(), keep_invalid=True)
        return False
    if line.split(maxsplit=1)[0] == "expect":
        found = _EXPECT.match(line)
        assert found, line
        evaluation.expects.setdefault(found[1], []).append((found[2] or "regex", (found[3] or ".*").strip()))
        return False
    if line.startswith(("expected_fail_message", "expected_fail_regexp")):
        kind = "msg" if "message" in line else "regex"
        evaluation.expects["fail"] = [(kind, line.split(" ", 1)[1].strip())]
        return True
    try:
        evaluation.scalar = parse_number(line)
    except LiteralError:
        labels, points = read_series(line)
        evaluation.series[labels] = (position, points)
        return False
    return True


def run(source: MemorySource, evaluation: Evaluation) -> None:
    """Evaluate and compare. Raises `Mismatch`."""
    engine = Engine(source, Options(uses_start_times=True, max_samples=10_000_000))
    if evaluation.is_range:
        query = (evaluation.text, evaluation.start_ms, evaluation.end_ms, evaluation.step_ms)
        _compare(evaluation, engine, lambda: engine.query_range(*query), evaluation.text)
        return
    for text, at in [(evaluation.text, evaluation.end_ms), *_fixed_times(evaluation)]:
        result = _compare(evaluation, engine, lambda text=text, at=at: engine.query(text, at), text)
        if result is not None and not evaluation.lists_samples and evaluation.string is None:
            _compare_middle(evaluation, engine, text, at, result)


def _compare(evaluation: Evaluation, engine: Engine, evaluate: Any, text: str) -> Result | None:
    try:
        result: Result = evaluate()
    except QueryError as error:
        if "fail" not in evaluation.expects:
            raise Mismatch(f"{text}: {error}") from error
        _check_message(evaluation.expects["fail"][0], [str(error)], "error")
        return None
    if "fail" in evaluation.expects:
        raise Mismatch(f"{text}: expected an error")
    for kind, found in (("warn", result.warnings), ("info", result.infos)):
        _check_annotations(evaluation, kind, list(found))
    _check_result(evaluation, result)
    return result


def _fixed_times(evaluation: Evaluation) -> list[tuple[str, int]]:
    """Return the same query with `@` on all selectors, at other times: the result must be the same."""
    node = parse(evaluation.text)
    if any(isinstance(one, Call) and one.function in _TIME_DEPENDENT for one in walk(node)):
        return []
    at = evaluation.end_ms
    times = [-10 * at, 0, at // 5, at, 10 * at] if at else [-1000, 0, 1000]
    text = format_expression(_fix(node, at))
    return [(text, one) for one in times]


def _fix(node: Node, at: int) -> Node:
    if isinstance(node, RangeSelector):
        fixed = _fix(node.selector, at)
        assert isinstance(fixed, VectorSelector)
        return replace(node, selector=fixed)
    if isinstance(node, VectorSelector | Subquery):
        return node if node.timing.has_at else replace(node, timing=replace(node.timing, at_ms=at))
    if isinstance(node, Call):
        return replace(node, arguments=tuple(_fix(one, at) for one in node.arguments))
    if isinstance(node, Aggregate):
        parameter = None if node.parameter is None else _fix(node.parameter, at)
        return replace(node, expression=_fix(node.expression, at), parameter=parameter)
    if isinstance(node, Binary):
        return replace(node, left=_fix(node.left, at), right=_fix(node.right, at))
    return replace(node, expression=_fix(node.expression, at)) if isinstance(node, Unary | Paren) else node


def _compare_middle(evaluation: Evaluation, engine: Engine, text: str, at: int, instant: Result) -> None:
    """Compare the middle step of a range query with the instant query."""
    if _QUERY_DEPENDENT.search(text):
        return
    try:
        result = engine.query_range(text, at - 60_000, at + 60_000, 60_000)
    except QueryError as error:
        raise Mismatch(f"{text} as a range: {error}") from error
    if "ordered" in evaluation.expects:
        return
    series = []
    for one in result.series:
        floats = [point for point in one.floats if point[0] == at]
        histograms = [point for point in one.histograms if point[0] == at]
        if floats or histograms:
            series.append(SeriesResult.of_points(one.labels, floats, histograms))
    if instant.kind == "scalar":
        _check_result(evaluation, replace(instant, scalar=series[0].floats[0]))
    else:
        _check_result(evaluation, replace(instant, series=series))


def _check_message(expected: tuple[str, str], found: list[str], what: str) -> None:
    kind, text = expected
    matches = [one == text if kind == "msg" else re.search(text, one) is not None for one in found]
    if not any(matches):
        raise Mismatch(f"expected {what} {kind} {text!r}, got {found}")


def _check_annotations(evaluation: Evaluation, kind: str, found: list[str]) -> None:
    expected = evaluation.expects.get(kind, [])
    for one in expected:
        _check_message(one, found, kind)
    if f"no_{kind}" in evaluation.expects and found:
        raise Mismatch(f"unexpected {kind}: {found}")
    for text in found if expected else []:
        _check_one_of(expected, text, kind)


def _check_one_of(expected: list[tuple[str, str]], text: str, kind: str) -> None:
    if not any(text == one if how == "msg" else re.search(one, text) for how, one in expected):
        raise Mismatch(f"unexpected {kind}: {text}")


def is_close(left: float, right: float) -> bool:
    """Return whether two numbers are equal but for rounding. NaN equals NaN."""
    stale = is_stale(np.array([left, right]))
    if stale.any():
        return bool(stale.all())
    if (math.isnan(left) and math.isnan(right)) or left == right:
        return True
    total, difference = abs(left) + abs(right), abs(left - right)
    if left == 0 or right == 0 or total < _SMALLEST:
        return difference < TOLERANCE * _SMALLEST
    return difference / min(total, float(np.finfo(np.float64).max)) < TOLERANCE


def _check_result(evaluation: Evaluation, result: Result) -> None:
    if result.kind == "string":
        if result.text != evaluation.string:
            raise Mismatch(f"expected {evaluation.string!r}, got {result.text!r}")
        return
    if (result.kind == "scalar") != (evaluation.scalar is not None):
        raise Mismatch(f"expected scalar {evaluation.scalar}, got a {result.kind}: {result.series}")
    if result.scalar is not None and evaluation.scalar is not None:
        if not is_close(result.scalar[1], evaluation.scalar):
            raise Mismatch(f"expected {evaluation.scalar}, got {result.scalar[1]}")
        return
    for position, one in enumerate(result.series):
        if one.labels not in evaluation.series:
            raise Mismatch(
                f"unexpected series {format_labels(one.labels)}: {one.floats} {[str(h) for _, h in one.histograms]}"
            )
        expected_position, points = evaluation.series[one.labels]
        if "ordered" in evaluation.expects and _rank(evaluation, expected_position) != position:
            raise Mismatch(f"{format_labels(one.labels)} is at position {position}")
        _check_points(evaluation, one, points)
    missing = set(evaluation.series) - {one.labels for one in result.series}
    if missing:
        raise Mismatch(f"missing series: {', '.join(format_labels(one) for one in sorted(missing))}")


def _rank(evaluation: Evaluation, position: int) -> int:
    return sorted(place for place, _ in evaluation.series.values()).index(position)


def _check_points(evaluation: Evaluation, found: SeriesResult, points: list[Point]) -> None:
    name = format_labels(found.labels)
    if evaluation.is_range or evaluation.lists_samples:
        times = [evaluation.start_ms + index * evaluation.step_ms for index in range(len(points))]
    else:
        moments = [*found.floats, *found.histograms]
        times = [moments[0][0]] * len(points)
    expected = {at: point for at, point in zip(times, points, strict=True) if point.value is not None}
    got: dict[int, float | Histogram] = {**dict(found.floats), **dict(found.histograms)}
    if set(expected) != set(got):
        raise Mismatch(f"{name}: expected times {sorted(expected)}, got {sorted(got)}")
    for at, point in expected.items():
        value = got[at]
        if isinstance(value, Histogram) != isinstance(point.value, Histogram):
            raise Mismatch(f"{name} at {at}: expected {point.value}, got {value}")
        if isinstance(value, Histogram) and isinstance(point.value, Histogram):
            _check_histogram(f"{name} at {at}", point, value)
        elif not is_close(value, point.value):  # type: ignore[arg-type]  # two floats
            raise Mismatch(f"{name} at {at}: expected {point.value}, got {value}")


def _check_histogram(name: str, point: Point, found: Histogram) -> None:
    expected = point.value
    assert isinstance(expected, Histogram)
    mine, other = found.compact(), expected.compact()
    layout = (mine.schema, mine.zero_threshold, mine.bounds)
    is_same = layout == (other.schema, other.zero_threshold, other.bounds)
    pairs = [(mine.count, other.count), (mine.sum, other.sum), (mine.zero_count, other.zero_count)]
    for ours, theirs in ((mine.positive, other.positive), (mine.negative, other.negative)):
        is_same = is_same and ours.indexes.tolist() == theirs.indexes.tolist()
        pairs += list(zip(ours.counts.tolist(), theirs.counts.tolist(), strict=False))
    if not is_same or not all(is_close(*pair) for pair in pairs):
        raise Mismatch(f"{name}: expected {expected}, got {found}")
    if point.has_hint and found.hint is not expected.hint:
        raise Mismatch(f"{name}: expected hint {expected.hint}, got {found.hint}")
