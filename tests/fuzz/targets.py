"""What is fuzzed: each takes bytes, and may raise nothing but the errors that it documents."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from neve.errors import InputError, QueryError, WireError
from neve.ingest.assignment import Assignment
from neve.ingest.config import FieldsConfig, IngestConfig
from neve.ingest.decoder import decode_all
from neve.ingest.files.reader import ReadOptions, decompress, read_messages
from neve.ingest.stream.raw_zone import RawTask
from neve.lake.config import S3Config
from neve.model.tables import TABLES
from neve.otap.values import unpack_map, unpack_slice
from neve.otlp import Intake, decode
from neve.otlp.json import to_protobuf
from neve.otlp.values import UnreadableValue
from neve.query.engine.worker import RECURSION
from neve.query.sql.duckdb_statement import DuckDBStatement, check_duckdb_statement, draw_source_names
from neve.query.sql.statement import parse, write_for_duckdb
from neve.raw.frame import Encoding
from neve.raw.segments import Segment
from neve.receive.check import check_message
from neve.receive.receiver import Export
from neve.receive.refusal import Refusal
from tests.fuzz import bombs, corpus
from tests.fuzz.child import Target
from tests.fuzz.containers import (
    mutate_body,
    mutate_file,
    mutate_segment,
    mutate_value,
    open_body,
    open_file,
)
from tests.fuzz.texts import mutate_statement
from tests.receive.test_receiver import Room, a_room

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 1_760_000_000_000_000_000
INTAKE = Intake("acme", NOW)
FIELDS = FieldsConfig()
SCHEMAS = {table.name: table.schema for table in TABLES}
MAX_RECORDS = 1_000_000
# Where files have a bound, it is one that fits into the memory of a run.
BOUND: dict[str, Any] = {"most": 64 * 1024 * 1024} if "most" in signature(decompress).parameters else {}


class Disagreement(AssertionError):
    """Raised when two readers of the same bytes do not agree on them."""


def run_receiver(data: bytes) -> None:
    """Accept a body as the ports do: unpack, examine, keep."""
    signal, encoding, packing, packed = open_body(data)
    loop, room, _manager = _receiver()

    async def accept() -> None:
        with room.receiver.budget.hold() as hold:
            hold.grow(len(packed))
            await room.receiver.accept(Export(signal, "acme", packed, encoding, packing), hold)

    try:
        loop.run_until_complete(accept())
    finally:
        room.sink.pieces.clear()
        if room.receiver.budget.used:
            raise Disagreement(f"{room.receiver.budget.used} bytes stay in the budget")


@cache
def _receiver() -> tuple[asyncio.AbstractEventLoop, Room, object]:
    """A loop and a receiver; the last one keeps the receiver open as long as it is referred to."""
    loop = asyncio.new_event_loop()
    manager = a_room(Path(tempfile.mkdtemp(prefix="neve-fuzz-")))
    return loop, loop.run_until_complete(manager.__aenter__()), manager


def run_decoders(data: bytes) -> None:
    """Decode a message or the messages of a JSON text; the receiver's check may refuse nothing that is decoded."""
    signal, encoding, _packing, wire = open_body(data)
    if encoding is Encoding.JSON:
        for message in to_protobuf(signal, wire).messages.to_pylist():
            decode(signal, [message], INTAKE)
        return
    rows = decode(signal, [wire], INTAKE).batch.num_rows
    try:
        checked = check_message(signal, wire, INTAKE, MAX_RECORDS)
        accepted = checked.records - sum(checked.rejected.values())
    except Refusal as refusal:
        accepted = rows if refusal.reason.startswith("too_many") else 0
    if accepted < rows:
        raise Disagreement(f"the check accepts {accepted} records of {signal}, decoding accepts {rows}")


def run_files(data: bytes) -> None:
    """Read a file and decode its messages."""
    name, raw = open_file(data)
    for part in read_messages(name, decompress(name, raw, **BOUND), ReadOptions(), FIELDS, **BOUND):
        decode_all(part.signal, part.messages, INTAKE)


@dataclass(frozen=True)
class OneSegment:
    """A raw zone that has one segment, whatever is asked for."""

    data: bytes

    def read(self, _path: str) -> bytes:
        """Its bytes."""
        return self.data


def run_segments(data: bytes) -> None:
    """Take a segment in as a task of the stream does."""
    assignment = Assignment("fuzz", NOW, IngestConfig(), S3Config(), {})
    names = ("quarantine", "spans", "logs", "metrics")
    zone: Any = OneSegment(data)
    task = RawTask(assignment, zone, [[Segment("w", 0, "w/0.raw", len(data))]], {name: {} for name in names})
    for _parcel in task.scatter([pa.record_batch({"group": pa.array([0])})]):
        pass


def run_values(data: bytes) -> None:
    """Read a map or a slice of OTAP."""
    (unpack_map if data[:1] == b"\x01" else unpack_slice)(data[1:])


def run_query(data: bytes) -> None:
    """Read a statement, write it for DuckDB, and have DuckDB's parser look at it."""
    statement = parse(data.decode("utf-8", "replace"), SCHEMAS)
    _ = statement.normalised_sql, statement.not_portable
    if statement.kind != "select":
        return
    names = draw_source_names(range(len(statement.tables)))
    text = write_for_duckdb(statement, {number: f'"{name}"' for number, name in names.items()})
    with _recursion(RECURSION), suppress(duckdb.Error):  # as the processes that run statements
        check_duckdb_statement(_parser(), DuckDBStatement(text, dict.fromkeys(names.values(), "")))


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


@contextmanager
def _recursion(limit: int) -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, before))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


TARGETS = {
    target.name: target
    for target in (
        Target("receiver", run_receiver, (Refusal,), corpus.bodies, mutate_body, bombs.bodies),
        Target("decoders", run_decoders, (WireError,), corpus.plain_bodies, mutate_body),
        Target("files", run_files, (InputError,), corpus.files, mutate_file, bombs.files),
        Target("segments", run_segments, (), corpus.segments, mutate_segment, bombs.segments),
        Target("values", run_values, (UnreadableValue,), corpus.values, mutate_value, bombs.values),
        Target("query", run_query, (QueryError,), corpus.statements, mutate_statement, bombs.statements),
    )
}
