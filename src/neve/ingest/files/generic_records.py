"""Convert generic records (JSON lines, CSV, Parquet) to OTLP messages, so that they are decoded like any other."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import FileTooLarge, InputError, UnknownFields, UnknownSignal
from neve.ingest.files.document_shapes import Shape, build_expansion, build_fields, detect_shape
from neve.ingest.files.field_mapping import IDS, NUMBERS, build_mapping_query, build_repeated_keys_query
from neve.ingest.files.flat_records import FlatRecords, is_flat, map_flat_fields
from neve.ingest.files.foreign_schemas import (
    LISTS,
    MEANINGS,
    NEEDED,
    FieldMap,
    ForeignSchema,
    detect_schema,
    map_fields,
)
from neve.ingest.files.formats import Format
from neve.ingest.files.json_documents import (
    ERRORS,
    MAX_UNPACKED_BYTES,
    JsonDocuments,
    TableRows,
    read_csv_rows,
    read_documents,
    reject_deep_documents,
)
from neve.ingest.files.nested_records import to_rows
from neve.ingest.files.record_columns import ENUMS, enum_numbers
from neve.model.signals import Signal
from neve.otlp import Rejected, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.ingest.config import FieldsConfig

MAX_NAMES = 40  # in an error
PARALLEL_LISTS = (LISTS[:3], LISTS[3:7], ("quantiles", "quantile_values"), LISTS[13:])


@dataclass(frozen=True)
class GenericMessages:
    """One message of the readable records, the rejected records, and how the fields were understood."""

    signal: Signal
    messages: pa.BinaryArray
    rejected: tuple[Rejected, ...]
    names: FieldMap | None = None


Location = tuple[int, bytes]  # position in the file, and the document


@dataclass(frozen=True)
class FoundRecords:
    """Columns of the fields of records, the records that could not be read, and the location of the record of a row."""

    names: FieldMap
    columns: pa.Table
    rejected: tuple[Rejected, ...]
    locate: Callable[[int], Location]


@dataclass(frozen=True)
class GenericReader:
    """Reads generic files. `signal` is what the user stated, `guess` what the name of the file suggests."""

    signal: Signal | None
    fields: FieldsConfig
    most: int = MAX_UNPACKED_BYTES
    guess: Signal | None = None
    schema: ForeignSchema | None = None  # that the user stated

    def read(self, form: Format, data: bytes) -> GenericMessages:
        """Return the records of a file as OTLP. Raises `InputError` if the file as a whole can't be read."""
        try:
            return self._read(form, data, connect())
        except duckdb.OutOfMemoryException as error:
            raise FileTooLarge(
                "its records need more memory than this worker has", hint="split the file, or give workers more memory"
            ) from error

    def _read(self, form: Format, data: bytes, engine: duckdb.DuckDBPyConnection) -> GenericMessages:
        source = self._open(form, data, engine)
        found = self._find_flat(form, source, engine)
        if found is None:
            documents = source.to_documents(engine) if isinstance(source, TableRows) else source
            documents = reject_deep_documents(documents)
            if len(documents.texts) == 0:
                return GenericMessages(self._signal(form, None), pa.array([], pa.binary()), documents.rejected)
            found = self._find_nested(form, documents, engine)
        refused = _Checks(found.names, self.fields, found.columns).run()
        keep = np.setdiff1d(np.arange(found.columns.num_rows), np.array([row for row, *_ in refused], dtype=np.int64))
        rejected = [Rejected(reason, detail, *found.locate(row), Format.JSON_LINES) for row, reason, detail in refused]
        columns = found.columns.take(pa.array(keep)) if refused else found.columns
        message = encode(found.names.signal, to_rows(found.names, columns, engine, self.fields))
        messages = pa.array([message] if message else [], pa.binary())
        return GenericMessages(found.names.signal, messages, (*found.rejected, *rejected), found.names)

    def _find_flat(
        self, form: Format, source: JsonDocuments | TableRows, engine: duckdb.DuckDBPyConnection
    ) -> FoundRecords | None:
        """Return the fields of records that are flat."""
        records = _read_flat(source, engine)
        if records is None:
            return None
        names = self._match_names(form, sorted(records.names))
        if not is_flat(names):
            return None
        columns = map_flat_fields(records, names, self.fields, engine)

        def locate(row: int) -> Location:
            place = columns.column("row")[row].as_py()
            text = source.get_document(place, engine)
            return source.positions[place].as_py(), text.encode()

        return FoundRecords(names, columns, source.rejected, locate)

    def _find_nested(self, form: Format, documents: JsonDocuments, engine: duckdb.DuckDBPyConnection) -> FoundRecords:
        """Return the fields of documents of any shape."""
        documents = _expand_answers(documents, engine)
        shape, present = _find_fields(engine)
        names = self._match_names(form, present)
        documents, columns = self._map_fields(names, shape, documents, engine, keep_nulls=form is Format.JSON_LINES)
        positions, texts = columns.column("position"), columns.column("document")
        return FoundRecords(
            names, columns, documents.rejected, lambda row: (positions[row].as_py(), texts[row].as_py().encode())
        )

    def _match_names(self, form: Format, present: list[str]) -> FieldMap:
        """Return the fields that have a meaning. Raises `UnknownFields` if those that the signal needs are missing."""
        schema = self.schema or detect_schema(present, self.signal, self.guess)
        names = map_fields(self._signal(form, schema), self.fields, present, schema)
        if names.missing:
            raise _unknown_fields(names, present)
        return names

    def _map_fields(
        self,
        names: FieldMap,
        shape: str,
        documents: JsonDocuments,
        engine: duckdb.DuckDBPyConnection,
        *,
        keep_nulls: bool,
    ) -> tuple[JsonDocuments, pa.Table]:
        """Return the fields of documents, and the documents without those whose attributes have a key twice."""
        query = build_mapping_query(names, self.fields, shape, keep_nulls=keep_nulls)
        try:
            return documents, engine.execute(query).to_arrow_table().combine_chunks()
        except duckdb.InvalidInputException:
            repeated = engine.execute(build_repeated_keys_query(names, shape, keep_nulls=keep_nulls)).fetchall()
            if not repeated:
                raise
            documents = documents.reject(
                {
                    position: "the attributes or the resource of the record have a duplicate key"
                    for (position,) in repeated
                }
            )
            _register(documents, engine)
            return documents, engine.execute(query).to_arrow_table().combine_chunks()

    def _open(self, form: Format, data: bytes, engine: duckdb.DuckDBPyConnection) -> JsonDocuments | TableRows:
        try:
            if form is Format.CSV:
                return read_csv_rows(data, self.most)
            return read_documents(form, data, engine, self.most)
        except FileTooLarge:
            raise
        except InputError:
            self._signal(form, None)  # without a signal there is no telling what the file should be
            raise

    def _signal(self, form: Format, schema: ForeignSchema | None) -> Signal:
        signal = self.signal or (schema.signal if schema else self.guess)
        if signal is None:
            raise UnknownSignal(
                f"can't detect whether this {form} file has logs, metrics or traces",
                hint="pass --signal, or use the word in the name of the file or its folder",
            )
        return signal


