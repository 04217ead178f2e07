"""Instant vectors for rules: the result of a query as label sets with values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.errors import EvaluationFailed

if TYPE_CHECKING:
    from neve.promql.engine import Engine
    from neve.promql.histograms.native import Histogram
    from neve.promql.labels import Labels

__all__ = ["query_vector"]


def query_vector(engine: Engine, text: str, time_ms: int) -> list[tuple[Labels, float | Histogram]]:
    """Return the samples of an expression at a time. A scalar is one sample without labels.

    Raises `QueryError`.
    """
    result = engine.query(text, time_ms)
    if result.scalar is not None:
        return [((), result.scalar[1])]
    if result.kind != "vector":
        raise EvaluationFailed("rule result is not a vector or scalar")
    found: list[tuple[Labels, float | Histogram]] = []
    for one in result.series:
        found += [(one.labels, value) for _, value in one.floats]
        found += [(one.labels, histogram) for _, histogram in one.histograms]
    return found
