"""OTLP logs that a test sends to Neve and to Loki: seeded, as JSON, logfmt and plain text, of several streams."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tests.logql.otlp_logs import attributes

if TYPE_CHECKING:
    from collections.abc import Mapping

SECOND = 10**9
START = 1_759_989_600 * SECOND  # 2025-10-09T06:00Z, before the intake of test lakes
MINUTES = 20
END = START + MINUTES * 60 * SECOND
LINES = 150  # of a stream
RESOURCES: tuple[Mapping[str, str], ...] = (
    {"service.name": "cart", "service.namespace": "shop", "k8s.pod.name": "cart-1", "host.name": "h1"},
    {"service.name": "cart", "service.namespace": "shop", "k8s.pod.name": "cart-2", "host.name": "h2"},
    {"service.name": "pay", "cloud.region": "eu-west-1"},
    {"host.name": "h1"},
)
SEVERITIES = ((5, "DEBUG"), (9, "INFO"), (9, "INFO"), (13, "WARN"), (17, "ERROR"))
USERS = ("ann", "bob", "Zoë", "eve smith")
ROUTES = ("/cart", "/cart/items", "/pay?x=1", "/")


def _write_json(chance: random.Random) -> str:
    document = {
        "method": chance.choice(("GET", "POST")),
        "status": chance.choice((200, 200, 204, 404, 500)),
        "took": f"{chance.randrange(1, 900)}ms",
        "user": {"name": chance.choice(USERS), "id": chance.randrange(5)},
        "size": f"{chance.randrange(1, 90)}KB",
        "cached": chance.random() < 0.5,
        "host_name": "from-the-line",
        "tags": ["a", "b"],
    }
    if chance.random() < 0.2:
        document.pop("status")
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text[:-5] if chance.random() < 0.05 else text


def _write_logfmt(chance: random.Random) -> str:
    user = chance.choice(USERS)
    quoted = f'"{user}"' if " " in user else user
    return (
        f'level={chance.choice(("info", "warn", "error"))} msg="paid order {chance.randrange(100)}" user={quoted} '
        f"amount={chance.choice((1, 2.5, 10))} took={chance.randrange(1, 90)}ms status={chance.choice((200, 500))}"
    )


def _write_plain(chance: random.Random) -> str:
    return (
        f"10.0.{chance.randrange(3)}.{chance.randrange(9)} - {chance.choice(('GET', 'PUT'))} {chance.choice(ROUTES)} "
        f"{chance.choice((200, 404, 503))} {chance.randrange(10, 2000)}b {chance.choice(('ok', 'Timeout', 'retry'))}"
    )


WRITERS = (_write_json, _write_json, _write_logfmt, _write_plain)


def make_request(seed: int) -> ExportLogsServiceRequest:
    """Return the lines of all streams. No two lines of a stream have the same time."""
    chance = random.Random(seed)
    groups = []
    for resource, write in zip(RESOURCES, WRITERS, strict=True):
        times = sorted(chance.sample(range(MINUTES * 60_000), LINES))
        records = [_make_record(chance, START + at * 1_000_000 + 1, write(chance)) for at in times]
        scope = ScopeLogs(scope=InstrumentationScope(), log_records=records)
        groups.append(ResourceLogs(resource=Resource(attributes=attributes(resource)), scope_logs=[scope]))
    return ExportLogsServiceRequest(resource_logs=groups)


def _make_record(chance: random.Random, time_ns: int, line: str) -> LogRecord:
    number, text = chance.choice(SEVERITIES)
    pairs = {"http.route": chance.choice(ROUTES), "retry.count": str(chance.randrange(3))}
    has_trace = chance.random() < 0.3
    return LogRecord(
        time_unix_nano=time_ns,
        body=AnyValue(string_value=line),
        severity_number=number,  # type: ignore[arg-type]  # an enumeration on the wire
        severity_text=text,
        attributes=attributes(dict(chance.sample(sorted(pairs.items()), chance.randrange(3)))),
        trace_id=chance.randbytes(16) if has_trace else b"",
        span_id=chance.randbytes(8) if has_trace else b"",
    )