def _unknown_fields(names: FieldMap, present: list[str]) -> UnknownFields:
    needed = " nor ".join(("a " if i else "neither a ") + name for i, name in enumerate(NEEDED[names.signal]))
    shown = ", ".join(present[:MAX_NAMES]) + (
        f" and {len(present) - MAX_NAMES} more" if len(present) > MAX_NAMES else ""
    )
    return UnknownFields(
        f"found {needed} for {names.signal} among its fields {shown}",
        hint="map them in the section ingest.fields of the configuration, and check with --dry-run",
    )


def _read_flat(source: JsonDocuments | TableRows, engine: duckdb.DuckDBPyConnection) -> FlatRecords | None:
    if isinstance(source, TableRows):
        return FlatRecords.of_table(source.table)
    records = FlatRecords.of_documents(source.texts, source.key_lists, engine) if source.key_lists else None
    is_deep = records is not None and records.has_nested and reject_deep_documents(source) is not source
    return None if is_deep else records


def _expand_answers(documents: JsonDocuments, engine: duckdb.DuckDBPyConnection) -> JsonDocuments:
    """Register the documents. Answers of servers are replaced by the records in them."""
    _register(documents, engine)
    query = build_expansion(_top_names(engine))
    if query is None:
        return documents
    try:
        expanded = engine.execute(query).to_arrow_table().combine_chunks()
    except ERRORS:
        return documents
    if not expanded.num_rows:
        return documents
    texts, positions = expanded.column("document"), expanded.column("position")
    documents = JsonDocuments(texts.combine_chunks(), positions.combine_chunks(), documents.rejected)
    _register(documents, engine)
    return documents


def _register(documents: JsonDocuments, engine: duckdb.DuckDBPyConnection) -> None:
    engine.register("given_documents", pa.table({"position": documents.positions, "document": documents.texts}))


def _find_fields(engine: duckdb.DuckDBPyConnection) -> tuple[str, list[str]]:
    """Return the expression for the fields of documents, and the names that occur."""
    names = _top_names(engine)
    shape = build_fields(detect_shape(names))
    plain = build_fields(Shape.PLAIN)
    if shape == plain:
        return plain, names
    try:
        return shape, _list_names(engine, f"map_keys({shape})")
    except ERRORS:  # a dotted name and an object give the same name
        return plain, names


def _top_names(engine: duckdb.DuckDBPyConnection) -> list[str]:
    return _list_names(engine, "json_keys(document)")


