"""Generic records (JSON lines, CSV, Parquet) as OTLP messages, so that everything takes the same path from there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import FileTooLarge
from neve.ingest.files.documents import MOST_UNPACKED, read_documents, without_deep
from neve.ingest.files.formats import Format
from neve.ingest.files.mapping import mapping_query
from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL
from neve.otlp import Rejected, encode
from neve.otlp.hexadecimal import from_hex

if TYPE_CHECKING:
    from neve.ingest.config import FieldsConfig

NANOS_PER_MS = 1_000_000
KINDS = {"VARCHAR": None, "BOOLEAN": "bool", "BIGINT": "int", "UBIGINT": "int", "OBJECT": "map", "ARRAY": "array"}
SEVERITIES = {
    "trace": 1,
    "verbose": 1,
    "debug": 5,
    "info": 9,
    "information": 9,
    "notice": 10,
    "warn": 13,
    "warning": 13,
    "err": 17,
    "error": 17,
    "crit": 21,
    "critical": 21,
    "alert": 22,
    "emerg": 23,
    "fatal": 21,
    "panic": 21,
}


@dataclass(frozen=True)
class Generic:
    """One message of the records that could be read, and the records that could not."""

    messages: pa.BinaryArray
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True)
class GenericReader:
    """Reads generic files of one signal."""

    signal: Signal
    fields: FieldsConfig
    most: int = MOST_UNPACKED

    def read(self, form: Format, data: bytes) -> Generic:
        """A file's records as OTLP; raises `InputError` when the file as a whole can't be read."""
        try:
            return self._read(form, data, _engine())
        except duckdb.OutOfMemoryException as error:
            raise FileTooLarge(
                "its records need more memory than this worker has", hint="split the file, or give workers more memory"
            ) from error

    def _read(self, form: Format, data: bytes, engine: duckdb.DuckDBPyConnection) -> Generic:
        documents = without_deep(read_documents(form, data, engine, self.most))
        if len(documents.texts) == 0:
            return Generic(pa.array([], pa.binary()), documents.rejected)
        engine.register("given_documents", pa.table({"position": documents.positions, "document": documents.texts}))
        query = mapping_query(self.signal, _that_occur(self.fields, engine), keep_nulls=form is Format.JSON_LINES)
        found = engine.execute(query).to_arrow_table().combine_chunks()
        refused = _refusals(self.signal, found)
        bad = {position for position, *_ in refused}
        keep = np.array([row for row in range(found.num_rows) if row not in bad], dtype=np.int64)
        positions, texts = found.column("position"), found.column("document")
        rejected = [
            Rejected(reason, detail, positions[row].as_py(), texts[row].as_py().encode(), Format.JSON_LINES)
            for row, reason, detail in refused
        ]
        rows = _rows(self.signal, found.take(pa.array(keep)), engine)
        message = encode(self.signal, rows)
        messages = [message] if message else []
        return Generic(pa.array(messages, pa.binary()), (*documents.rejected, *rejected))


def _that_occur(fields: FieldsConfig, engine: duckdb.DuckDBPyConnection) -> FieldsConfig:
    """The configured names without those that no record has: looking for a name costs time in every record."""
    found = engine.execute("SELECT DISTINCT unnest(json_keys(document)) FROM given_documents").fetchall()
    names = {name for (name,) in found}
    given = fields.model_dump(exclude={"time_format"})
    return fields.model_copy(
        update={meaning: tuple(name for name in candidates if name in names) for meaning, candidates in given.items()}
    )


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect(config={"threads": 1})
    engine.execute("SET TimeZone = 'UTC'")
    return engine


def _refusals(signal: Signal, found: pa.Table) -> list[tuple[int, str, str]]:
    """Records whose time, value or duration is there but can't be understood."""
    time, number = "expected RFC 3339 or an epoch, from 1970 to 2262", "expected a number"
    checks = [("time_text", "time_nanos", "bad_time", time)]
    if signal is Signal.TRACES:
        checks += [("end_text", "end_nanos", "bad_time", time), ("duration_text", "duration_ms", "bad_value", number)]
    if signal is Signal.METRICS:
        checks.append(("value_text", "value", "bad_value", number))
    refused = []
    for given, understood, reason, expected in checks:
        column = found.column(understood)
        wrong = pc.is_null(column)
        if reason == "bad_time":
            wrong = pc.or_kleene(wrong, pc.less(column, 0))
        bad = pc.and_kleene(pc.is_valid(found.column(given)), wrong)
        for row in np.flatnonzero(bad.to_numpy()).tolist():
            said = found.column(given)[row].as_py()
            refused.append((row, reason, f"{given.removesuffix('_text')} is {said!r}, {expected}"))
    if signal is Signal.METRICS:
        missing = np.flatnonzero(pc.is_null(found.column("value_text")).to_numpy()).tolist()
        refused += [(row, "missing_value", "the record has no field for the value") for row in missing]
    return list({row: (row, reason, detail) for row, reason, detail in reversed(refused)}.values())


