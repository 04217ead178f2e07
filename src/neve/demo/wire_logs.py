"""Log records on the wire: OTLP JSON, one request a line, as the standard maps it.

Ids are hexadecimal, enumerations and other 32-bit numbers are numbers, 64-bit numbers are strings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from neve.demo.batch import group_by
from neve.demo.interval import SECOND
from neve.demo.log import SEVERITY_TEXTS, Log
from neve.demo.semantics import LIBRARY_VERSION, SCHEMA_URL
from neve.demo.span import SAMPLED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from neve.demo.attributes import Attributes, Body, Value

Json: TypeAlias = dict[str, Any]

BATCH = 10 * SECOND


def log_lines(logs: Iterable[Log]) -> Iterator[str]:
    """Yield a request for each ten seconds of logs, as a line of JSON."""
    for batch in group_by(logs, lambda log: log.time // BATCH).values():
        yield json.dumps(logs_request(batch), separators=(",", ":"), ensure_ascii=False) + "\n"


def logs_request(logs: Iterable[Log]) -> Json:
    """Return one request of all records, grouped by instance and then by logger."""
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": key_values(instance.resource)},
                "scopeLogs": [
                    {
                        "scope": {"name": logger, "version": LIBRARY_VERSION},
                        "logRecords": [wire_log(log) for log in group],
                        "schemaUrl": SCHEMA_URL,
                    }
                    for logger, group in group_by(mine, lambda log: log.logger).items()
                ],
                "schemaUrl": SCHEMA_URL,
            }
            for instance, mine in group_by(logs, lambda log: log.instance).items()
        ]
    }


def wire_log(log: Log) -> Json:
    """Return a record as OTLP's JSON; fields that are empty are left out."""
    record: Json = {
        "timeUnixNano": str(log.time),
        "observedTimeUnixNano": str(log.observed),
        "severityNumber": log.severity,
        "severityText": SEVERITY_TEXTS[log.severity],
        "body": any_value(log.body),
        "attributes": key_values(log.attributes),
    }
    if log.trace_id:
        record |= {"traceId": log.trace_id.hex(), "spanId": log.span_id.hex(), "flags": SAMPLED}
    return record


def any_value(value: Body) -> Json:
    """Return a value as OTLP's variant; bool comes before int, of which it is a kind."""
    match value:
        case str():
            return {"stringValue": value}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case Mapping():
            pairs = [{"key": key, "value": any_value(item)} for key, item in value.items()]
            return {"kvlistValue": {"values": pairs}}
        case _:
            return {"arrayValue": {"values": [any_value(item) for item in value]}}


@lru_cache(maxsize=16_384, typed=True)
def _key_value(key: str, value: Value) -> Json:
    """Return a pair, which nobody changes: it is shared by all records that have it."""
    return {"key": key, "value": any_value(value)}


def key_values(attributes: Attributes) -> list[Json]:
    """Return all pairs, in the order of the attributes."""
    return [_key_value(key, value) for key, value in attributes.items()]
