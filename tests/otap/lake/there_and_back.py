"""Rows of the lake as a star, and the star as rows again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from neve.model.signals import Signal
from neve.otap.from_lake import PartBuilder
from neve.otap.star_rows import StarRows, ids_of
from neve.otap.to_lake import to_messages
from neve.otlp import Intake, decode
from tests.otlp.messages import NOW

if TYPE_CHECKING:
    from google.protobuf.message import Message

INTAKE = Intake(organization_id="acme", received_unix_nano=NOW)
ROOTS = {Signal.LOGS: "logs", Signal.TRACES: "spans"}
MAPS = ("attributes", "attribute_types", "resource_attrs", "resource_attr_types", "scope_attrs", "scope_attr_types")


def rows_of(signal: Signal, message: Message | bytes) -> pa.RecordBatch:
    """What ingestion makes of a message; nothing of it may be refused."""
    wire = message if isinstance(message, bytes) else message.SerializeToString(deterministic=True)
    decoded = decode(signal, [wire], INTAKE)
    assert decoded.rejected == ()
    return decoded.batch


def star_of(root: str, rows: pa.RecordBatch) -> tuple[StarRows, Counter[str]]:
    """Rows as a star, with the names of what was lost."""
    part = PartBuilder(root)
    tables = part.take(rows)
    ids = {name: ids_of(pc.struct_field(tables[root].column(name), "id")) for name in ("resource", "scope")}
    return StarRows(root, tables[root], tables, ids["resource"], ids["scope"]), +part.losses


def and_back(signal: Signal, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Counter[str]]:
    """Rows after they were a star, with the names of what was lost."""
    star, losses = star_of(ROOTS[signal], rows)
    found: Counter[str] = Counter()
    back = rows_of(signal, b"".join(to_messages(star, found).to_pylist()))
    assert not +found
    return back, losses


def plain(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as Python has them, with maps whose order does not count."""
    return [{name: _plain(value) for name, value in row.items()} for row in rows.to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()} or value
    return value if value != [] else {}
