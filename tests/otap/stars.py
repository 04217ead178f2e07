"""Small OTAP folders made by hand to the specification, for tests of whatever reads them.

make_star(folder, logs=[Log(time_ns=1, service="shop", attributes={"user": 7}, weight=2.5)])
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import cbor2
import pyarrow as pa
import pyarrow.parquet as pq

from neve.otap.folder import part_path
from neve.otap.tables import PART_ID, STARS, is_attrs, schema

if TYPE_CHECKING:
    from collections.abc import Sequence

PART = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
ADJUSTED = "sampling.adjusted_count"
Rows = dict[str, list[dict[str, Any]]]
Convention = Literal["specification", "exporter"]


@dataclass(frozen=True)
class Record:
    """What logs and spans have in common. Without attributes a record has no id, unless it is given one."""

    time_ns: int = 0
    service: str | None = "shop"
    resource: dict[str, Any] = field(default_factory=dict)
    scope: str | None = "lib"
    scope_attributes: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    weight: float | str | None = None
    id: int | None = None
    trace_id: bytes | None = None
    span_id: bytes | None = None

    @property
    def all_attributes(self) -> dict[str, Any]:
        """The attributes, with the weight among them."""
        return self.attributes if self.weight is None else {**self.attributes, ADJUSTED: self.weight}

    @property
    def resource_attributes(self) -> dict[str, Any]:
        """The resource, with the service's name in it."""
        return self.resource if self.service is None else {**self.resource, "service.name": self.service}


@dataclass(frozen=True)
class Log(Record):
    """A log record."""

    body: Any = None
    severity_number: int | None = None
    severity_text: str | None = None
    event_name: str | None = None


@dataclass(frozen=True)
class Event:
    """Something that happened in a span."""

    name: str
    time_ns: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """A span that another one points at."""

    trace_id: bytes
    span_id: bytes
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Span(Record):
    """A span with what hangs on it."""

    name: str = "GET /"
    duration_ns: int = 1_000_000
    kind: int | None = 2
    parent_span_id: bytes | None = None
    status: int | None = None
    status_message: str | None = None
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()


def make_star(
    folder: Path | str,
    *,
    logs: Sequence[Log] = (),
    spans: Sequence[Span] = (),
    convention: Convention = "specification",
    batch: int = 1000,
    part: str = PART,
    flat: bool = False,
    dictionary: bool = True,
    files: int = 1,
    millis: int = 1_700_000_000_000,
) -> dict[str, list[str]]:
    """Write a part; the paths of its files by table.

    To the specification, ids are dense over the part. As the exporter does it, every `batch` records have ids of their
    own, grouped by resource and scope, and are then shifted; logs come before spans and share the offsets with them.
    """
    rows = star_rows(logs, spans, convention, batch)
    paths: dict[str, list[str]] = {}
    for table, found in rows.items():
        paths[table] = []
        for number, some in enumerate(_split(found, files)):
            path = part_path(str(folder), table, "" if flat else part, millis + number, f"{table}-{number}")
            _write(path, _encoded(table, some, convention, dictionary=dictionary), table, part)
            paths[table].append(path)
    return paths


def star_rows(
    logs: Sequence[Log] = (), spans: Sequence[Span] = (), convention: Convention = "specification", batch: int = 1000
) -> Rows:
    """The rows of every table of a part."""
    rows: Rows = {
        table: [] for name, kept in (("logs", logs), ("spans", spans)) if kept for table in STARS[name].tables
    }
    if convention == "specification":
        encoder = Encoder(rows)
        for record in (*logs, *spans):
            encoder.add(record)
        return _sorted(rows)
    offset = 0
    for records in (*_split_by(logs, batch), *_split_by(spans, batch)):
        mine: Rows = {table: [] for table in rows}
        encoder = Encoder(mine)
        for record in _grouped(records):
            encoder.add(record)
        largest = max((row["id"] or 0 for found in mine.values() for row in found if "id" in row), default=0)
        for table, found in _sorted(mine).items():
            rows[table] += [_shifted(row, offset) for row in found]
        offset += largest + 1
    return rows