def _list_names(engine: duckdb.DuckDBPyConnection, keys: str) -> list[str]:
    found = engine.execute(f"SELECT DISTINCT unnest({keys}) FROM given_documents").fetchall()  # noqa: S608 - constant
    return sorted(name for (name,) in found)


@cache
def connect() -> duckdb.DuckDBPyConnection:
    """Return this process's connection for reading files."""
    engine = duckdb.connect(config={"threads": 1})
    engine.execute("SET TimeZone = 'UTC'")
    return engine


Refusal = tuple[int, str, str]  # row, reason, detail


@dataclass
class _Checks:
    """Finds the records that have a value that can't be understood, or lack what the signal needs."""

    names: FieldMap
    fields: FieldsConfig
    found: pa.Table
    refused: dict[int, Refusal] = field(default_factory=dict)

    def run(self) -> list[Refusal]:
        """Return the first reason of each record that is refused."""
        meanings = MEANINGS[self.names.signal]
        for name in ("time", "end", "observed", "start"):
            if name in meanings:
                self._check_time(name)
        for name in NUMBERS:
            if name in meanings:
                self._check(name, "bad_value", "expected a number")
        if self.names.signal is Signal.TRACES:
            for name, width in IDS.items():
                expected = (
                    f"expected {width * 2} hex digits, {'a UUID ' if width == 16 else ''}or base64 of {width} bytes"
                )
                self._check(name, f"invalid_{name}", expected)
        for name in ENUMS:
            if name in meanings:
                self._check_enum(name)
        self._check_lists([name for name in LISTS if name in meanings])
        self._check_needed()
        return list(self.refused.values())

    def _check_lists(self, names: list[str]) -> None:
        for name in names:
            self._check(name, "bad_value", "expected a list of numbers")
        for lists in PARALLEL_LISTS:
            self._check_lengths([name for name in lists if name in names])

    def _check_time(self, name: str) -> None:
        fields = self.fields
        epochs = (
            "an epoch"
            if fields.time_format != "auto"
            else f"an epoch of the years {fields.earliest_year} to {fields.latest_year}"
        )
        nanos = self.found.column(f"{name}_nanos")
        wrong = pc.or_kleene(pc.is_null(nanos), pc.less(nanos, 0))
        self._refuse(name, wrong, "bad_time", f"expected RFC 3339 or {epochs}")

    def _check(self, name: str, reason: str, expected: str) -> None:
        self._refuse(name, pc.is_null(self.found.column(name)), reason, expected)

    def _refuse(self, name: str, wrong: pa.ChunkedArray, reason: str, expected: str) -> None:
        texts = self.found.column(f"{name}_text")
        for row in _rows(pc.and_kleene(pc.is_valid(texts), wrong)):
            self._add(row, reason, f"{name} is {_quote(texts[row].as_py())}, {expected}")

    def _check_enum(self, name: str) -> None:
        column = self.found.column(name)
        if column.null_count == len(column):
            return
        numbers = enum_numbers(name, column.combine_chunks())
        expected = ", ".join(word for word in ENUMS[name][1] if word)
        for row in _rows(pc.and_(column.combine_chunks().is_valid(), pc.is_null(numbers))):
            self._add(row, "bad_value", f"{name} is {_quote(column[row].as_py())}, expected one of {expected}")

    def _check_lengths(self, names: list[str]) -> None:
        """Refuse records whose lists, of which each has one field of the same events, differ in length."""
        if not names:
            return
        lengths = {name: pc.list_value_length(self.found.column(name).combine_chunks()) for name in names}
        first = lengths[names[0]]
        for name, length in lengths.items():
            differs = pc.fill_null(pc.not_equal(pc.fill_null(first, 0), length), False)
            for row in _rows(differs):
                self._add(row, "bad_value", f"{name} has {length[row]} elements, and {names[0]} has {first[row]}")

    def _check_needed(self) -> None:
        if self.names.signal is Signal.METRICS:
            has_points = pc.or_(pc.is_valid(self.found.column("value")), pc.is_valid(self.found.column("count")))
            for row in _rows(pc.invert(has_points)):
                self._add(row, "missing_value", "the record has no field for the value")
        if self.names.signal is Signal.LOGS:
            lacks = pc.and_(pc.is_null(self.found.column("time_text")), pc.is_null(self.found.column("message")))
            for row in _rows(lacks):
                self._add(row, "missing_fields", "the record has neither a time nor a message")

    def _add(self, row: int, reason: str, detail: str) -> None:
        self.refused.setdefault(row, (row, reason, detail))


def _rows(mask: pa.ChunkedArray | pa.BooleanArray) -> list[int]:
    rows: list[int] = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False)).tolist()
    return rows


def _quote(value: str, most: int = 64) -> str:
    return repr(value if len(value) <= most else value[:most] + "…")
