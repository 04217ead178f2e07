"""The program of query workers that evaluates the recording rules of a group at many times, after late data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from neve.errors import QueryError
from neve.promql.engine import Engine
from neve.promql.http.program import open_series, pack_document
from neve.promql.labels import make_labels
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.series import MemorySource
from neve.rules.overlay_source import OverlaySource
from neve.rules.running.group_documents import build_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from neve.promql.http.program import Context
    from neve.rules.rule_file import Rule

__all__ = ["FUNCTION", "depends_on_range", "evaluate_range"]

FUNCTION = "neve.rules.running.range_program:evaluate_range"
_RANGE_WORDS = re.compile(r"\b(?:start|end|range|step)\s*\(", re.IGNORECASE)


def depends_on_range(rule: Rule) -> bool:
    """Return whether an expression uses start, end, range or step of its query, which differ in an instant query."""
    return bool(_RANGE_WORDS.search(rule.expression))


def evaluate_range(arguments: Mapping[str, Any], context: Context) -> Iterator[pa.RecordBatch]:
    """Evaluate recording rules from `start_ms` to `end_ms` at each `step_ms`, one after the other.

    The rows of the result are the bytes of a JSON document: for each rule its samples, or nothing if it fails, is an
    alert, or can't be evaluated at many times at once.
    """
    source, options = open_series(arguments, context)
    results = MemorySource()
    engine = Engine(OverlaySource(source, results), options)
    start, end, step = (arguments[name] for name in ("start_ms", "end_ms", "step_ms"))
    found: list[list[Any] | None] = []
    for rule in build_group(arguments["group"]).rules:
        context.check()
        samples = None if rule.is_alert or depends_on_range(rule) else _evaluate(engine, rule, start, end, step)
        for labels, time_ms, value in samples or ():
            results.add(labels, [(time_ms, value, 0)])
        found.append(samples)
    yield from pack_document(found)


def _evaluate(engine: Engine, rule: Rule, start: int, end: int, step: int) -> list[Any] | None:
    try:
        result = engine.query_range(rule.expression, start, end, step)
    except QueryError:
        return None  # a single step may have succeeded before: the recorded values stay
    found = []
    for one in result.series:
        labels = make_labels({**dict(one.labels), METRIC_NAME: rule.name, **dict(rule.labels)})
        if one.histograms:
            return None
        found += [(labels, time_ms, value) for time_ms, value in one.floats]
    return found if len({(labels, time_ms) for labels, time_ms, _ in found}) == len(found) else None
