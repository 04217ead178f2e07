"""`compare()`: how often each value of each attribute occurs in a selection of spans, and in the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import LimitExceeded
from neve.traceql.evaluation.field_evaluator import evaluate
from neve.traceql.evaluation.vectors import combine_codes, from_texts
from neve.traceql.language.fields import Attribute, Static, Type
from neve.traceql.metrics.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from neve.traceql.evaluation.span_batch import SpanBatch
    from neve.traceql.evaluation.vectors import Vector
    from neve.traceql.language.syntax import Compare
    from neve.traceql.metrics.intervals import Intervals

__all__ = ["INTRINSICS", "MAP_COLUMNS", "Comparison"]

# Intrinsics that are compared, beside all attributes of spans and resources.
INTRINSICS = tuple(
    Attribute("intrinsic", name) for name in ("name", "status", "statusMessage", "kind", "rootName", "rootServiceName")
)
MAP_COLUMNS = ("attributes", "attribute_types", "resource_attrs", "resource_attr_types")
_MAPS = {"span": MAP_COLUMNS[:2], "resource": MAP_COLUMNS[2:]}
MAX_CELLS = 5_000_000  # values of attributes, times intervals
_TYPE, _ERROR = "__meta_type", "__meta_error"
_NIL = Static(Type.NIL, None)


@dataclass
class Comparison:
    """Counts of values, batch after batch."""

    node: Compare
    intervals: Intervals
    _counts: dict[tuple[bool, str, Static], NDArray[np.float64]] = field(default_factory=dict)

    def add(self, spans: SpanBatch, rows: NDArray[np.int64]) -> None:
        """Count the values of chosen spans of a batch."""
        places = self.intervals.find(spans.start[rows])
        rows, places = rows[places >= 0], places[places >= 0]
        selected = evaluate(self.node.selection.condition, spans).is_true[rows]
        if self.node.start:
            selected &= (spans.start[rows] > self.node.start) & (spans.start[rows] <= self.node.end)
        for attribute in INTRINSICS:
            self._count(str(attribute), spans.vector(attribute).take(rows), places, selected)
        for scope, columns in _MAPS.items():
            for name, owners, vector in _split_maps(spans, rows, *columns):
                self._count(f"{scope}.{name}", vector, places[owners], selected[owners])

    def _count(self, name: str, values: Vector, places: NDArray[np.int64], selected: NDArray[np.bool_]) -> None:
        """Count the values of one attribute in each interval."""
        present = np.flatnonzero(values.types != Type.NIL)
        if not len(present):
            return
        codes = combine_codes([values.codes()[present], selected[present].astype(np.int64)])
        _, first, of = np.unique(codes, return_index=True, return_inverse=True)
        cells = of * self.intervals.count + places[present]
        counts = np.bincount(cells, minlength=len(first) * self.intervals.count).reshape(len(first), -1)
        for row, count in zip(present[first].tolist(), counts, strict=True):
            key = (bool(selected[row]), name, values.get(row))
            if key in self._counts:
                self._counts[key] += count
                continue
            if (len(self._counts) + 1) * self.intervals.count > MAX_CELLS:
                raise LimitExceeded(
                    "compare() found too many values of attributes", limit="series", hint="choose a longer step"
                )
            self._counts[key] = count.astype(np.float64)

    def result(self) -> list[Series]:
        """Return a series for each of the most frequent values, and for the total of each attribute."""
        found: list[Series] = []
        for is_selection, kind in ((False, "baseline"), (True, "selection")):
            names = {name for side, name, _ in self._counts if side == is_selection}
            for name in sorted(names):
                found += self._list_values(is_selection, kind, name)
        return found

    def _list_values(self, is_selection: bool, kind: str, name: str) -> Iterator[Series]:
        values = [
            (value, counts)
            for (side, one, value), counts in self._counts.items()
            if (side, one) == (is_selection, name)
        ]
        values.sort(key=lambda one: (-one[1].sum(), str(one[0])))
        for value, counts in values[: self.node.top]:
            yield Series(((_TYPE, _text(kind)), (name, value)), counts)
        if len(values) > self.node.top:
            zeros = np.zeros(self.intervals.count)
            yield Series(((_ERROR, _text("__too_many_values__")), (name, _NIL)), zeros)
        yield Series(((_TYPE, _text(f"{kind}_total")), (name, _NIL)), np.sum([one for _, one in values], axis=0))


def _text(value: str) -> Static:
    return Static(Type.STRING, value)


def _split_maps(
    spans: SpanBatch, rows: NDArray[np.int64], values: str, types: str
) -> Iterator[tuple[str, NDArray[np.int64], Vector]]:
    """Yield each name of a column of maps, with the places in `rows` that have it, and its values there."""
    owners, keys, texts = _flatten_map(spans.column(values), rows)
    type_owners, type_keys, kinds = _flatten_map(spans.column(types), rows)
    typed = {
        (owner, key): kind
        for owner, key, kind in zip(type_owners.tolist(), type_keys.to_pylist(), kinds.to_pylist(), strict=True)
    }
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        chosen = np.flatnonzero(codes == code)
        given = [typed.get((int(owner), name)) for owner in owners[chosen]] if typed else [None] * len(chosen)
        yield name, owners[chosen], from_texts(texts.take(pa.array(chosen)), pa.array(given, pa.string()))


def _flatten_map(column: pa.Array, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
    chosen = column.take(pa.array(rows)).cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    items = pc.list_flatten(chosen)
    owners = pc.list_parent_indices(chosen).to_numpy(zero_copy_only=False).astype(np.int64)
    return owners, items.field("key"), items.field("value")
