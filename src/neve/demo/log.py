"""A log record as the simulation knows it, before it is put into any wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from neve.demo.attributes import Attributes, Body
    from neve.demo.fleet import Instance

DEBUG, INFO, WARN, ERROR, FATAL = 5, 9, 13, 17, 21  # OTLP's numbers of severities
SEVERITY_TEXTS = {DEBUG: "DEBUG", INFO: "INFO", WARN: "WARN", ERROR: "ERROR", FATAL: "FATAL"}


class Log(NamedTuple):
    """One record of one instance; the ids are empty when it belongs to no trace."""

    time: int
    observed: int
    instance: Instance
    logger: str
    severity: int
    body: Body
    attributes: Attributes
    trace_id: bytes = b""
    span_id: bytes = b""
