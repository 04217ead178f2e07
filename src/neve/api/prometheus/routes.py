"""Routes of Prometheus' HTTP API."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, fail_after, to_thread
from starlette.routing import Route

from neve import __version__
from neve.api.prometheus.envelope import error_response, format_result, success_response
from neve.api.prometheus.parameters import BadData, Parameters
from neve.api.query.endpoint import Endpoint, read_form
from neve.api.query.errors import CONCURRENCY
from neve.api.query.metrics import count_ended
from neve.app.promql import ReadBudget, open_series
from neve.errors import LimitExceeded, QueryError
from neve.lake.calendar import now_utc
from neve.promql.engine import Engine
from neve.promql.evaluator import Options
from neve.promql.labels import get
from neve.promql.storage.otel_names import PARTS, translate_name

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from neve.promql.labels import Labels
    from neve.promql.storage.metric_source import MetricSource
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

__all__ = ["PREFIX", "prometheus_routes"]

PREFIX = "/prometheus/api/v1"
# Limits of one query: evaluation and response happen in the server's own process.
MAX_SAMPLES = 3_000_000
MAX_READ_BYTES = 96 * 1024 * 1024  # of Arrow batches
MAX_ROWS = 200_000  # of SQL results: about one for each series
MAX_POINTS = 500_000  # of the response, which needs 430 bytes for each
MAX_VISITS = 200_000_000
MAX_LOOKBACK_MS = 24 * 3_600_000
MAX_SERIES = 40_000  # of one list
RUNNING = 2  # requests of one organization at a time
WAITING = 30  # requests of one organization that wait: dashboards send one for each panel at once
WAIT_SECONDS = 30
TRUNCATED = "results truncated due to limit"
LIST_MS = 12 * 3_600_000  # time range of lists without a start
Answer = Callable[[Parameters, "MetricSource"], "Response"]


@dataclass(frozen=True)
class PrometheusEndpoints:
    """Handlers of Prometheus' API."""

    service: QueryService
    waiting: int = WAITING
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    turns: WeakValueDictionary[str, CapacityLimiter] = field(default_factory=WeakValueDictionary)

    def handle(self, answer: Answer) -> Callable[[Request, Caller], Awaitable[ASGIApp]]:
        """Return the handler that reads parameters and answers in a thread."""

        async def handler(request: Request, caller: Caller) -> ASGIApp:
            pairs = await read_form(request)
            parameters = Parameters([*request.path_params.items(), *pairs], int(now_utc().timestamp() * 1000))
            try:
                return await self._take_turn(caller.organization, lambda: self._answer(answer, parameters, caller))
            except QueryError as error:
                response = error_response(error)
                if response is None:
                    raise
                return response

        return handler

    async def _take_turn(self, organization: str, work: Callable[[], Response]) -> Response:
        """Run a request in a thread, when fewer than `RUNNING` of its organization run."""
        turn = self.turns.get(organization)
        if turn is None:
            turn = self.turns[organization] = CapacityLimiter(RUNNING)
        if not turn.available_tokens and turn.statistics().tasks_waiting >= self.waiting:
            raise _busy()
        try:
            with fail_after(WAIT_SECONDS):
                await turn.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            return await to_thread.run_sync(work, limiter=self.threads)
        finally:
            turn.release()

    def _answer(self, answer: Answer, parameters: Parameters, caller: Caller) -> Response:
        deadline = _find_deadline(parameters, self.service.limits_of(caller.organization, caller.key_id).seconds)
        budget = ReadBudget(MAX_SAMPLES, MAX_READ_BYTES, MAX_ROWS, deadline)
        source = open_series(self.service, caller.organization, caller.key_id, count_ended, budget)
        return answer(replace(parameters, deadline=deadline), source)


def _busy() -> LimitExceeded:
    message = f"{RUNNING} PromQL requests of this organization run already, and too many wait"
    return LimitExceeded(message, limit=CONCURRENCY)


def _find_deadline(parameters: Parameters, most_seconds: float | None) -> float | None:
    """Return the end of a request by the key's limit and by the parameter `timeout`, which can't raise the limit."""
    wanted = parameters.duration("timeout") / 1000 if parameters.text("timeout") else None
    seconds = min(filter(None, (wanted, most_seconds)), default=None)
    return None if seconds is None else time.monotonic() + seconds


def _engine(parameters: Parameters, source: MetricSource) -> Engine:
    options = Options(
        max_samples=MAX_SAMPLES, max_points=MAX_POINTS, max_visits=MAX_VISITS, deadline=parameters.deadline
    )
    if parameters.text("lookback_delta"):
        options = replace(options, lookback_ms=parameters.duration("lookback_delta", MAX_LOOKBACK_MS))
    return Engine(source, options)


