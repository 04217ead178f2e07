"""Records whose fields lie side by side: whole columns, without a map for each record.

Most JSON lines and nearly all CSV files are like this: a few sets of keys, and no nested field that has a meaning for
the signal. All fields are extracted at once. Other files are mapped record by record in `field_mapping`, with the same
result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.ingest.files.document_shapes import Shape, build_expansion, detect_shape
from neve.ingest.files.field_mapping import build_flat_query, list_texts
from neve.ingest.files.foreign_schemas import LISTS, MEANINGS, OBJECTS
from neve.ingest.files.record_columns import combine, to_kinds
from neve.lake.duckdb import quote_literal
from neve.otlp.columns import constant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb
    import numpy.typing as npt

    from neve.ingest.config import FieldsConfig
    from neve.ingest.files.foreign_schemas import FieldMap

MAX_FIELDS = 64
MIN_DENSITY = 4  # a quarter of the fields must be there: all of them take memory
PLAIN_NAME = re.compile(r"[\w.@:/ -]+", re.ASCII)  # that needs no escape in a path
TEXT, NULL = "VARCHAR", "NULL"  # names of JSON types in DuckDB


@dataclass(frozen=True)
class FlatRecords:
    """The fields of all records, record by record: their texts, and their JSON types, null where a field is absent."""

    names: tuple[str, ...]
    texts: pa.StringArray
    types: pa.StringArray
    keep_nulls: bool = True

    @property
    def has_nested(self) -> bool:
        """Return whether a field is an object or a list."""
        return not {"OBJECT", "ARRAY"}.isdisjoint(self.types.unique().to_pylist())

    @property
    def count(self) -> int:
        """Return the number of records."""
        return len(self.texts) // len(self.names)

    @classmethod
    def of_documents(
        cls, texts: pa.StringArray, key_lists: Sequence[Sequence[str]], engine: duckdb.DuckDBPyConnection
    ) -> FlatRecords | None:
        """Extract the fields of JSON objects with these lists of keys, or return nothing if they are not flat."""
        names = merge_orders(key_lists)
        if names is None or not _are_plain(names):
            return None
        if sum(map(len, key_lists)) * MIN_DENSITY < len(names) * len(key_lists):
            return None
        paths = "[" + ", ".join(quote_literal(f'$."{name}"') for name in names) + "]"
        engine.register("given_texts", pa.table({"document": texts}))
        query = f"SELECT json_extract_string(document, {paths}), json_type(document, {paths}) FROM given_texts"  # noqa: S608 - names are literals
        found = engine.execute(query).to_arrow_table()
        return cls(names, combine(found.column(0)).flatten(), combine(found.column(1)).flatten())

    @classmethod
    def of_table(cls, table: pa.Table) -> FlatRecords | None:
        """Return the fields of rows of texts. A null is no field."""
        names = tuple(table.column_names)
        if not names or not table.num_rows or not _are_plain(names):
            return None
        width, count = len(names), table.num_rows
        order = (np.arange(count)[:, None] + np.arange(width)[None, :] * count).ravel()
        texts = pa.concat_arrays([combine(column) for column in table.columns]).take(pa.array(order))
        types = pc.if_else(texts.is_valid(), TEXT, pa.scalar(None, pa.string()))
        return cls(names, texts, types, keep_nulls=False)

    def column(self, name: str) -> pa.StringArray:
        """Return the texts of one field."""
        return self.texts.take(pa.array(np.arange(self.names.index(name), len(self.texts), len(self.names))))


def merge_orders(key_lists: Iterable[Sequence[str]]) -> tuple[str, ...] | None:
    """Return all keys in an order that keeps that of each list, or nothing if there is none.

    >>> merge_orders([["a", "c"], ["a", "b", "c"]]), merge_orders([["a", "b"], ["b", "a"]])
    (('a', 'b', 'c'), None)
    """
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for keys in key_lists:
        for key in keys:
            sorter.add(key)
        for before, after in pairwise(keys):
            sorter.add(after, before)
    try:
        return tuple(sorter.static_order())
    except CycleError:
        return None


def _are_plain(names: Sequence[str]) -> bool:
    """Return whether records with these names are plain objects, with names that can be paths."""
    if not 0 < len(names) <= MAX_FIELDS or not all(map(PLAIN_NAME.fullmatch, names)):
        return False
    return detect_shape(names) is Shape.PLAIN and build_expansion(names) is None


def is_flat(names: FieldMap) -> bool:
    """Return whether no field is an object or a list with a meaning."""
    return not any(names.names.get(meaning) for meaning in (*OBJECTS, *LISTS))


def map_flat_fields(
    records: FlatRecords, names: FieldMap, fields: FieldsConfig, engine: duckdb.DuckDBPyConnection
) -> pa.Table:
    """Return the columns that the query of `field_mapping` returns, and the types of attributes.

    The column `row` has the number of the record instead of its position and its document.
    """
    columns, chosen = _choose_texts(records, names)
    engine.register("given_flat", pa.table({"row": np.arange(records.count), **columns}))
    found = engine.execute(build_flat_query(names, fields)).to_arrow_table().combine_chunks()
    row = found.column("row").to_numpy()
    used = np.zeros((records.count, len(records.names)), dtype=np.bool_)
    for meaning, place in chosen.items():
        has_meaning = np.empty(records.count, dtype=np.bool_)
        has_meaning[row] = pc.fill_null(found.column(f"is_{meaning}"), False).to_numpy()
        rows = np.flatnonzero(has_meaning & (place >= 0))
        used[rows, place[rows]] = True
    for name in names.names["repeated"]:
        used[:, records.names.index(name)] = True
    attributes, types = _map_others(records, used)
    order = pa.array(row)
    found = found.append_column("attributes", attributes.take(order))
    return _add_resource(found.append_column("attribute_types", types.take(order)))


def _choose_texts(
    records: FlatRecords, names: FieldMap
) -> tuple[dict[str, pa.StringArray], dict[str, npt.NDArray[np.int64]]]:
    """Return the text of each meaning, and the number of the field that has it, -1 for none."""
    columns, chosen = {}, {}
    for meaning in filter(names.names.get, list_texts(MEANINGS[names.signal])):
        text: pa.StringArray = pa.nulls(records.count, pa.string())
        place = np.full(records.count, -1, dtype=np.int64)
        for name in names.names[meaning]:
            given = records.column(name)
            first = given.is_valid().to_numpy(zero_copy_only=False) & (place < 0)
            place[first] = records.names.index(name)
            text = given if text.null_count == len(text) else pc.coalesce(text, given)
        columns[meaning], chosen[meaning] = text, place
    return columns, chosen


def _map_others(records: FlatRecords, used: npt.NDArray[np.bool_]) -> tuple[pa.MapArray, pa.MapArray]:
    """Return the maps of fields without a meaning, and of their types."""
    present = records.types.is_valid()
    if not records.keep_nulls:
        present = pc.and_(present, pc.fill_null(pc.not_equal(records.types, NULL), False))
    mask = present.to_numpy(zero_copy_only=False) & ~used.ravel()
    keep = pa.array(mask)
    texts = records.texts.filter(keep)
    keys = pa.array(records.names).take(pa.array(np.flatnonzero(mask) % len(records.names)))
    kinds = to_kinds(records.types.filter(keep), texts)
    typed = kinds.is_valid()
    ends = np.cumsum(mask.reshape(used.shape).sum(axis=1))
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    running = np.concatenate(([0], np.cumsum(typed.to_numpy(zero_copy_only=False)))).astype(np.int32)
    types = pa.MapArray.from_arrays(pa.array(running[offsets]), keys.filter(typed), kinds.filter(typed))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, texts), types


def _add_resource(found: pa.Table) -> pa.Table:
    """Add the maps of resource attributes: the service alone, or null."""
    service = combine(found.column("service"))
    is_known = service.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(is_known))).astype(np.int32)
    known = service.drop_null()
    keys = constant("service.name", pa.string(), len(known))
    absent = pa.array(offsets, mask=np.append(~is_known, False))
    resource = pa.MapArray.from_arrays(absent, keys, known)
    none = pa.array([], pa.string())
    types = pa.MapArray.from_arrays(pa.array(np.zeros(len(service) + 1, dtype=np.int32)), none, none)
    found = found.append_column("resource", resource).append_column("resource_types", types)
    return found.append_column("scope_attributes", pa.nulls(len(service), pa.map_(pa.string(), pa.string())))
