"""The program of query workers that evaluates a group of rules.

Queries, state machine and templates run in a process that the service limits and can end. Rules see the results of the
rules before them, which are not in the table yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neve.promql.engine import Engine
from neve.promql.histograms.native import Histogram
from neve.promql.http.program import open_series, pack_document
from neve.promql.series import MemorySource
from neve.rules.evaluation import Evaluation, RuleResult
from neve.rules.instant_vector import query_vector
from neve.rules.overlay_source import OverlaySource
from neve.rules.running.group_documents import build_group, build_options, build_state, describe_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from neve.promql.http.program import Context
    from neve.rules.evaluation import RuleState
    from neve.rules.rule_file import Rule

__all__ = ["FUNCTION", "evaluate_group"]

FUNCTION = "neve.rules.running.group_program:evaluate_group"
NO_HISTOGRAMS = (
    "the result has native histograms, which can't be recorded: record numbers of them, for example with "
    "histogram_quantile() or histogram_count()"
)


def evaluate_group(arguments: Mapping[str, Any], context: Context) -> Iterator[pa.RecordBatch]:
    """Evaluate the rules of a group at a time, one after the other.

    Arguments are `group`, `states` (one for each rule), `time_ms`, `options`, and those of `open_series`. The rows of
    the result are the bytes of one JSON document: the list of results.
    """
    source, options = open_series(arguments, context)
    results = MemorySource()
    engine = Engine(OverlaySource(source, results), options)
    group = build_group(arguments["group"])
    evaluation = Evaluation(
        group,
        arguments["time_ms"],
        lambda text, time_ms: query_vector(engine, text, time_ms),
        build_options(arguments["options"]),
    )
    found = []
    for rule, document in zip(group.rules, arguments["states"], strict=True):
        context.check()
        result = _evaluate(evaluation, rule, build_state(document))
        for one in result.samples:
            results.add(one.labels, [(one.time_ms, one.value, 0)])
        found.append(describe_result(result))
    yield from pack_document(found)


def _evaluate(evaluation: Evaluation, rule: Rule, state: RuleState) -> RuleResult:
    result = evaluation.evaluate(rule, state)
    if any(isinstance(one.value, Histogram) for one in result.samples):
        return RuleResult(replace(state, evaluated_at_ms=evaluation.time_ms, error=NO_HISTOGRAMS))
    return result
