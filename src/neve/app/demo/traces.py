"""The incident of the demo, found with three TraceQL questions and one service map."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.app.derived_tables import build_traces
from neve.app.query.service import build_query_service
from neve.app.query.service_map import read_service_map
from neve.app.query.traceql import evaluate
from neve.query.request import Request, TimeRange
from neve.query.service import no_limits
from neve.text import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.query.service import QueryService

__all__ = ["TraceFinding", "find_incident"]

MINUTE_MS = 60_000
MAX_TRACES = 1000
FAILING = "{ kind = server && status = error } | count_over_time() by (resource.service.name)"
SLOW = '{{ resource.service.name = "{service}" && kind = server }} | quantile_over_time(duration, 0.95)'
VISITS = '{{ nestedSetParent < 0 && status = error }} >> {{ resource.service.name = "{service}" && status = error }}'
SLOW_TIMES = 5  # a minute is slow if its latency is so many times the median


@dataclass(frozen=True)
class TraceFinding:
    """A question with its text, and the answer in a sentence."""

    words: str
    query: str
    answer: str


def find_incident(settings: Settings, lake: Lake, start_unix_nano: int) -> list[TraceFinding]:
    """Assemble the traces of the demo's hour, and answer the questions."""
    traces = build_traces(settings, lake)
    try:
        traces.run()
    finally:
        traces.documents.close()
    since = datetime.fromtimestamp(start_unix_nano // 10**9, UTC)
    service = build_query_service(settings, lake, limits=no_limits)
    try:
        return list(_Search(service, settings.organization, since, since + timedelta(hours=1)).ask())
    finally:
        service.close()


@dataclass(frozen=True)
class _Search:
    service: QueryService
    organization: str
    since: datetime
    until: datetime

    def ask(self) -> Iterator[TraceFinding]:
        """Yield the questions with their answers. Each question uses the answers before it."""
        errors: dict[str, float] = {}
        for row in self._evaluate(FAILING):
            name = row["resource.service.name"]
            errors[name] = errors.get(name, 0.0) + (row["value"] or 0.0)
        worst = max(errors, key=lambda name: errors[name], default="")
        total = sum(errors.values())
        answer = f"{worst}: {errors.get(worst, 0):,.0f} of {total:,.0f} failed requests"
        yield TraceFinding("Which service fails the most requests?", FAILING, answer)
        query = SLOW.format(service=worst)
        first, last, sentence = self._describe_minutes(query)
        yield TraceFinding("When was it slow?", query, sentence)
        query = VISITS.format(service=worst)
        yield TraceFinding("Which visits failed because of it?", query, self._describe_visits(query, first, last))
        yield TraceFinding(
            "Who calls it, and who else is affected?", "neve map", self._describe_map(worst, first, last)
        )

    def _evaluate(
        self, query: str, since: datetime | None = None, until: datetime | None = None
    ) -> list[dict[str, Any]]:
        time = TimeRange(since or self.since, until or self.until)
        request = Request(query, self.organization, time=time, limit=MAX_TRACES)
        found: list[dict[str, Any]] = evaluate(self.service, request, MINUTE_MS).to_pylist()
        return found

    def _describe_minutes(self, query: str) -> tuple[datetime, datetime, str]:
        values = {row["timestamp"]: row["value"] for row in self._evaluate(query) if row["value"] is not None}
        usual = sorted(values.values())[len(values) // 2] if values else 0.0
        slow = [at for at, value in values.items() if value > SLOW_TIMES * usual]
        if not slow:
            return self.since, self.until, "in no minute"
        # The value of an interval is at its end.
        first, last = min(slow) - timedelta(milliseconds=MINUTE_MS), max(slow)
        worst = max(values[at] for at in slow)
        words = (
            f"from {first:%H:%M} to {last:%H:%M}: 95 % of its requests took up to {format_duration(worst)}, "
            f"{format_duration(usual)} in the usual minute"
        )
        return first, last, words

    def _describe_visits(self, query: str, first: datetime, last: datetime) -> str:
        found = {row["trace_id"]: row for row in self._evaluate(query, first, last)}
        if not found:
            return "none"
        names: dict[str, int] = {}
        for row in found.values():
            name = f"{row['root_service']}: {row['root_name']}"
            names[name] = names.get(name, 0) + 1
        worst = max(names, key=lambda name: names[name])
        example = next(iter(found))
        text = example.hex() if isinstance(example, bytes) else example
        return f"{format_count(len(found), 'visit')}, most of them {worst}; `neve trace {text}` draws one"

    def _describe_map(self, service: str, first: datetime, last: datetime) -> str:
        edges = read_service_map(self.service, self.organization, first, last)["edges"]
        callers = [one for one in edges if one["server"] == service]
        failing = [one for one in edges if one["errors"] * 20 >= one["calls"] and one["server"] != service]
        words = [
            f"{one['client']} calls it {format_count(one['calls'], 'time')}, {one['errors'] / one['calls']:.0%} fail"
            for one in callers
        ]
        others = sorted({f"{one['client']} → {one['server']}" for one in failing})
        return "; ".join([*words, f"calls that fail with it: {', '.join(others) or 'none'}"])
