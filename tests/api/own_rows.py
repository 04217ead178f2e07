"""A lake of two organizations with rejected records and sampling decisions, and batches that are in the ledger."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.app.control import Control, open_control
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.decision_tables import DECISIONS
from neve.model.tables import QUARANTINE
from tests.app.control_lake import control_settings
from tests.query.lakes import ACME, NOW, OTHER, logs, make_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
RANGE = "since=2026-03-01T00:00:00Z&until=2026-03-02T00:00:00Z"
GOOD = logs("refused once").SerializeToString()
TRACE = "ab" * 16


def put_rejected(lake: Lake, rows: list[dict[str, Any]], batch: str, rejected: int | None = None) -> None:
    """Commit rejected records as ingestion does."""
    whole = [
        {
            "organization_id": ACME,
            "quarantined_at": AT,
            "signal": "logs",
            "reason": "time_in_future",
            "detail": "2036-01-01 is later than a day from now",
            "source": "otlp",
            "position": 0,
            "encoding": "otlp_proto",
            "payload": GOOD,
            "batch_id": batch,
            **row,
        }
        for row in rows
    ]
    _commit(lake, QUARANTINE, whole, batch, {"neve.rejected": str(len(rows) if rejected is None else rejected)})


def put_decisions(lake: Lake, rows: list[dict[str, Any]], batch: str) -> None:
    """Commit decisions as a selector does."""
    moment = dict.fromkeys(("decided_at", "ready_at", "first_seen", "last_seen"), AT)
    whole = [
        {
            "organization_id": ACME,
            "selector": "default",
            "decision": "sampled",
            "policy": "errors",
            "reason": "policy errors",
            "adjusted_count": 1.0,
            "probability": 1.0,
            "revision": 0,
            "kind": "decided",
            "late_spans": 0,
            "ready_because": "inactive",
            "duration_ms": 5.0,
            "trace_id": bytes.fromhex(TRACE),
            "span_count": 3,
            "spans_bytes": 0,
            "start_time_unix_nano": NOW,
            "end_time_unix_nano": NOW,
            "has_error": True,
            "service_name": "cart",
            "operation_name": "get",
            "facts": [],
            "head_threshold": 0,
            "source": "spans",
            "source_snapshot_id": 2**62 + 1,
            "policies_hash": "0",
            "cycle": 1,
            **moment,
            **row,
        }
        for row in rows
    ]
    _commit(lake, DECISIONS, whole, batch, {})


def _commit(lake: Lake, table: Any, rows: list[dict[str, Any]], batch: str, summary: dict[str, str]) -> None:
    target = lake.table(table.name)
    columns = {name: [row.get(name) for row in rows] for name in table.schema.names}
    files = write_files(Target.of(target), pa.table(columns, schema=table.schema))
    append_once(target, files, batch_id=batch, operation="ingest-stream", summary={"neve.stream": "raw", **summary})


def fill(lake: Lake) -> None:
    """Rejected records and decisions of both organizations."""
    later = AT + timedelta(hours=1)
    put_rejected(
        lake,
        [
            {},
            {"quarantined_at": later, "position": 1, "payload": b"\xff\x00<b>", "reason": "malformed_message"},
            {"position": 2, "encoding": "csv", "payload": b"a,b\n=1", "source": "app.csv", "reason": "bad_line"},
            {"position": 3, "payload": None, "reason": "too_large"},
            {"organization_id": OTHER, "source": "secret source", "payload": b"secret bytes", "detail": "secret"},
        ],
        "raw:1",
    )
    put_decisions(
        lake,
        [
            {},
            {"trace_id": b"\x02" * 16, "decision": "not_sampled", "policy": None, "has_error": False, "span_count": 7},
            {"trace_id": b"\x03" * 16, "policy": "rest", "adjusted_count": 10.0, "has_error": False},
            {"trace_id": b"\x03" * 16, "policy": "rest", "kind": "late", "revision": 1, "adjusted_count": 10.0},
            {"organization_id": OTHER, "trace_id": b"\x09" * 16, "service_name": "secret service", "policy": "secret"},
        ],
        "tail:1",
    )


@contextmanager
def owned(folder: Path) -> Iterator[Control]:
    """The control of such a lake."""
    lake = make_lake(folder)
    fill(lake)
    with open_control(control_settings(folder), lake) as control:
        yield control
