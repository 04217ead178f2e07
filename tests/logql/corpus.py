"""Runner for Loki's own test corpus (`pkg/logql/internal/logqltest/testdata`), which is read from a folder."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import QueryError
from neve.lexical.units import parse_go_duration
from neve.logql.engine import Engine
from neve.promql.series_notation import read_points
from tests.logql.memory_logs import MemoryLogs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.promql.engine import Result

_LOAD = re.compile(
    r"(?P<labels>\{.*?\})\s*(?P<line>\"[^\"]*\"|`[^`]*`)\s+@\s+(?P<at>\S+)"
    r"(?:\s+\[repeat\s+every\s+(?P<gap>\S+)\s+for\s+(?P<count>\d+)\])?(?:\s+\[metadata\s+(?P<metadata>.*)\])?\s*"
)
_METADATA = re.compile(r'("[^"]*"|[^\s=]+)="([^"]*)"')
_LABEL = re.compile(r'([a-zA-Z_][\w.]*)="((?:[^"\\]|\\.)*)"')
_INSTANT = re.compile(r"eval instant at (?P<at>\S+)\s+(?P<text>.+)")
_RANGE = re.compile(r"eval range from (?P<start>\S+) to (?P<end>\S+) step (?P<step>\S+)\s+(?P<text>.+)")
_EXPECT = re.compile(r"expect (?P<kind>empty|fail|ordered)(?: (?P<how>msg|regex): (?P<text>.+))?")
TOLERANCE = 1e-9


class Mismatch(AssertionError):
    """Raised when a result is not the expected one."""


@dataclass
class Evaluation:
    """One evaluation of the corpus with its expectations."""

    name: str
    text: str
    start_ns: int
    end_ns: int
    step_ns: int
    is_range: bool
    expects: dict[str, tuple[str, str]] = field(default_factory=dict)
    series: list[tuple[dict[str, str], list[float | None]]] = field(default_factory=list)
    scalar: float | None = None


def strip_comment(line: str) -> str:
    """Return a line without its comment. Marks in quotes don't count."""
    mark = ""
    for place, char in enumerate(line):
        if mark:
            mark = "" if char == mark else mark
        elif char in '"`':
            mark = char
        elif char == "#":
            return line[:place].rstrip()
    return line.rstrip()


def read_file(path: Path) -> Iterator[tuple[MemoryLogs, Evaluation]]:
    """Yield the evaluations of a file, each with the lines that are loaded then."""
    logs = MemoryLogs()
    current: Evaluation | None = None
    is_loading = False
    for number, raw in enumerate(path.read_text().split("\n"), 1):
        line = strip_comment(raw)
        if raw.strip() and not line.strip():  # a comment
            continue
        if line[:1] in {" ", "\t"} and line.strip():
            if is_loading:
                load(logs, line.strip())
            elif current is not None:
                expect(current, line.strip())
            continue
        if current is not None:
            yield logs, current
            current = None
        is_loading = line == "load"
        if line == "clear":
            logs = MemoryLogs()
        elif line.startswith("eval"):
            current = read_evaluation(f"{path.stem}:{number}", line)
    if current is not None:
        yield logs, current


def load(logs: MemoryLogs, text: str) -> None:
    """Add the lines of one instruction."""
    found = _LOAD.fullmatch(text)
    assert found, text
    labels = read_labels(found["labels"])
    metadata = {name.strip('"'): value for name, value in _METADATA.findall(found["metadata"] or "")}
    at, gap = parse_go_duration(found["at"]), parse_go_duration(found["gap"] or "0")
    for index in range(int(found["count"] or 1)):
        logs.add(labels, at + index * gap, found["line"][1:-1].replace("{{.i}}", str(index)), metadata)


def read_labels(text: str) -> dict[str, str]:
    """Return the labels in braces."""
    return {name: value.replace('\\"', '"').replace("\\\\", "\\") for name, value in _LABEL.findall(text)}


