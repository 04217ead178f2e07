"""Series of Prometheus' test corpus: lines such as `x{a="b"} 1+2x3 _ stale {{schema:0 count:2 sum:3 buckets:[2]}}`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from neve.lexical.literals import parse_duration, parse_number
from neve.promql.histograms.arithmetic import add, has_reset, subtract
from neve.promql.histograms.native import CUSTOM_SCHEMA, NO_BUCKETS, Histogram, ResetHint, make_buckets
from neve.promql.labels import Labels, get, make_labels, set_label, without
from neve.promql.language.parser import parse
from neve.promql.language.syntax import METRIC_NAME, VectorSelector
from neve.promql.series import STALE, MemorySource, Sample, is_stale

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
    """Return labels and values of a line."""
    metric, rest = _split_metric(line)
    return _read_labels(metric), _read_points(rest)


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


def _read_labels(metric: str) -> Labels:
    if metric.replace(" ", "") == "{}":
        return ()
    node = parse(metric)
    assert isinstance(node, VectorSelector)
    return make_labels({one.name: one.value for one in node.all_matchers})


def _read_points(text: str) -> list[Point]:
    points: list[Point] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _HISTOGRAM.match(text, at) or _ITEM.match(text, at)
        assert found, f"unknown values: {text[at:]}"
        points += _expand_histograms(found) if text.startswith("{{", at) else _expand_numbers(found)
        at = found.end()
    return points


def _expand_numbers(item: re.Match[str]) -> list[Point]:
    times = int(item["times"] or 0)
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
    times = int(item["times"] or 0)
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
    """Return a histogram from its description."""
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
        assert item, f"unknown start times: {word}"
        times = int(item["times"] or 0)
        if item["base"] == "_":
            found += [None] * max(times, 1)
            continue
        base = _signed_duration(item["base"])
        step = 0 if not item["step"] else _signed_duration(item["sign"] + item["step"])
        found += [base + step * index for index in range(times + 1)]
    return found


def _signed_duration(text: str) -> int:
    return -parse_duration(text[1:]) if text[0] == "-" else parse_duration(text.lstrip("+"))


def store(source: MemorySource, labels: Labels, samples: list[Sample]) -> None:
    """Append samples as a storage does that gives hints on counter resets."""
    known = source.samples(labels)
    before = known[-1][1] if known else None
    stored: list[Sample] = []
    for time_ms, value, start in samples:
        if isinstance(value, Histogram):
            hinted: float | Histogram = _with_hint(value, before)
        elif isinstance(before, Histogram) and bool(is_stale(np.array([value]))[0]):
            hinted = Histogram(before.schema, sum=STALE, bounds=before.bounds, zero_threshold=before.zero_threshold)
        else:
            hinted = value
        stored.append((time_ms, hinted, start))
        before = hinted
    source.add(labels, stored)


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


def convert_classic(series: list[tuple[Labels, list[Sample]]]) -> list[tuple[Labels, list[Sample]]]:
    """Return native histograms with custom buckets from classic ones."""
    parts: dict[Labels, dict[int, dict[str, dict[float, float]]]] = {}
    for labels, samples in series:
        name = get(labels, METRIC_NAME)
        for suffix in ("_bucket", "_count", "_sum"):
            if name.endswith(suffix):
                base = set_label(without(labels, {"le"}), METRIC_NAME, name.removesuffix(suffix))
                bound = float(get(labels, "le")) if suffix == "_bucket" else 0.0
                for time_ms, value, _ in samples:
                    if not isinstance(value, Histogram) and not math.isnan(bound):
                        moment = parts.setdefault(base, {}).setdefault(time_ms, {})
                        moment.setdefault(suffix, {})[bound] = value
    return [
        (labels, [(time_ms, _convert(found), 0) for time_ms, found in sorted(moments.items())])
        for labels, moments in parts.items()
    ]


def _convert(parts: dict[str, dict[float, float]]) -> Histogram:
    buckets = sorted(parts.get("_bucket", {}).items())
    count = parts.get("_count", {}).get(0.0, buckets[-1][1] if buckets else 0.0)
    bounds = tuple(bound for bound, _ in buckets if bound != float("inf"))
    counts = [value for bound, value in buckets if bound != float("inf")]
    cumulative = [*counts, count]
    deltas = [now - before for now, before in zip(cumulative, [0.0, *cumulative[:-1]], strict=True)]
    total = parts.get("_sum", {}).get(0.0, 0.0)
    positive = make_buckets(0, deltas).compact() if deltas else NO_BUCKETS
    return Histogram(CUSTOM_SCHEMA, count, total, positive=positive, bounds=bounds)
