"""Results as Prometheus' JSON: numbers as text, series, native histograms as buckets, envelopes."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.lexical.literals import format_float, format_general

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.promql.engine import Result, SampleCounts, SeriesResult
    from neve.promql.histograms.native import Histogram
    from neve.promql.series import Floats

__all__ = [
    "Answer",
    "Timings",
    "answer_list",
    "answer_result",
    "format_seconds",
    "format_value",
    "to_json",
    "write_statistics",
]

_OPEN_LEFT, _OPEN_RIGHT, _CLOSED = 0, 1, 3  # codes of a bucket's bounds
PLAIN_FROM, PLAIN_BELOW = 1e-4, 1e15  # numbers that are always written without an exponent
GROUP_POINTS = 65_536  # that are written at once
TRUNCATED = "results truncated due to limit"
_BETWEEN, _LAST = '"],', '"]'  # the end of a point, before the next one and after the last one


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # making one costs more than a short text


def to_json(value: Any) -> str:
    """Return a value as compact JSON."""
    return _ENCODER.encode(value)


def format_value(value: float) -> str:
    """Return a number as Prometheus' API writes it: plain decimals, an exponent below 1e-6 and from 1e21.

    >>> format_value(0.5), format_value(2.0), format_value(1e-7), format_value(float("nan"))
    ('0.5', '2', '1e-7', 'NaN')
    """
    text = repr(value)
    if text.endswith(".0"):
        return text[:-2]
    if "e" not in text and "n" not in text:
        return text
    if not math.isfinite(value) or 1e-6 <= abs(value) < 1e21:
        return format_float(value)
    mantissa, exponent = format_general(value).split("e")
    sign = "-" if exponent[0] == "-" else "+"
    return f"{mantissa}e{sign}{exponent[1:].lstrip('0')}"


def write_each(items: Sequence[Any]) -> Iterator[str]:
    """Yield each item as JSON."""
    return map(to_json, items)


@dataclass(frozen=True, slots=True)
class Answer:
    """Data of a response: some items between a head and a tail, which are written when they are sent."""

    head: str
    items: Sequence[Any] = ()
    write: Callable[[Sequence[Any]], Iterator[str]] = write_each
    tail: str = ""
    warnings: Sequence[str] = ()
    infos: Sequence[str] = ()

    def pieces(self) -> Iterator[str]:
        """Yield the envelope of a success: a piece for each item, which together are one JSON document."""
        text = f'{{"status":"success","data":{self.head}'
        for index, item in enumerate(self.write(self.items)):
            if index:
                yield text
                text = ","
            text += item
        yield "".join((text, self.tail, *self._annotations(), "}"))

    def truncate(self, limit: int, *, is_truncated: bool = False) -> Answer:
        """Return the answer with at most so many items, and a warning if there are more. 0 is no limit."""
        items = self.items[:limit] if limit else self.items
        is_truncated = is_truncated or len(items) < len(self.items)
        warnings = (*self.warnings, TRUNCATED) if is_truncated else self.warnings
        return Answer(self.head, items, self.write, self.tail, warnings, self.infos)

    def _annotations(self) -> Iterator[str]:
        for name, texts in (("warnings", self.warnings), ("infos", self.infos)):
            if texts:
                yield f',"{name}":{to_json(list(texts))}'


def answer_list(items: Sequence[Any]) -> Answer:
    """Return the answer with a list."""
    return Answer("[", items, tail="]")


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds that a query took, for its statistics: to parse, to evaluate, and both."""

    preparation: float
    evaluation: float


def answer_result(result: Result, time_ms: int, statistics: str = "") -> Answer:
    """Return the answer with the result of an expression. Readers that stream need its type first.

    `statistics` are those of `write_statistics`, if the request wants them.
    """
    if result.scalar is not None:
        return _answer_one("scalar", f"[{_point(*result.scalar)}]{statistics}", result)
    if result.text is not None:
        return _answer_one("string", f"[{format_seconds(time_ms)},{to_json(result.text)}]{statistics}", result)
    write = _write_vectors if result.kind == "vector" else _write_matrices
    head = f'{{"resultType":"{result.kind}","result":['
    return Answer(head, result.series, write, f"]{statistics}}}", result.warnings, result.infos)


def write_statistics(samples: SampleCounts, timings: Timings, *, has_steps: bool) -> str:
    """Return the member `stats` of a result, as Prometheus writes it. Native histograms count as one sample."""
    counted: dict[str, Any] = {"totalQueryableSamples": int(samples.counts.sum()), "peakSamples": samples.peak}
    text = to_json(counted)
    if has_steps:
        pairs = zip(samples.times_ms.tolist(), samples.counts.tolist(), strict=True)
        steps = ",".join([f"[{format_seconds(time_ms)},{count}]" for time_ms, count in pairs])
        text = f'{{"totalQueryableSamplesPerStep":[{steps}],{text[1:]}'
    total = timings.preparation + timings.evaluation
    times = {
        "evalTotalTime": total,
        "resultSortTime": 0,
        "queryPreparationTime": timings.preparation,
        "innerEvalTime": timings.evaluation,
        "execQueueTime": 0,
        "execTotalTime": total,
    }
    return f',"stats":{{"timings":{to_json(times)},"samples":{text}}}'


