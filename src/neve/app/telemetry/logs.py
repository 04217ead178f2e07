"""Log lines as OTLP log records, with their fields as attributes and the span that they were said in."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from neve.app.telemetry.metrics import DROPPED
from neve.app.telemetry.traces import trace_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.resources import Resource

# What a record says in fields of its own.
SAID = ("event", "level", "logger", "timestamp", "exc_info")
SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL, "FATAL"),
    (logging.ERROR, SeverityNumber.ERROR, "ERROR"),
    (logging.WARNING, SeverityNumber.WARN, "WARN"),
    (logging.INFO, SeverityNumber.INFO, "INFO"),
    (logging.NOTSET, SeverityNumber.DEBUG, "DEBUG"),
)
LEAST_INT, MOST_INT = -(2**63), 2**63 - 1


class OtlpHandler(logging.Handler):
    """Hands log lines to whoever sends them; a line that can't be said is dropped and counted."""

    def __init__(self, level: str, resource: Resource, put: Callable[[ReadableLogRecord], None]) -> None:
        super().__init__(level)
        self._resource, self._put = resource, put

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        try:
            said = ReadableLogRecord(_said(record), self._resource, InstrumentationScope(record.name))
        except Exception:
            DROPPED.labels("logs", "unsayable").inc()
            return
        self._put(said)


def _said(record: logging.LogRecord) -> LogRecord:
    # structlog leaves its fields in the place of the message.
    fields: Mapping[str, Any] = record.msg if isinstance(record.msg, Mapping) else {"event": record.getMessage()}
    number, text = next((number, text) for least, number, text in SEVERITIES if record.levelno >= least)
    attributes = {key: plain(value) for key, value in fields.items() if key not in SAID and value is not None}
    if _is_current(attributes.get("trace_id"), attributes.get("span_id")):
        del attributes["trace_id"], attributes["span_id"]  # the record has them
    return LogRecord(
        timestamp=int(record.created * 1e9),
        observed_timestamp=time.time_ns(),
        severity_number=number,
        severity_text=text,
        body=str(fields.get("event", "")),
        attributes={**attributes, **_exception(fields.get("exc_info") or record.exc_info)},
    )


def _is_current(trace_id: Any, span_id: Any) -> bool:
    return trace_id is not None and (trace_id, span_id) == trace_ids()


def _exception(told: Any) -> dict[str, str]:
    """An error as OpenTelemetry names its parts; structlog says True for the one that is being handled."""
    error = told if isinstance(told, BaseException) else (told[1] if isinstance(told, tuple) else None)
    if told is True:
        error = sys.exc_info()[1]
    if error is None:
        return {}
    return {
        "exception.type": type(error).__name__,
        "exception.message": str(error),
        "exception.stacktrace": "".join(traceback.format_exception(error)),
    }


def plain(value: Any) -> Any:
    """A value as OTLP has it; whatever it has no form for is said in words.

    >>> plain({"a": (1, None), "b": 2**70})
    {'a': [1, None], 'b': '1180591620717411303424'}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, int) and not LEAST_INT <= value <= MOST_INT:
        return str(value)
    return value if value is None or isinstance(value, str | bool | int | float | bytes) else str(value)