def _truncate(found: list[Any], limit: int, warnings: tuple[str, ...]) -> tuple[list[Any], tuple[str, ...]]:
    if not limit or len(found) <= limit:
        return found, warnings
    return found[:limit], (*warnings, TRUNCATED)


def answer_query(parameters: Parameters, source: MetricSource) -> Response:
    """Answer an instant query."""
    at = parameters.time("time", parameters.now_ms)
    result = _engine(parameters, source).query(parameters.text("query"), at)
    data = format_result(result, at)
    warnings = result.warnings
    if result.series:
        data["result"], warnings = _truncate(data["result"], parameters.limit(), warnings)
    return success_response(data, warnings, result.infos)


def answer_range(parameters: Parameters, source: MetricSource) -> Response:
    """Answer a range query."""
    start, end, step = parameters.steps()
    result = _engine(parameters, source).query_range(parameters.text("query"), start, end, step)
    data = format_result(result, end)
    data["result"], warnings = _truncate(data["result"], parameters.limit(), result.warnings)
    return success_response(data, warnings, result.infos)


def _list_labels(parameters: Parameters, source: MetricSource, most: int = MAX_SERIES) -> tuple[set[Labels], bool]:
    """Return label sets, and whether there are more than `most`."""
    end = parameters.time("end", parameters.now_ms)
    start = parameters.time("start", end - LIST_MS)
    found: set[Labels] = set()
    for matchers in parameters.selectors() or [()]:
        for labels in source.list_series(matchers, start, end):
            if len(found) == most and labels not in found:
                return found, True
            found.add(labels)
    return found, False


def _list_response(listed: list[Any], limit: int, *, is_truncated: bool) -> Response:
    is_truncated = is_truncated or len(listed) > limit
    return success_response(listed[:limit], (TRUNCATED,) if is_truncated else ())


def answer_series(parameters: Parameters, source: MetricSource) -> Response:
    """List label sets."""
    if not parameters.selectors():
        raise BadData("no match[] parameter provided")
    limit = min(parameters.limit() or MAX_SERIES, MAX_SERIES)
    found, is_truncated = _list_labels(parameters, source, limit)
    return _list_response([dict(labels) for labels in sorted(found)], limit, is_truncated=is_truncated)


def answer_labels(parameters: Parameters, source: MetricSource) -> Response:
    """List names of labels."""
    found, is_truncated = _list_labels(parameters, source)
    names = sorted({name for labels in found for name, _ in labels})
    return _list_response(names, parameters.limit() or MAX_SERIES, is_truncated=is_truncated)


def answer_values(parameters: Parameters, source: MetricSource) -> Response:
    """List values of a label."""
    name = parameters.text("name")
    found, is_truncated = _list_labels(parameters, source)
    values = sorted({get(labels, name) for labels in found} - {""})
    return _list_response(values, parameters.limit() or MAX_SERIES, is_truncated=is_truncated)


def answer_metadata(parameters: Parameters, source: MetricSource) -> Response:
    """List metrics with type and unit."""
    wanted, limit = parameters.text("metric"), parameters.limit()
    end = parameters.now_ms
    found: dict[str, list[dict[str, str]]] = {}
    for metric in source.list_metrics(end - LIST_MS, end):
        name = translate_name(metric)
        if not wanted or wanted in {name + part for part in PARTS.get(metric.kind, ("",))}:
            found[name] = [{"type": metric.prometheus_type, "unit": "", "help": ""}]
    names = sorted(found)[: limit or MAX_SERIES]
    return success_response({name: found[name] for name in names})


def answer_build(_parameters: Parameters, _source: MetricSource) -> Response:
    """Report a version. Grafana chooses its features of the language by it."""
    return success_response({
        "version": "3.5.0",
        "revision": f"neve-{__version__}",
        "branch": "",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    })  # fmt: skip


def prometheus_routes(service: QueryService, guard: Guard) -> list[Route]:
    """Return the routes of Prometheus' API."""
    paths = PrometheusEndpoints(service)

    def door(path: str, answer: Answer, *methods: str) -> Route:
        handler = paths.handle(answer)
        return Route(f"{PREFIX}{path}", Endpoint(guard, dict.fromkeys(methods or ("GET",), handler)))

    return [
        door("/query", answer_query, "GET", "POST"),
        door("/query_range", answer_range, "GET", "POST"),
        door("/series", answer_series, "GET", "POST"),
        door("/labels", answer_labels, "GET", "POST"),
        door("/label/{name}/values", answer_values),
        door("/metadata", answer_metadata),
        door("/status/buildinfo", answer_build),
    ]
