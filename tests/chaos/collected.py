"""What a collector wrote to files: the record of what it took, made by someone else than Neve."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Key = tuple[str | int, ...]

GROUPS = {
    Signal.TRACES: ("resourceSpans", "scopeSpans", "spans"),
    Signal.LOGS: ("resourceLogs", "scopeLogs", "logRecords"),
    Signal.METRICS: ("resourceMetrics", "scopeMetrics", "metrics"),
}


def collected_keys(signal: Signal, lines: Iterable[str]) -> list[Key]:
    """What tells each record from all others: a span its ids; a log and a point their service, time and content.

    >>> span = '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "0a", "spanId": "0b"}]}]}]}'
    >>> collected_keys(Signal.TRACES, [span])
    [('0a', '0b')]
    """
    return [key for line in lines for key in _keys(signal, json.loads(line))]


def _keys(signal: Signal, message: dict[str, Any]) -> Iterator[Key]:
    of_resources, of_scopes, of_records = GROUPS[signal]
    for group in message[of_resources]:
        for scope in group[of_scopes]:
            for record in scope[of_records]:
                yield from KEYS[signal](_service(group), record)


def _service(group: dict[str, Any]) -> str:
    attributes = group.get("resource", {}).get("attributes", [])
    return next((pair["value"]["stringValue"] for pair in attributes if pair["key"] == "service.name"), "")


def _span(_service: str, span: dict[str, Any]) -> Iterator[Key]:
    yield span["traceId"], span["spanId"]


def _log(service: str, record: dict[str, Any]) -> Iterator[Key]:
    yield service, int(record["timeUnixNano"]), record["body"]["stringValue"]


def _gauge(service: str, metric: dict[str, Any]) -> Iterator[Key]:
    for point in metric["gauge"]["dataPoints"]:
        yield service, int(point["timeUnixNano"]), metric["name"], int(point["asInt"])


KEYS = {Signal.TRACES: _span, Signal.LOGS: _log, Signal.METRICS: _gauge}
