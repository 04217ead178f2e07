"""Answers of Loki's HTTP API: queries, labels, series, sizes."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from neve.errors import LimitExceeded
from neve.logql.engine import Engine, LogWindow, run_log_query
from neve.logql.follow import FollowState, begin, poll
from neve.logql.http.detection import detect_fields, detect_labels, find_patterns, list_field_values
from neve.logql.http.documents import CATEGORIES, PlainAnswer, answer_samples, answer_streams, group_streams
from neve.logql.http.parameters import DEFAULT_RANGE_NS, SECOND_NS, BadRequest, Parameters
from neve.logql.language.parser import parse
from neve.logql.language.syntax import LogQuery
from neve.logql.pipeline.compilation import compile_stages, run_stages
from neve.logql.storage.stream_catalog import list_streams
from neve.logql.storage.stream_sizes import StreamSize, list_sizes
from neve.promql.engine import Result, SeriesResult
from neve.promql.http.documents import answer_list
from neve.promql.labels import get, keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.logql.pipeline.entry import Entry
    from neve.logql.storage.log_source import LogReader
    from neve.promql.evaluator import Options
    from neve.promql.labels import Labels

__all__ = ["ANSWERS", "Body", "Query"]

MAX_STREAMS = 40_000  # of one list
MAX_VOLUMES = 1000
SAMPLE_LINES = 1000  # that detection of fields looks at
MAX_FIELDS = 1000


class Body(Protocol):
    """Answer that can be sent."""

    @property
    def items(self) -> Sequence[Any]:
        """Return the items that a limit of rows counts."""

    def pieces(self) -> Iterator[str]:
        """Yield the parts of the body."""


@dataclass(frozen=True, slots=True)
class Query:
    """One request: its parameters, the lines of its organization, and its limits."""

    parameters: Parameters
    reader: LogReader
    options: Options

    @property
    def engine(self) -> Engine:
        """Return the engine of the request."""
        return Engine(self.reader, self.options)


def answer_query(query: Query) -> Body:
    """Answer an instant query."""
    parameters = query.parameters
    at = parameters.time("time", parameters.now_ns)
    return answer_samples(query.engine.query(parameters.text("query"), at), at)


def answer_range(query: Query) -> Body:
    """Answer a range query: lines, or values at steps."""
    parameters = query.parameters
    node = parse(parameters.text("query"))
    if isinstance(node, LogQuery):
        window, limit = parameters.window(), parameters.limit()
        entries = run_log_query(query.reader, node, window, limit)
        if parameters.text("interval"):
            entries = thin_lines(entries, parameters.duration("interval"))
        return answer_streams(entries, has_categories=parameters.has_categories)
    start, end, step = parameters.steps()
    return answer_samples(query.engine.query_range(parameters.text("query"), start, end, step), end)


def thin_lines(entries: list[Entry], interval_ns: int) -> list[Entry]:
    """Return lines of which each is at least an interval after the one before in its direction."""
    found: list[Entry] = []
    for one in entries:
        if not found or abs(one.time_ns - found[-1].time_ns) >= interval_ns:
            found.append(one)
    return found


def _list_labels(query: Query) -> set[Labels]:
    start, end = query.parameters.bounds()
    found: set[Labels] = set()
    for selector in query.parameters.selectors() or [LogQuery(())]:
        for labels in list_streams(query.reader, LogQuery(selector.matchers), LogWindow(start, end)):
            found.add(labels)
            if len(found) > MAX_STREAMS:
                raise LimitExceeded(
                    f"more than {MAX_STREAMS:,} streams match",
                    limit="streams",
                    hint="narrow the selector or the time range",
                )
    return found


def answer_labels(query: Query) -> Body:
    """List names of labels."""
    return answer_list(sorted({name for labels in _list_labels(query) for name, _ in labels}))


def answer_values(query: Query) -> Body:
    """List values of a label."""
    name = query.parameters.text("name")
    return answer_list(sorted({get(labels, name) for labels in _list_labels(query)} - {""}))


def answer_series(query: Query) -> Body:
    """List the labels of streams."""
    if not query.parameters.selectors():
        raise BadRequest('0 matcher groups supplied: expected match[], for example {service_name=~".+"}')
    return answer_list([dict(labels) for labels in sorted(_list_labels(query))])


def answer_stats(query: Query) -> Body:
    """Count streams, lines and bytes."""
    start, end = query.parameters.bounds()
    sizes = list(list_sizes(query.reader, query.parameters.query(), LogWindow(start, end)))
    streams = len({one.labels for one in sizes})
    totals = {"bytes": sum(one.bytes for one in sizes), "entries": sum(one.entries for one in sizes)}
    return PlainAnswer({"streams": streams, "chunks": streams, **totals})


def answer_volume(query: Query) -> Body:
    """Sum the bytes of streams, by their labels."""
    start, end = query.parameters.bounds()
    groups = _sum_volumes(query, LogWindow(start, end), None)
    series = [SeriesResult.of_points(labels, [(end // 1_000_000, total)]) for labels, total in _largest(query, groups)]
    return answer_samples(Result("vector", series), end)


def answer_volume_range(query: Query) -> Body:
    """Sum the bytes of streams in each step."""
    start, end, step = query.parameters.steps()
    groups = _sum_volumes(query, LogWindow(start, end), step)
    chosen = [labels for labels, _ in _largest(query, groups)]
    series = [
        SeriesResult.of_points(labels, [(at // 1_000_000, total) for at, total in sorted(groups[labels].items())])
        for labels in chosen
    ]
    return answer_samples(Result("matrix", series), end)


def _sum_volumes(query: Query, window: LogWindow, step_ns: int | None) -> dict[Labels, dict[int, float]]:
    parameters = query.parameters
    selector = parameters.query()
    targets = frozenset(filter(None, parameters.text("targetLabels").split(",")))
    names = targets or frozenset(one.name for one in selector.matchers)
    by_labels = parameters.text("aggregateBy") == "labels"
    found: dict[Labels, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for one in list_sizes(query.reader, selector, window, step_ns):
        for labels in _volume_labels(one, names, targets, by_labels=by_labels):
            found[labels][one.start_ns] += one.bytes
    return found


def _volume_labels(
    size: StreamSize, names: frozenset[str], targets: frozenset[str], *, by_labels: bool
) -> list[Labels]:
    if not by_labels:
        return [keep(size.labels, names)]
    return [((name, ""),) for name, _ in size.labels if not targets or name in targets]


def _largest(query: Query, groups: dict[Labels, dict[int, float]]) -> list[tuple[Labels, float]]:
    limit = query.parameters.count("limit", 100, MAX_VOLUMES)
    totals = [(labels, sum(steps.values())) for labels, steps in groups.items()]
    return sorted(totals, key=lambda one: (-one[1], one[0]))[:limit]


def _sample_lines(query: Query) -> list[Entry]:
    """Return the newest lines of a query, for the detection of fields and patterns."""
    start, end = query.parameters.bounds()
    limit = query.parameters.count("line_limit", SAMPLE_LINES, 5 * SAMPLE_LINES)
    return run_log_query(query.reader, query.parameters.optional_query(), LogWindow(start, end, False), limit)


def answer_detected_fields(query: Query) -> Body:
    """Describe the fields of the newest lines."""
    limit = query.parameters.count("limit", MAX_FIELDS, MAX_FIELDS)
    return PlainAnswer({"fields": detect_fields(_sample_lines(query))[:limit], "limit": limit})


def answer_field_values(query: Query) -> Body:
    """List the values of a field in the newest lines."""
    limit = query.parameters.count("limit", MAX_FIELDS, MAX_FIELDS)
    values = list_field_values(_sample_lines(query), query.parameters.text("name"))
    return PlainAnswer({"values": values[:limit], "limit": limit})


def answer_detected_labels(query: Query) -> Body:
    """Count the values of each label of streams."""
    return PlainAnswer({"detectedLabels": detect_labels(_list_labels(query))})


def answer_patterns(query: Query) -> Body:
    """List the patterns of lines, with the number of lines in each step."""
    parameters = query.parameters
    start, end, step = parameters.steps()
    selector = parameters.query()
    stages = compile_stages(selector.stages)
    lines = (
        (one.time_ns, one.line)
        for batch in query.reader.read(selector, LogWindow(start, end), None)
        for one in run_stages(stages, batch)
    )
    found = find_patterns(lines, step)
    return answer_list([{"pattern": one.text, "samples": _list_samples(one.counts)} for one in found])


def _list_samples(counts: dict[int, int]) -> list[list[int]]:
    return [[at // SECOND_NS, count] for at, count in sorted(counts.items())]


def answer_tail(query: Query) -> Body:
    """Return the lines of a live tail since its last poll, and its place in `state`."""
    parameters = query.parameters
    limit = parameters.limit()
    selector = parameters.query()
    if parameters.text("state"):
        state = FollowState.from_document(json.loads(parameters.text("state")))
        found = poll(query.reader, selector, state, limit)
    else:
        start = parameters.time("start", parameters.now_ns - DEFAULT_RANGE_NS)
        found = begin(query.reader, selector, start, parameters.now_ns, limit)
    streams = group_streams(found.entries, has_categories=parameters.has_categories)
    dropped = [{"labels": {}, "timestamp": str(parameters.now_ns)}] * min(found.skipped, 1000) or None
    frame: dict[str, Any] = {"streams": streams, "dropped_entries": dropped}
    if parameters.has_categories:
        frame = {"encodingFlags": [CATEGORIES], **frame}
    return PlainAnswer({"state": found.state.as_document(), "skipped": found.skipped, "frame": frame})


ANSWERS: dict[str, Callable[[Query], Body]] = {
    "query": answer_query,
    "query_range": answer_range,
    "labels": answer_labels,
    "values": answer_values,
    "series": answer_series,
    "stats": answer_stats,
    "volume": answer_volume,
    "volume_range": answer_volume_range,
    "detected_fields": answer_detected_fields,
    "field_values": answer_field_values,
    "detected_labels": answer_detected_labels,
    "patterns": answer_patterns,
    "tail": answer_tail,
}