def _rows(signal: Signal, found: pa.Table, engine: duckdb.DuckDBPyConnection) -> pa.RecordBatch:
    """The records as rows of the signal's table; what they do not say is null."""
    attributes, attribute_types = _maps(found.column("attributes"), engine)
    resource, resource_types = _maps(found.column("resource"), engine)
    columns = {
        "attributes": attributes,
        "attribute_types": attribute_types,
        "resource_attrs": resource,
        "resource_attr_types": resource_types,
        "trace_id": _ids(found.column("trace_id")),
        "span_id": _ids(found.column("span_id")),
        **_OWN[signal](found),
    }
    schema = BY_SIGNAL[signal].schema
    arrays = [
        _plain(columns[field.name]).cast(field.type) if field.name in columns else pa.nulls(found.num_rows, field.type)
        for field in schema
    ]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_arrays(arrays, schema=nullable)


def _log_columns(found: pa.Table) -> dict[str, pa.Array]:
    return {
        "time_unix_nano": found.column("time_nanos"),
        "severity_text": found.column("severity"),
        "severity_number": _severity_numbers(_plain(found.column("severity"))),
        "message": found.column("message"),
    }


def _metric_columns(found: pa.Table) -> dict[str, pa.Array]:
    return {
        "time_unix_nano": found.column("time_nanos"),
        "metric_name": found.column("name"),
        "metric_type": pa.array(["gauge"] * found.num_rows, pa.string()),
        "unit": found.column("unit"),
        "value": found.column("value"),
        "value_int": found.column("value_int"),
    }


def _span_columns(found: pa.Table) -> dict[str, pa.Array]:
    start = pc.fill_null(_plain(found.column("time_nanos")), 0)
    nanos = pc.multiply(found.column("duration_ms"), float(NANOS_PER_MS))
    lasted = pc.add(start, _plain(pc.round(nanos)).cast(pa.int64(), safe=False))
    return {
        "start_time_unix_nano": start,
        "end_time_unix_nano": pc.coalesce(_plain(found.column("end_nanos")), lasted),
        "parent_span_id": _ids(found.column("parent_span_id")),
        "operation_name": found.column("name"),
    }


_OWN = {Signal.LOGS: _log_columns, Signal.METRICS: _metric_columns, Signal.TRACES: _span_columns}


def _maps(column: pa.ChunkedArray, engine: duckdb.DuckDBPyConnection) -> tuple[pa.MapArray, pa.MapArray]:
    """Maps of JSON values as the tables' maps of text and of types."""
    maps = _plain(column)
    engine.register("given_values", pa.table({"value": maps.items.cast(pa.string())}))
    said = engine.execute(
        "SELECT json_type(value) AS kind, value::JSON->>'$' AS text FROM given_values"
    ).to_arrow_table()
    text, kinds = _plain(said.column("text")), _kinds(_plain(said.column("kind")), _plain(said.column("text")))
    offsets = maps.offsets
    if maps.null_count:
        offsets = pa.array(offsets.to_numpy(), mask=np.append(maps.is_null().to_numpy(zero_copy_only=False), False))
    keys = maps.keys.cast(pa.string())
    typed = kinds.is_valid()
    running = np.concatenate(([0], np.cumsum(typed.to_numpy(zero_copy_only=False)))).astype(np.int32)
    types = pa.MapArray.from_arrays(pa.array(running[maps.offsets.to_numpy()]), keys.filter(typed), kinds.filter(typed))
    return pa.MapArray.from_arrays(offsets, keys, text), types


def _kinds(json_types: pa.StringArray, text: pa.StringArray) -> pa.StringArray:
    """The tables' names for JSON's types; an integer too big for 64 bits is a double."""
    encoded = json_types.dictionary_encode()
    names = pa.array([KINDS.get(name, "double") for name in encoded.dictionary.to_pylist()], pa.string())
    kinds = names.take(encoded.indices)
    kinds = pc.if_else(pc.or_(json_types.is_null(), pc.equal(json_types, "NULL").fill_null(True)), "empty", kinds)
    too_big = pc.and_(pc.equal(kinds, "int"), pc.greater(pc.utf8_length(text), 18))
    if not pc.any(too_big, min_count=0).as_py():
        return kinds
    fits = [
        name != "int" or word is None or -(2**63) <= int(word) < 2**63
        for name, word in zip(kinds.to_pylist(), text.to_pylist(), strict=True)
    ]
    return pc.if_else(pa.array(fits), kinds, "double")


def _ids(column: pa.ChunkedArray) -> pa.BinaryArray:
    """Hex ids, with or without dashes, as bytes; what is not hex stays as it was written, for the checks to refuse."""
    text = pc.replace_substring(_plain(column), "-", "")
    is_hex = pc.fill_null(pc.match_substring_regex(text, "^([0-9a-fA-F]{2})*$"), True)
    decoded = from_hex(pc.if_else(is_hex, text, "").fill_null(""))
    return pc.if_else(is_hex, decoded, _plain(column).cast(pa.binary()))


def _severity_numbers(text: pa.StringArray) -> pa.Int32Array:
    encoded = text.dictionary_encode()
    numbers = [_severity_number(word) for word in encoded.dictionary.to_pylist()]
    return pa.array(numbers, pa.int32()).take(encoded.indices)


def _severity_number(word: str) -> int:
    """OpenTelemetry's number for a severity by name, or the number itself; 0 where it is neither.

    >>> _severity_number("WARN"), _severity_number("17"), _severity_number("?")
    (13, 17, 0)
    """
    text = word.strip().lower()
    if text.isdecimal() and 1 <= int(text) <= 24:
        return int(text)
    return SEVERITIES.get(text, 0)


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
