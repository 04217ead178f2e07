"""Spans of whole traces as columns, and the values of their attributes and intrinsics."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.traceql.evaluation.trace_tree import NO_PARENT, SpanTree
from neve.traceql.evaluation.vectors import Vector, first_present, from_numbers, from_ragged, from_texts
from neve.traceql.language.fields import Attribute, Type

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["SCOPES", "SpanBatch", "column_name"]

SCOPES = ("span", "resource", "event", "link", "instrumentation")  # the order in which `.name` looks for an attribute
_LISTS = frozenset({"event", "link"})
# Columns with texts by the name of their intrinsic.
_TEXTS = {
    "name": "operation_name",
    "statusMessage": "status_message",
    "instrumentation:name": "scope_name",
    "instrumentation:version": "scope_version",
}
_IDS = {"trace:id": "trace_id", "span:id": "span_id", "span:parentID": "parent_span_id"}


def column_name(scope: str, name: str) -> str:
    """Return the name of an attribute's column in a batch. That of its types has a `?` at its end."""
    return f"{scope}.{name}"


@dataclass
class SpanBatch:
    """Spans, sorted by trace and time. Columns are those of the lake, and `scope.name` for each attribute.

    Columns of events and links are lists: `event.name` of structs with `v` and `t`, `events` of structs with `time`
    and `name`, `links` of structs with `trace_id` and `span_id`.
    """

    table: pa.Table
    _vectors: dict[Attribute, Vector] = field(default_factory=dict)
    _columns: dict[str, pa.Array] = field(default_factory=dict)

    @classmethod
    def sort(cls, table: pa.Table) -> SpanBatch:
        """Return spans in order."""
        keys = [(name, "ascending") for name in ("trace_id", "start", "span_id") if name in table.column_names]
        return cls(table.sort_by(keys).combine_chunks())

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> pa.Array:
        """Return a column in one piece."""
        found = self._columns.get(name)
        if found is None:
            chunks, kind = self.table.column(name).chunks, self.table.schema.field(name).type
            found = chunks[0] if len(chunks) == 1 else pa.concat_arrays([pa.array([], kind), *chunks])
            self._columns[name] = found
        return found

    @cached_property
    def traces(self) -> NDArray[np.int64]:
        """Return the number of each span's trace, from 0."""
        indices = pc.fill_null(self.column("trace_id"), b"").dictionary_encode().indices
        found: NDArray[np.int64] = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """Return the row of each trace's first span."""
        return np.unique(self.traces, return_index=True)[1]

    @cached_property
    def start(self) -> NDArray[np.int64]:
        """Return starts in nanoseconds."""
        return self._integers("start")

    @cached_property
    def duration(self) -> NDArray[np.int64]:
        """Return durations in nanoseconds, 0 where a span has no end or ends before its start."""
        return np.maximum(np.where(self._integers("stop") > 0, self._integers("stop") - self.start, 0), 0)

    @cached_property
    def tree(self) -> SpanTree:
        """Return the trees of the traces."""
        return SpanTree.build(self.traces, self.column("span_id"), self.column("parent_span_id"))

    @cached_property
    def roots(self) -> NDArray[np.int64]:
        """Return the row of each trace's first root span, or -1."""
        rows = np.flatnonzero(self.tree.parents == NO_PARENT)[::-1]
        found = np.full(len(self.firsts), -1, dtype=np.int64)
        found[self.traces[rows]] = rows
        return found

    @cached_property
    def trace_bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first start and the last end of each trace."""
        if not len(self):
            return self.start, self.start
        return np.minimum.reduceat(self.start, self.firsts), np.maximum.reduceat(
            self.start + self.duration, self.firsts
        )

    def vector(self, attribute: Attribute) -> Vector:
        """Return the values of an attribute or intrinsic."""
        found = self._vectors.get(attribute)
        if found is None:
            found = self._vectors[attribute] = self._read(attribute)
        return found

    def _read(self, attribute: Attribute) -> Vector:
        if attribute.scope == "intrinsic":
            return self._read_intrinsic(attribute.name)
        scopes = (attribute.scope,) if attribute.scope else SCOPES
        return first_present([self._read_scope(scope, attribute.name) for scope in scopes])

    def _read_scope(self, scope: str, name: str) -> Vector:
        if scope == "resource" and name == "service.name":
            return from_texts(self.column("service_name"))
        column = column_name(scope, name)
        if scope in _LISTS:
            return self._spread(column, lambda items: from_texts(items.field("v"), items.field("t")))
        return from_texts(self.column(column), self.column(f"{column}?"))

    def _read_intrinsic(self, name: str) -> Vector:
        if name in _TEXTS:
            return from_texts(pc.fill_null(self.column(_TEXTS[name]), ""))
        if name in _IDS:
            return from_texts(_to_hex(self.column(_IDS[name])))
        found: Callable[[], Vector] = {
            "duration": lambda: from_numbers(Type.DURATION, self.duration),
            "status": lambda: from_numbers(Type.STATUS, self._integers("status_code")),
            "kind": lambda: from_numbers(Type.KIND, self._integers("span_kind")),
            "span:childCount": lambda: from_numbers(Type.INT, self.tree.child_counts),
            "nestedSetLeft": lambda: from_numbers(Type.INT, self.tree.nested_sets[0]),
            "nestedSetRight": lambda: from_numbers(Type.INT, self.tree.nested_sets[1]),
            "nestedSetParent": lambda: from_numbers(Type.INT, self.tree.set_parents),
            "traceDuration": self._read_trace_durations,
            "rootName": lambda: self._read_root("operation_name"),
            "rootServiceName": lambda: self._read_root("service_name"),
            "event:name": lambda: self._spread("events", lambda items: from_texts(items.field("name"))),
            "event:timeSinceStart": self._spread_times,
            "link:traceID": lambda: self._spread("links", lambda items: from_texts(_to_hex(items.field("trace_id")))),
            "link:spanID": lambda: self._spread("links", lambda items: from_texts(_to_hex(items.field("span_id")))),
        }[name]
        return found()

    def _integers(self, name: str) -> NDArray[np.int64]:
        found: NDArray[np.int64] = pc.fill_null(self.column(name), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def _read_trace_durations(self) -> Vector:
        first, last = self.trace_bounds
        return from_numbers(Type.DURATION, (last - first)[self.traces])

    def _read_root(self, column: str) -> Vector:
        """Return a text of the root span of each span's trace. A trace without a root has none."""
        rows = self.roots[self.traces]
        return from_texts(pc.fill_null(self.column(column), "").take(pa.array(rows, mask=rows < 0)))

    def _spread(self, column: str, read: Callable[[pa.StructArray], Vector]) -> Vector:
        rows, items = self._flatten(column)
        return from_ragged(rows, read(items), len(self))

    def _spread_times(self) -> Vector:
        rows, items = self._flatten("events")
        times = pc.fill_null(items.field("time"), 0).to_numpy(zero_copy_only=False) - self.start[rows]
        return from_ragged(rows, from_numbers(Type.DURATION, times), len(self))

    def _flatten(self, column: str) -> tuple[NDArray[np.int64], pa.StructArray]:
        lists = self.column(column)
        rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
        return rows, pc.list_flatten(lists)


def _to_hex(ids: pa.Array) -> pa.StringArray:
    """Return ids as hexadecimal digits, null as an empty text."""
    return pa.array([(one or b"").hex() for one in ids.to_pylist()], pa.string())