def _answer_one(kind: str, text: str, result: Result) -> Answer:
    head = f'{{"resultType":"{kind}","result":{text}}}'
    return Answer(head, warnings=result.warnings, infos=result.infos)


def format_seconds(milliseconds: int) -> str:
    """Return a time as Prometheus' API writes it: seconds with at most three decimals."""
    return str(milliseconds // 1000 if milliseconds % 1000 == 0 else milliseconds / 1000)


def _point(time_ms: int, value: float) -> str:
    return f'{format_seconds(time_ms)},"{format_value(value)}"'


def _write_vectors(series: Sequence[SeriesResult]) -> Iterator[str]:
    for one in series:
        parts = [f'"metric":{to_json(dict(one.labels))}']
        parts += [f'"value":[{_point(*point)}]' for point in one.floats[:1]]
        parts += [f'"histogram":{_write_histogram(*cell)}' for cell in one.histograms[:1]]
        yield f"{{{','.join(parts)}}}"


def _write_matrices(series: Sequence[SeriesResult]) -> Iterator[str]:
    for some in _group_by_points(series):
        for one, points in zip(some, _write_points(some), strict=True):
            parts = [f'"metric":{to_json(dict(one.labels))}']
            if points:
                parts.append(f'"values":[{points}]')
            if one.histograms:
                parts.append(f'"histograms":[{",".join([_write_histogram(*cell) for cell in one.histograms])}]')
            yield f"{{{','.join(parts)}}}"


def _group_by_points(series: Sequence[SeriesResult]) -> Iterator[list[SeriesResult]]:
    """Yield the series in groups of about `GROUP_POINTS` points."""
    some: list[SeriesResult] = []
    count = 0
    for one in series:
        some.append(one)
        count += len(one.values)
        if count >= GROUP_POINTS:
            yield some
            some, count = [], 0
    if some:
        yield some


def _write_points(series: list[SeriesResult]) -> Iterator[str]:
    """Yield the points of each series. Arrow writes those of all series into one text, of which each has a part."""
    values = np.concatenate([one.values for one in series])
    joined = pc.binary_join_element_wise(_write_starts(series), _format_values(values), "")
    offsets = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1)
    text = memoryview(joined.buffers()[2] or b"")
    ends = offsets[np.cumsum([0, *(len(one.values) for one in series)])].tolist()
    for low, high in itertools.pairwise(ends):
        yield str(text[low + len(_BETWEEN) : high], "ascii") + _LAST if high > low else ""


def _write_starts(series: list[SeriesResult]) -> pa.Array:
    """Return the text before each value: the end of the point before, and the time. Most series have all steps."""
    steps = series[0].times_ms
    if all(one.times_ms is steps for one in series):
        places = np.tile(np.arange(len(steps)), len(series))
    else:
        steps, places = np.unique(np.concatenate([one.times_ms for one in series]), return_inverse=True)
    texts = [f'{_BETWEEN}[{format_seconds(one)},"' for one in steps.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(places))


def _format_values(values: Floats) -> pa.Array:
    """Return numbers as text. Arrow writes plain decimals as Prometheus does."""
    sizes = np.abs(values)
    others = np.flatnonzero(~(((sizes >= PLAIN_FROM) & (sizes < PLAIN_BELOW)) | (sizes == 0)))
    texts = pa.array(values).cast(pa.string())
    if not len(others):
        return texts
    mask = np.zeros(len(values), np.bool_)
    mask[others] = True
    written = pa.array([format_value(one) for one in values[others].tolist()], pa.string())
    return pc.replace_with_mask(texts, pa.array(mask), written)


def _write_histogram(time_ms: int, histogram: Histogram) -> str:
    buckets = [(_OPEN_RIGHT, one) for one in reversed(histogram.negative_buckets())]
    if histogram.zero_count:
        buckets.append((_CLOSED, histogram.zero_bucket()))
    for one in histogram.positive_buckets():
        buckets.append((_CLOSED if math.isinf(one.lower) else _OPEN_LEFT, one))
    document: dict[str, Any] = {"count": format_value(histogram.count), "sum": format_value(histogram.sum)}
    listed = [
        [code, *(format_value(number) for number in (one.lower, one.upper, one.count))]
        for code, one in buckets
        if one.count
    ]
    return f"[{format_seconds(time_ms)},{to_json(document | ({'buckets': listed} if listed else {}))}]"
