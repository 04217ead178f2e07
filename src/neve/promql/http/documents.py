"""Results as Prometheus' JSON: numbers as text, series, native histograms as buckets, envelopes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.lexical.literals import format_float, format_general

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.promql.engine import Result, SeriesResult
    from neve.promql.histograms.native import Histogram

__all__ = ["Answer", "answer_list", "answer_result", "format_seconds", "format_value", "to_json"]

_OPEN_LEFT, _OPEN_RIGHT, _CLOSED = 0, 1, 3  # codes of a bucket's bounds
TRUNCATED = "results truncated due to limit"


def to_json(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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


@dataclass(frozen=True, slots=True)
class Answer:
    """Data of a response: some items between a head and a tail, each written when it is sent."""

    head: str
    items: Sequence[Any] = ()
    write: Callable[[Any], str] = to_json
    tail: str = ""
    warnings: Sequence[str] = ()
    infos: Sequence[str] = ()

    def pieces(self) -> Iterator[str]:
        """Yield the envelope of a success: a piece for each item, which together are one JSON document."""
        text = f'{{"status":"success","data":{self.head}'
        for index, item in enumerate(self.items):
            if index:
                yield text
                text = ","
            text += self.write(item)
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


def answer_result(result: Result, time_ms: int) -> Answer:
    """Return the answer with the result of an expression. Readers that stream need its type first."""
    if result.scalar is not None:
        return _answer_one("scalar", f"[{_point(*result.scalar)}]", result)
    if result.text is not None:
        return _answer_one("string", f"[{format_seconds(time_ms)},{to_json(result.text)}]", result)
    write = _write_vector if result.kind == "vector" else _write_matrix
    head = f'{{"resultType":"{result.kind}","result":['
    return Answer(head, result.series, write, "]}", result.warnings, result.infos)


def _answer_one(kind: str, text: str, result: Result) -> Answer:
    head = f'{{"resultType":"{kind}","result":{text}}}'
    return Answer(head, warnings=result.warnings, infos=result.infos)


def format_seconds(milliseconds: int) -> str:
    """Return a time as Prometheus' API writes it: seconds with at most three decimals."""
    return str(milliseconds // 1000 if milliseconds % 1000 == 0 else milliseconds / 1000)


def _point(time_ms: int, value: float) -> str:
    return f'{format_seconds(time_ms)},"{format_value(value)}"'


def _write_vector(one: SeriesResult) -> str:
    parts = [f'"metric":{to_json(dict(one.labels))}']
    parts += [f'"value":[{_point(*point)}]' for point in one.floats[:1]]
    parts += [f'"histogram":{_write_histogram(*cell)}' for cell in one.histograms[:1]]
    return f"{{{','.join(parts)}}}"


def _write_matrix(one: SeriesResult) -> str:
    parts = [f'"metric":{to_json(dict(one.labels))}']
    if one.floats:
        parts.append(f'"values":[[{"],[".join([_point(*point) for point in one.floats])}]]')
    if one.histograms:
        parts.append(f'"histograms":[{",".join([_write_histogram(*cell) for cell in one.histograms])}]')
    return f"{{{','.join(parts)}}}"


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
