"""Results as Prometheus' JSON: envelopes, numbers as text, native histograms as buckets."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from neve.api.query.errors import CONCURRENCY, to_failure
from neve.errors import EvaluationFailed, InvalidExpression, LimitExceeded, QueryError
from neve.lexical.literals import format_float, format_general

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.promql.engine import Result, SeriesResult
    from neve.promql.histograms.native import Histogram

__all__ = ["error_response", "format_result", "format_value", "success_response"]

_HEADERS = {"cache-control": "no-store"}
_LIMIT_KINDS = {"seconds": ("timeout", 503), CONCURRENCY: ("unavailable", 429)}
_OPEN_LEFT, _OPEN_RIGHT, _CLOSED = 0, 1, 3  # codes of a bucket's bounds


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


def _seconds(milliseconds: int) -> float | int:
    return milliseconds // 1000 if milliseconds % 1000 == 0 else milliseconds / 1000


def _point(time_ms: int, value: float) -> list[Any]:
    return [_seconds(time_ms), format_value(value)]


def _histogram(time_ms: int, histogram: Histogram) -> list[Any]:
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
    return [_seconds(time_ms), document | ({"buckets": listed} if listed else {})]


def _series(one: SeriesResult, *, is_instant: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"metric": dict(one.labels)}
    values, histograms = ("value", "histogram") if is_instant else ("values", "histograms")
    points = [_point(*point) for point in one.floats]
    cells = [_histogram(*point) for point in one.histograms]
    if points:
        document[values] = points[0] if is_instant else points
    if cells:
        document[histograms] = cells[0] if is_instant else cells
    return document


def format_result(result: Result, time_ms: int) -> dict[str, Any]:
    """Return the data of a result. Readers that stream need its type first."""
    if result.scalar is not None:
        return {"resultType": "scalar", "result": _point(*result.scalar)}
    if result.text is not None:
        return {"resultType": "string", "result": [_seconds(time_ms), result.text.encode(errors="replace").decode()]}
    is_instant = result.kind == "vector"
    return {"resultType": result.kind, "result": [_series(one, is_instant=is_instant) for one in result.series]}


def success_response(data: Any, warnings: Sequence[str] = (), infos: Sequence[str] = ()) -> Response:
    """Return the envelope of a success."""
    document: dict[str, Any] = {"status": "success", "data": data}
    document |= {"warnings": list(warnings)} if warnings else {}
    document |= {"infos": list(infos)} if infos else {}
    return _json(document, 200)


def error_response(error: QueryError) -> Response | None:
    """Return the envelope of an error of a query, or `None` for errors of the storage."""
    if isinstance(error, InvalidExpression):
        kind, status = "bad_data", 400
    elif isinstance(error, EvaluationFailed | LimitExceeded):
        limit = error.limit if isinstance(error, LimitExceeded) else ""
        kind, status = _LIMIT_KINDS.get(limit, ("execution", 422))
    else:
        return None
    failure = to_failure(error)  # its message has no locations of the lake
    response = _json({"status": "error", "errorType": kind, "error": failure.message}, status)
    response.headers.update(failure.headers)
    return response


def _json(document: dict[str, Any], status: int) -> Response:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode(errors="replace"), status, _HEADERS, "application/json")
