"""Log records on the wire: OTLP protobuf, for those who encode them often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from neve.demo.batch import group_by
from neve.demo.log import SEVERITY_TEXTS, Log
from neve.demo.protobuf import any_value, key_values, resource, scope
from neve.demo.semantics import LIBRARY_VERSION, SCHEMA_URL
from neve.demo.span import SAMPLED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.demo.attributes import Body


def logs_message(logs: Iterable[Log]) -> ExportLogsServiceRequest:
    """Return one request of all records, grouped by instance and then by logger, as the JSON has them."""
    return ExportLogsServiceRequest(
        resource_logs=[
            ResourceLogs(
                resource=resource(instance.resource),
                scope_logs=[
                    ScopeLogs(
                        scope=scope(logger, LIBRARY_VERSION),
                        log_records=[_record(log) for log in group],
                        schema_url=SCHEMA_URL,
                    )
                    for logger, group in group_by(mine, lambda log: log.logger).items()
                ],
                schema_url=SCHEMA_URL,
            )
            for instance, mine in group_by(logs, lambda log: log.instance).items()
        ]
    )


def _record(log: Log) -> LogRecord:
    """Return a record as OTLP's message."""
    severity: Any = log.severity  # on the wire it is the number
    return LogRecord(
        time_unix_nano=log.time,
        observed_time_unix_nano=log.observed,
        severity_number=severity,
        severity_text=SEVERITY_TEXTS[log.severity],
        body=_body(log.body),
        attributes=key_values(log.attributes),
        trace_id=log.trace_id,
        span_id=log.span_id,
        flags=SAMPLED if log.trace_id else 0,
    )


def _body(body: Body) -> AnyValue:
    """Return a body as OTLP's variant: a structure has structures in it, anything else is a value."""
    if isinstance(body, Mapping):
        pairs = [KeyValue(key=key, value=_body(value)) for key, value in body.items()]
        return AnyValue(kvlist_value=KeyValueList(values=pairs))
    if isinstance(body, str | bool | int | float):
        return any_value(body)
    return AnyValue(array_value=ArrayValue(values=[_body(item) for item in body]))
