"""Series in the notation of Prometheus' tests.

A line is a series and its values, such as `x{a="b"} 1+2x3 _ stale {{schema:0 count:2 sum:3 buckets:[2]}}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import InvalidExpression
from neve.lexical.literals import LiteralError, parse_duration, parse_number
from neve.lexical.matchers import MatchKind
from neve.promql.histograms.arithmetic import add, has_reset, subtract
from neve.promql.histograms.native import Histogram, ResetHint, make_buckets
from neve.promql.labels import Labels, make_labels
from neve.promql.language.parser import parse
from neve.promql.language.syntax import VectorSelector
from neve.promql.series import STALE, Sample, is_stale

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Point", "add_hints", "read_histogram", "read_labels", "read_points", "read_series", "read_start_times"]

MAX_POINTS = 1_000_000  # of a series
_NUMBER = r"(?:[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+\.|inf|nan)"
_ITEM = re.compile(rf"(?P<base>[+-]?{_NUMBER}|stale|_)(?P<step>[+-]{_NUMBER})?(?:x(?P<times>[0-9]+))?", re.IGNORECASE)
_HISTOGRAM = re.compile(r"\{\{(?P<base>.*?)\}\}(?:(?P<sign>[+-])\{\{(?P<step>.*?)\}\})?(?:x(?P<times>[0-9]+))?")
_START = re.compile(r"(?P<base>[+-]?[0-9]+[a-z]*?|_)(?:(?P<sign>[+-])(?P<step>[0-9]+[a-z]*?))?(?:x(?P<times>[0-9]+))?")
_FIELD = re.compile(r"(\w+):(\[[^\]]*\]|\S+)")


@dataclass(frozen=True)
class Point:
    """Value of a series, or `None` for a gap. `has_hint` tells that the line names the counter reset hint."""

    value: float | Histogram | None
    has_hint: bool = False


def read_series(line: str) -> tuple[Labels, list[Point]]:
    """Return labels and values of a line. Raises `LiteralError`.

    >>> read_series('x{a="b"} 1+2x2 _')
    ((('__name__', 'x'), ('a', 'b')), [Point(value=1.0, has_hint=False), Point(value=3.0, has_hint=False), \
Point(value=5.0, has_hint=False), Point(value=None, has_hint=False)])
    """
    metric, rest = _split_metric(line)
    return read_labels(metric), read_points(rest)


def _split_metric(line: str) -> tuple[str, str]:
    depth, mark = 0, ""
    for index, char in enumerate(line):
        if mark:
            mark = "" if char == mark and line[index - 1] != "\\" else mark
        elif char in "\"'`":
            mark = char
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif char in " \t" and not depth:
            return line[:index], line[index:].strip()
    return line, ""


def read_labels(metric: str) -> Labels:
    """Return the labels of a series. Raises `LiteralError`."""
    if metric.replace(" ", "") == "{}":
        return ()
    try:
        node = parse(metric)
    except InvalidExpression as error:
        raise LiteralError(error.message) from None
    if not isinstance(node, VectorSelector) or any(one.kind is not MatchKind.EQUAL for one in node.all_matchers):
        raise LiteralError(f"not a series: {metric}")
    return make_labels({one.name: one.value for one in node.all_matchers})


def read_points(text: str) -> list[Point]:
    """Return the values of a series. Raises `LiteralError`."""
    points: list[Point] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _HISTOGRAM.match(text, at) or _ITEM.match(text, at)
        if not found or not (text[found.end() :][:1] or " ").isspace():
            raise LiteralError(f"unknown values: {text[at : at + 100]}")
        points += _expand_histograms(found) if text.startswith("{{", at) else _expand_numbers(found)
        at = found.end()
        if len(points) > MAX_POINTS:
            raise LiteralError(f"a series has more than {MAX_POINTS:,} values")
    return points


def _read_count(text: str | None) -> int:
    if text and (len(text) > 9 or int(text) > MAX_POINTS):
        raise LiteralError(f"a value is repeated more than {MAX_POINTS:,} times")
    return int(text or 0)


def _expand_numbers(item: re.Match[str]) -> list[Point]:
    times = _read_count(item["times"])
    if item["base"] == "_":
        return [Point(None)] * max(times, 1)
    base = STALE if item["base"] == "stale" else parse_number(item["base"])
    if not item["step"]:
        return [Point(base)] * (times + 1)
    step = parse_number(item["step"]) if item["step"][0] == "-" else parse_number(item["step"][1:])
    points = []
    for _ in range(times + 1):
        points.append(Point(base))
        base += step
    return points


def _expand_histograms(item: re.Match[str]) -> list[Point]:
    times = _read_count(item["times"])
    base = read_histogram(item["base"])
    has_hint = "counter_reset_hint" in (item["step"] if item["sign"] else item["base"])
    points = [Point(base, has_hint)]
    for _ in range(times):
        if item["sign"]:
            combine = add if item["sign"] == "+" else subtract
            base = combine(base, read_histogram(item["step"])).histogram
        points.append(Point(base, has_hint))
    return points


def read_histogram(text: str) -> Histogram:
    """Return a histogram from its description. Raises `LiteralError`."""
    try:
        return _read_histogram(text)
    except (ValueError, OverflowError) as error:
        raise LiteralError(f"malformed histogram {{{{{text[:100]}}}}}: {error}") from None


def _read_histogram(text: str) -> Histogram:
    fields = dict(_FIELD.findall(text))
    number = {
        name: parse_number(value) for name, value in fields.items() if value[0] != "[" and name != "counter_reset_hint"
    }
    lists = {
        name: [parse_number(one) for one in value[1:-1].split()] for name, value in fields.items() if value[0] == "["
    }
    return Histogram(
        schema=int(number.get("schema", 0)),
        count=number.get("count", 0.0),
        sum=number.get("sum", 0.0),
        zero_threshold=number.get("z_bucket_w", 0.0),
        zero_count=number.get("z_bucket", 0.0),
        positive=make_buckets(int(number.get("offset", 0)), lists.get("buckets", [])),
        negative=make_buckets(int(number.get("n_offset", 0)), lists.get("n_buckets", [])),
        bounds=tuple(lists.get("custom_values", [])),
        hint=ResetHint(fields.get("counter_reset_hint", "unknown")),
    )


def read_start_times(text: str) -> list[int | None]:
    """Return start times, in milliseconds before each sample."""
    found: list[int | None] = []
    for word in text.split():
        item = _START.fullmatch(word)
        if not item:
            raise LiteralError(f"unknown start times: {word}")
        times = _read_count(item["times"])
        if item["base"] == "_":
            found += [None] * max(times, 1)
            continue
        base = _signed_duration(item["base"])
        step = 0 if not item["step"] else _signed_duration(item["sign"] + item["step"])
        found += [base + step * index for index in range(times + 1)]
    return found


def _signed_duration(text: str) -> int:
    return -parse_duration(text[1:]) if text[0] == "-" else parse_duration(text.lstrip("+"))


def add_hints(samples: Sequence[Sample], before: float | Histogram | None = None) -> list[Sample]:
    """Return samples as a storage gives them, with hints on counter resets. `before` is the value before them."""
    hinted: list[Sample] = []
    for time_ms, value, start in samples:
        if isinstance(value, Histogram):
            found: float | Histogram = _with_hint(value, before)
        elif isinstance(before, Histogram) and bool(is_stale(np.array([value]))[0]):
            found = Histogram(before.schema, sum=STALE, bounds=before.bounds, zero_threshold=before.zero_threshold)
        else:
            found = value
        hinted.append((time_ms, found, start))
        before = found
    return hinted


def _with_hint(histogram: Histogram, before: float | Histogram | None) -> Histogram:
    if histogram.hint in {ResetHint.GAUGE, ResetHint.RESET}:
        return histogram
    unknown = histogram.with_hint(ResetHint.UNKNOWN)
    if not isinstance(before, Histogram) or before.hint is ResetHint.GAUGE or bool(is_stale(np.array([before.sum]))[0]):
        return unknown
    layouts = [(one.schema, one.zero_threshold, one.bounds) for one in (histogram, before)]
    if layouts[0] != layouts[1] or has_reset(unknown, before):
        return unknown
    return histogram.with_hint(ResetHint.NOT_RESET)