def read_evaluation(name: str, line: str) -> Evaluation:
    """Return an evaluation without its expectations."""
    found = _RANGE.fullmatch(line)
    if found:
        start, end, step = (parse_go_duration(found[key]) for key in ("start", "end", "step"))
        return Evaluation(name, found["text"], start, end, step, True)
    found = _INSTANT.fullmatch(line)
    assert found, line
    at = parse_go_duration(found["at"])
    return Evaluation(name, found["text"], at, at, 0, False)


def expect(evaluation: Evaluation, line: str) -> None:
    """Add a line to the expectations."""
    if line.startswith("skip "):
        return
    found = _EXPECT.fullmatch(line)
    if found:
        evaluation.expects[found["kind"]] = (found["how"] or "", found["text"] or "")
    elif line.startswith("{"):
        end = _end_of_labels(line)
        points = [one.value for one in read_points(line[end:].strip())]
        evaluation.series.append((read_labels(line[:end]), points))  # type: ignore[arg-type]  # no histograms in logs
    else:
        evaluation.scalar = float(line)


def _end_of_labels(line: str) -> int:
    is_quoted, is_escaped = False, False
    for place, char in enumerate(line):
        if is_escaped:
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == '"':
            is_quoted = not is_quoted
        elif char == "}" and not is_quoted:
            return place + 1
    raise AssertionError(line)


def run(logs: MemoryLogs, evaluation: Evaluation) -> None:
    """Evaluate and compare. Raises `Mismatch`."""
    engine = Engine(logs)
    try:
        if evaluation.is_range:
            query = (evaluation.text, evaluation.start_ns, evaluation.end_ns, evaluation.step_ns)
            result = engine.query_range(*query)
        else:
            result = engine.query(evaluation.text, evaluation.end_ns)
    except QueryError as error:
        check_error(evaluation, str(error))
        return
    if "fail" in evaluation.expects:
        raise Mismatch("expected an error")
    check_result(evaluation, result)


def check_error(evaluation: Evaluation, message: str) -> None:
    """Compare an error with the expected one."""
    if "fail" not in evaluation.expects:
        raise Mismatch(message)
    how, text = evaluation.expects["fail"]
    text = text.replace('\\"', '"') if how == "msg" else text
    if how == "msg" and text not in message and text not in message.replace('\\"', '"'):
        raise Mismatch(f"expected {text!r}, got {message!r}")
    if how == "regex" and not re.search(text, message):
        raise Mismatch(f"expected {text!r}, got {message!r}")


def check_result(evaluation: Evaluation, result: Result) -> None:
    """Compare series and values."""
    if evaluation.scalar is not None:
        found = result.scalar[1] if result.scalar else [point[1] for one in result.series for point in one.floats]
        values = found if isinstance(found, list) else [found]
        if not values or not all(is_close(one, evaluation.scalar) for one in values):
            raise Mismatch(f"expected {evaluation.scalar}, got {values}")
        return
    times = [evaluation.end_ns // 1_000_000]
    if evaluation.is_range:
        steps = (evaluation.end_ns - evaluation.start_ns) // evaluation.step_ns + 1
        times = [(evaluation.start_ns + step * evaluation.step_ns) // 1_000_000 for step in range(steps)]
    if result.scalar:
        raise Mismatch(f"expected series, got {result.scalar}")
    got = [(dict(one.labels), [dict(one.floats).get(at) for at in times]) for one in result.series]
    expected = evaluation.series
    if "ordered" not in evaluation.expects:
        got, expected = (sorted(side, key=lambda one: sorted(one[0].items())) for side in (got, expected))
    if [labels for labels, _ in got] != [labels for labels, _ in expected]:
        raise Mismatch(f"expected {expected}, got {got}")
    for (labels, points), (_, wanted) in zip(got, expected, strict=True):
        padded = wanted + [None] * (len(points) - len(wanted))
        if len(padded) != len(points) or not all(map(_is_same, points, padded)):
            raise Mismatch(f"expected {wanted} for {labels}, got {points}")


def _is_same(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return is_close(left, right)


def is_close(left: float, right: float) -> bool:
    """Return whether two numbers are equal but for rounding. NaN equals NaN."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or abs(left - right) <= TOLERANCE * max(abs(left), abs(right))
