"""Structured logs on standard error: text lines on a terminal, JSON otherwise."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import structlog

from neve.app.telemetry.tracing import trace_ids

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor


def add_trace(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Add the current trace and span to a line, unless the line has a trace of its own."""
    ids = trace_ids()
    if ids is not None and "trace_id" not in event:
        event["trace_id"], event["span_id"] = ids
    return event


SHARED_PROCESSORS: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    add_trace,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure_logs(level: int = logging.INFO, process: str = "") -> None:
    """Send the logs of Neve and its libraries to standard error in one format; of several processes, with the name."""

    def add_process(_logger: Any, _method: str, event: EventDict) -> EventDict:
        if process:
            event.setdefault("process", process)
        return event

    shared: tuple[Processor, ...] = (*SHARED_PROCESSORS, add_process)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_final_processors()))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)  # libraries log warnings and errors only
    logging.getLogger("neve").setLevel(level)
    # Each bad request would be a line; they are counted instead.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


def _final_processors() -> list[Any]:
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if sys.stderr.isatty():
        return [remove, structlog.dev.ConsoleRenderer()]
    return [
        remove,
        structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
        structlog.processors.JSONRenderer(),
    ]
