"""Answers of Prometheus' HTTP API: expressions, label sets, names and values of labels, metadata."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from neve.lexical.literals import quote
from neve.promql.engine import Engine
from neve.promql.http.documents import (
    Answer,
    Timings,
    answer_list,
    answer_result,
    format_seconds,
    format_value,
    to_json,
    write_statistics,
)
from neve.promql.http.parameters import BadData, Parameters
from neve.promql.labels import get, is_valid_name
from neve.promql.language.parser import parse
from neve.promql.language.syntax import VectorSelector, walk
from neve.promql.storage import target_info
from neve.promql.storage.otel_names import PARTS, translate_label, translate_name, translate_unit, unescape_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.promql.engine import Result
    from neve.promql.evaluator import Options
    from neve.promql.labels import Labels
    from neve.promql.storage.exemplars import Exemplar
    from neve.promql.storage.metric_source import MetricSource

__all__ = ["ANSWERS", "Query"]

MAX_LOOKBACK_MS = 24 * 3_600_000
MAX_SERIES = 40_000  # of one list
LIST_MS = 12 * 3_600_000  # time range of lists without a start


@dataclass(frozen=True, slots=True)
class Query:
    """One request: its parameters, the series of its organization, and its limits."""

    parameters: Parameters
    source: MetricSource
    options: Options


def _engine(query: Query) -> Engine:
    parameters, options = query.parameters, query.options
    if parameters.text("lookback_delta"):
        options = replace(options, lookback_ms=parameters.duration("lookback_delta", MAX_LOOKBACK_MS))
    return Engine(query.source, options)


def answer_query(query: Query) -> Answer:
    """Answer an instant query."""
    parameters = query.parameters
    at = parameters.time("time", parameters.now_ms)
    return _evaluate(query, at, lambda engine, text: engine.query(text, at))


def answer_range(query: Query) -> Answer:
    """Answer a range query."""
    parameters = query.parameters
    start, end, step = parameters.steps()
    return _evaluate(query, end, lambda engine, text: engine.query_range(text, start, end, step))


def _evaluate(query: Query, time_ms: int, run: Callable[[Engine, str], Result]) -> Answer:
    """Return the answer with a result: with `stats` its statistics, with `stats=all` those of each step."""
    parameters, began = query.parameters, time.perf_counter()
    engine, text = _engine(query), parameters.text("query")
    prepared = time.perf_counter()
    result = run(engine, text)
    statistics = ""
    wanted = parameters.text("stats")
    if wanted and result.samples is not None:
        timings = Timings(prepared - began, time.perf_counter() - prepared)
        statistics = write_statistics(result.samples, timings, has_steps=wanted == "all")
    return answer_result(result, time_ms, statistics).truncate(parameters.limit())


def _list_labels(query: Query, most: int = MAX_SERIES) -> tuple[set[Labels], bool]:
    """Return label sets, and whether there are more than `most`."""
    parameters = query.parameters
    end = parameters.time("end", parameters.now_ms)
    start = parameters.time("start", end - LIST_MS)
    found: set[Labels] = set()
    for matchers in dict.fromkeys(parameters.selectors() or [()]):  # each is several statements
        for labels in query.source.list_series(matchers, start, end):
            if len(found) == most and labels not in found:
                return found, True
            found.add(labels)
    return found, False


def _answer_sorted(listed: list[Any], limit: int, *, is_truncated: bool) -> Answer:
    return answer_list(listed).truncate(limit, is_truncated=is_truncated)


def answer_series(query: Query) -> Answer:
    """List label sets."""
    parameters = query.parameters
    if not parameters.selectors():
        raise BadData("no match[] parameter provided")
    limit = min(parameters.limit() or MAX_SERIES, MAX_SERIES)
    found, is_truncated = _list_labels(query, limit)
    return _answer_sorted([dict(labels) for labels in sorted(found)], limit, is_truncated=is_truncated)


def answer_labels(query: Query) -> Answer:
    """List names of labels."""
    found, is_truncated = _list_labels(query)
    names = sorted({name for labels in found for name, _ in labels})
    return _answer_sorted(names, query.parameters.limit() or MAX_SERIES, is_truncated=is_truncated)


def answer_values(query: Query) -> Answer:
    """List values of a label."""
    name = translate_label(unescape_name(query.parameters.text("name")))
    if not is_valid_name(name):
        raise BadData(f"invalid label name: {quote(name)}")
    found, is_truncated = _list_labels(query)
    values = sorted({get(labels, name) for labels in found} - {""})
    return _answer_sorted(values, query.parameters.limit() or MAX_SERIES, is_truncated=is_truncated)


def answer_metadata(query: Query) -> Answer:
    """List metrics with type, unit and description; `start` and `end` are those of the other lists."""
    parameters = query.parameters
    wanted, limit, each = parameters.text("metric"), parameters.count("limit"), parameters.count("limit_per_metric")
    end = parameters.time("end", parameters.now_ms)
    start = parameters.time("start", end - LIST_MS)
    found: dict[str, list[dict[str, str]]] = {}
    for metric, description in query.source.list_descriptions(start, end):
        name = translate_name(metric)
        if not wanted or wanted in {name + part for part in PARTS.get(metric.kind, ("",))}:
            one = {"type": metric.prometheus_type, "unit": translate_unit(metric.unit), "help": description}
            known = found.setdefault(name, [])
            if one not in known and (each < 1 or len(known) < each):
                known.append(one)
    if found and wanted in {"", target_info.NAME}:
        found[target_info.NAME] = [{"type": "gauge", "unit": "", "help": target_info.HELP}]
    pairs = sorted(found.items())[: MAX_SERIES if limit < 0 else limit]
    return Answer("{", pairs, _write_metadata, "}")


def answer_exemplars(query: Query) -> Answer:
    """List the exemplars of all series in an expression."""
    parameters = query.parameters
    end = parameters.time("end", parameters.now_ms)
    start = parameters.time("start", end - LIST_MS)
    if end < start:
        raise BadData("end timestamp must not be before start timestamp")
    found: dict[Labels, set[Exemplar]] = {}
    selectors = [
        node.all_matchers for node in walk(parse(parameters.text("query"))) if isinstance(node, VectorSelector)
    ]
    for matchers in dict.fromkeys(selectors):
        for labels, one in query.source.list_exemplars(matchers, start, end):
            found.setdefault(labels, set()).add(one)
    budget = query.options.make_budget()
    budget.charge_points(sum(len(exemplars) for exemplars in found.values()))
    return Answer("[", sorted(found.items()), _write_exemplars, "]")


def _write_metadata(pairs: Sequence[tuple[str, list[dict[str, str]]]]) -> Iterator[str]:
    return (f"{to_json(name)}:{to_json(found)}" for name, found in pairs)


def _write_exemplars(pairs: Sequence[tuple[Labels, set[Exemplar]]]) -> Iterator[str]:
    for labels, found in pairs:
        listed = [
            f'{{"labels":{to_json(dict(one.labels))},"value":"{format_value(one.value)}",'
            f'"timestamp":{format_seconds(one.time_ms)}}}'
            for one in sorted(found)
        ]
        yield f'{{"seriesLabels":{to_json(dict(labels))},"exemplars":[{",".join(listed)}]}}'


ANSWERS: dict[str, Callable[[Query], Answer]] = {
    "query": answer_query,
    "query_range": answer_range,
    "series": answer_series,
    "labels": answer_labels,
    "values": answer_values,
    "metadata": answer_metadata,
    "query_exemplars": answer_exemplars,
}
