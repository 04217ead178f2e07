"""Events, links and exemplars of generic records, which exports have as lists side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from neve.ingest.files.record_columns import (
    Columns,
    build_batch,
    combine,
    decode_ids,
    list_offsets,
    to_columns,
    to_maps,
)
from neve.ingest.files.sql_values import SPAN_ID_BYTES, TRACE_ID_BYTES, normal_id, parse_time
from neve.model.signals import Signal
from neve.model.tables import EVENT, EXEMPLAR, LINK

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from neve.ingest.config import FieldsConfig
    from neve.ingest.files.foreign_schemas import FieldMap


def to_rows(
    names: FieldMap, found: pa.Table, engine: duckdb.DuckDBPyConnection, fields: FieldsConfig
) -> pa.RecordBatch:
    """Return the records as rows of the signal's table, with the records inside of them. Missing fields are null."""
    columns: dict[str, pa.Array | None] = {**to_columns(names, found, engine)}
    nested = NestedRecords(found, engine, fields)
    if names.signal is Signal.TRACES:
        columns |= {"events": nested.events(), "links": nested.links()}
    if names.signal is Signal.METRICS:
        columns["exemplars"] = nested.exemplars()
    return build_batch(names.signal, columns, found.num_rows)


class NestedRecords:
    """Events, links and exemplars of records: lists of their fields, side by side."""

    def __init__(self, found: pa.Table, engine: duckdb.DuckDBPyConnection, fields: FieldsConfig) -> None:
        self._found, self._engine, self._fields = found, engine, fields

    def events(self) -> pa.ListArray | None:
        """Return the events of spans."""
        return self._build("event_times", EVENT, {
            "time_unix_nano": self._times("event_times"),
            "name": self._texts("event_names"),
            **self._attributes("event_attributes"),
        })  # fmt: skip

    def links(self) -> pa.ListArray | None:
        """Return the links of spans."""
        return self._build("link_trace_ids", LINK, {
            "trace_id": self._ids("link_trace_ids", TRACE_ID_BYTES),
            "span_id": self._ids("link_span_ids", SPAN_ID_BYTES),
            "trace_state": self._texts("link_states"),
            **self._attributes("link_attributes"),
        })  # fmt: skip

    def exemplars(self) -> pa.ListArray | None:
        """Return the exemplars of points."""
        return self._build("exemplar_times", EXEMPLAR, {
            "time_unix_nano": self._times("exemplar_times"),
            "value": self._texts("exemplar_values"),
            "trace_id": self._ids("exemplar_trace_ids", TRACE_ID_BYTES),
            "span_id": self._ids("exemplar_span_ids", SPAN_ID_BYTES),
            **self._attributes("exemplar_attributes"),
        })  # fmt: skip

    def _build(self, first: str, kind: pa.StructType, columns: Mapping[str, pa.Array | None]) -> pa.ListArray | None:
        lists = combine(self._found.column(first))
        count = len(lists.flatten())
        if not count:
            return None
        arrays = []
        for field in kind:
            column = columns.get(field.name)
            arrays.append(pa.nulls(count, field.type) if column is None else combine(column).cast(field.type))
        return pa.ListArray.from_arrays(list_offsets(lists), pa.StructArray.from_arrays(arrays, fields=list(kind)))

    def _texts(self, name: str) -> pa.Array | None:
        column = self._found.column(name)
        return combine(column).flatten() if column.null_count < len(column) else None

    def _run(self, name: str, expression: str) -> pa.Array | None:
        texts = self._texts(name)
        if texts is None:
            return None
        self._engine.register("given_texts", pa.table({"text": texts}))
        query = f"SELECT {expression} AS value FROM given_texts"  # noqa: S608 - expressions are this package's
        return combine(self._engine.execute(query).to_arrow_table().column(0))

    def _times(self, name: str) -> pa.Array | None:
        return self._run(name, parse_time("text", self._fields))

    def _ids(self, name: str, width: int) -> pa.Array | None:
        ids = self._run(name, normal_id("text", width))
        return None if ids is None else decode_ids(ids)

    def _attributes(self, name: str) -> Columns:
        maps = self._run(name, "CASE WHEN json_valid(text) THEN text ELSE '{}' END::JSON::MAP(VARCHAR, JSON)")
        if maps is None:
            return {}
        values, types = to_maps(maps, self._engine)
        return {"attributes": values, "attribute_types": types}