class Encoder:
    """Numbers what it is given, as the specification says; resources and scopes are told apart by what they are."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.resources: dict[str, int] = {}
        self.scopes: dict[str, int] = {}
        self.next_ids = dict.fromkeys(("record", "span_events", "span_links"), 0)

    def add(self, record: Record) -> None:
        """One more record with all that hangs on it."""
        row: dict[str, Any] = {"id": self._id(record), "schema_url": "", **self._origin(record)}
        if isinstance(record, Span):
            self.rows["spans"].append(row | _span_columns(record))
            self._attributes("span_attrs", row["id"], record.all_attributes)
            self._events(record, row["id"])
            self._links(record, row["id"])
        elif isinstance(record, Log):
            self.rows["logs"].append(row | _log_columns(record))
            self._attributes("log_attrs", row["id"], record.all_attributes)

    def _id(self, record: Record) -> int | None:
        if record.id is not None:
            return record.id
        has_children = record.all_attributes or (isinstance(record, Span) and (record.events or record.links))
        return self._next("record") if has_children else None

    def _next(self, kind: str) -> int:
        self.next_ids[kind] += 1
        return self.next_ids[kind] - 1

    def _origin(self, record: Record) -> dict[str, Any]:
        resource = self._number(self.resources, "resource_attrs", _told(record), record.resource_attributes)
        scope = self._number(self.scopes, "scope_attrs", _told(record, scope=True), record.scope_attributes)
        return {
            "resource": {"id": resource, "schema_url": None, "dropped_attributes_count": None},
            "scope": {"id": scope, "name": record.scope, "version": None, "dropped_attributes_count": None},
        }

    def _number(self, known: dict[str, int], table: str, told: str, attributes: dict[str, Any]) -> int:
        if told not in known:
            known[told] = len(known)
            self._attributes(table, known[told], attributes)
        return known[told]

    def _attributes(self, table: str, parent: int | None, attributes: dict[str, Any]) -> None:
        self.rows[table] += [{"parent_id": parent, "key": key, **value_columns(attributes[key])} for key in attributes]

    def _events(self, span: Span, parent: int | None) -> None:
        for event in span.events:
            number = self._next("span_events") if event.attributes else None
            row = {"id": number, "parent_id": parent, "time_unix_nano": event.time_ns, "name": event.name}
            self.rows["span_events"].append(row)
            self._attributes("span_event_attrs", number, event.attributes)

    def _links(self, span: Span, parent: int | None) -> None:
        for link in span.links:
            number = self._next("span_links") if link.attributes else None
            row = {"id": number, "parent_id": parent, "trace_id": link.trace_id, "span_id": link.span_id}
            self.rows["span_links"].append(row)
            self._attributes("span_link_attrs", number, link.attributes)


def value_columns(value: Any) -> dict[str, Any]:
    """A Python value as OTAP's typed columns."""
    kinds: tuple[tuple[Any, int, str], ...] = (
        (bool, 4, "bool"),
        (str, 1, "str"),
        (int, 2, "int"),
        (float, 3, "double"),
        (bytes, 7, "bytes"),
    )
    if value is None:
        return {"type": 0}
    if isinstance(value, dict | list):
        return {"type": 5 if isinstance(value, dict) else 6, "ser": cbor2.dumps(value)}
    number, column = next((number, column) for kind, number, column in kinds if isinstance(value, kind))
    return {"type": number, column: value}


def _log_columns(log: Log) -> dict[str, Any]:
    return {
        "time_unix_nano": log.time_ns,
        "observed_time_unix_nano": log.time_ns,
        "trace_id": log.trace_id,
        "span_id": log.span_id,
        "severity_number": log.severity_number,
        "severity_text": log.severity_text,
        "body": None if log.body is None else value_columns(log.body),
        "dropped_attributes_count": 0,
        "event_name": log.event_name,
        "flags": 0,
    }


def _span_columns(span: Span) -> dict[str, Any]:
    return {
        "start_time_unix_nano": span.time_ns,
        "duration_time_unix_nano": span.duration_ns,
        "trace_id": span.trace_id or bytes(15) + b"\1",
        "span_id": span.span_id or bytes(7) + b"\1",
        "parent_span_id": span.parent_span_id,
        "name": span.name,
        "kind": span.kind,
        "status": None if span.status is None else {"code": span.status, "status_message": span.status_message},
    }


def _told(record: Record, *, scope: bool = False) -> str:
    """What tells a resource, or a scope of a resource, from others."""
    inner = [record.scope, record.scope_attributes] if scope else []
    return json.dumps([record.resource_attributes, *inner], sort_keys=True, default=repr)


def _grouped(records: Sequence[Record]) -> list[Record]:
    """Records as a message has them: by resource, then by scope."""
    groups: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        groups.setdefault(_told(record), {}).setdefault(_told(record, scope=True), []).append(record)
    return [record for scopes in groups.values() for some in scopes.values() for record in some]


def _shifted(row: dict[str, Any], offset: int) -> dict[str, Any]:
    """A row as the exporter writes it: what is nested keeps its id."""
    return row | {name: row[name] + offset for name in ("id", "parent_id") if row.get(name) is not None}


def _sorted(rows: Rows) -> Rows:
    """The same rows, attributes in order."""
    for table, found in rows.items():
        if is_attrs(table):
            found.sort(key=lambda row: (row["parent_id"], row["key"].encode()))
    return rows


def _encoded(table: str, rows: list[dict[str, Any]], convention: Convention, *, dictionary: bool) -> pa.Table:
    """Rows as Arrow: dictionaries as the wire has them, and the exporter's own types where it is followed."""
    kinds = [_as_told(one, convention, dictionary=dictionary) for one in schema(table)]
    plain = pa.Table.from_pylist([_with_nanos(row) for row in rows], schema=schema(table))
    return plain.cast(pa.schema(kinds))


def _as_told(told: pa.Field, convention: Convention, *, dictionary: bool) -> pa.Field:
    kind = told.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_as_told(one, convention, dictionary=dictionary) for one in kind])
    elif pa.types.is_string(kind) and dictionary:
        kind = pa.dictionary(pa.uint16() if told.name == "str" else pa.uint8(), pa.string())
    elif pa.types.is_timestamp(kind) and convention == "exporter":
        kind = pa.timestamp("ns", tz="UTC")
    elif pa.types.is_duration(kind) and convention == "exporter":
        kind = pa.int64()
    return told.with_type(kind)


def _with_nanos(row: dict[str, Any]) -> dict[str, Any]:
    """Times as Arrow scalars: Python's own have no nanoseconds."""
    times = {name: pa.scalar(row[name], pa.timestamp("ns")) for name in row if name.endswith("time_unix_nano")}
    lasting = "duration_time_unix_nano"
    return row | times | ({lasting: pa.scalar(row[lasting], pa.duration("ns"))} if lasting in row else {})


def _split(rows: list[dict[str, Any]], files: int) -> list[list[dict[str, Any]]]:
    size = -(-len(rows) // files)
    return [rows[first : first + size] for first in range(0, len(rows), size)] if rows else [[]]


def _split_by(records: Sequence[Record], size: int) -> list[Sequence[Record]]:
    return [records[first : first + size] for first in range(0, len(records), size)]


def _write(path: str, rows: pa.Table, table: str, part: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.replace_schema_metadata({PART_ID: part} if table in STARS else None), path)
