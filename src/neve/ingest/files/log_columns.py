"""Parts of log records as columns: syslog's priorities, joined lines of containers, and rows of the table `logs`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.ingest.files.formats import Format
from neve.ingest.files.record_columns import build_batch, severity_numbers
from neve.model.signals import Signal
from neve.otlp import Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.ingest.files.log_formats import LogFormat

SEVERITY_NAMES = pa.array(["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"])
MAX_PRIORITY = 191

Int64s = npt.NDArray[np.int64]


def to_mask(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Return booleans for numpy."""
    mask: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return mask


@dataclass(frozen=True)
class LogColumns:
    """Parts of records by name, with the number of the first line of each and its text."""

    log: LogFormat
    parts: Mapping[str, pa.StringArray]
    texts: pa.StringArray
    lines: Int64s

    @classmethod
    def of(cls, log: LogFormat, parts: pa.StructArray, texts: pa.StringArray, lines: Int64s) -> LogColumns:
        """Return the parts of records. Long lines that were split are joined."""
        columns = {field.name: _empty_to_null(parts.field(field.name)) for field in parts.type}
        if "message" in columns:
            columns["message"] = parts.field("message")
        found = cls(log, {**columns, **_priority_columns(columns)}, texts, lines)
        return _join_partial_lines(found) if log.name is Format.CRI else found

    def get(self, name: str) -> pa.StringArray:
        """Return a part, null in all records if the format has none of this name."""
        return self.parts[name] if name in self.parts else pa.nulls(len(self.lines), pa.string())

    def filter(self, mask: pa.BooleanArray) -> LogColumns:
        """Return the records whose mask is set."""
        parts = {name: column.filter(mask) for name, column in self.parts.items()}
        return LogColumns(self.log, parts, self.texts.filter(mask), self.lines[to_mask(mask)])

    def slice(self, start: int, count: int) -> LogColumns:
        """Return some records from a place on."""
        parts = {name: column.slice(start, count) for name, column in self.parts.items()}
        return LogColumns(self.log, parts, self.texts.slice(start, count), self.lines[start : start + count])

    def take(self, rows: pa.Array) -> LogColumns:
        """Return the records of these rows."""
        parts = {name: column.take(rows) for name, column in self.parts.items()}
        return LogColumns(self.log, parts, self.texts.take(rows), self.lines[rows.to_numpy()])

    def reject(self, mask: pa.BooleanArray) -> list[Rejected]:
        """Return rejections of records whose time is none."""
        bad = self.filter(mask)
        times, lines, texts = bad.get("time").to_pylist(), bad.lines.tolist(), bad.texts.to_pylist()
        expected = f"expected a time of the format {self.log.name}"
        return [
            Rejected("bad_time", f"time is {time!r}, {expected}", line, text.encode(), self.log.name)
            for time, line, text in zip(times, lines, texts, strict=True)
        ]


def _empty_to_null(column: pa.StringArray) -> pa.StringArray:
    absent = pc.is_in(column, pa.array(["", "-"]))
    return pc.if_else(absent, pa.scalar(None, pa.string()), column)


def _priority_columns(columns: Mapping[str, pa.StringArray]) -> dict[str, pa.StringArray]:
    """Return the severity and facility of syslog's priorities."""
    if "priority" not in columns:
        return {}
    number = columns["priority"].cast(pa.int32())
    number = pc.if_else(pc.less_equal(number, MAX_PRIORITY), number, pa.scalar(None, pa.int32()))
    facility = pc.divide(number, 8)
    severity = SEVERITY_NAMES.take(pc.subtract(number, pc.multiply(facility, 8)))
    return {"severity": severity, "facility": facility.cast(pa.string())}


def _join_partial_lines(columns: LogColumns) -> LogColumns:
    """Join the parts of long lines, which container runtimes mark, for each stream apart."""
    is_partial = to_mask(pc.equal(columns.get("tag"), "P"))
    if not is_partial.any():
        return columns
    is_error = to_mask(pc.equal(columns.get("stream"), "stderr"))
    order = np.argsort(is_error, kind="stable")
    before = np.concatenate(([False], is_partial[order][:-1]))
    same = np.concatenate(([False], np.diff(is_error[order].astype(np.int8)) == 0))
    first = np.flatnonzero(~(before & same))
    ordered = pc.fill_null(columns.get("message").take(pa.array(order)), "")
    offsets = pa.array(np.append(first, len(order)).astype(np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, ordered), "")
    places = order[first]
    back = np.argsort(places, kind="stable")
    first_parts = columns.take(pa.array(places[back]))
    return replace(first_parts, parts={**first_parts.parts, "message": joined.take(pa.array(back))})


def to_rows(columns: LogColumns, nanos: pa.Int64Array) -> pa.RecordBatch:
    """Return the records as rows of the table `logs`, those of one resource together."""
    log = columns.log
    names = dict.fromkeys(log.resource)
    rows = len(columns.lines)
    if names:
        keys = pa.table({name: columns.get(name) for name in names})
        order = pc.sort_indices(keys, [(name, "ascending") for name in names])
        columns, nanos = columns.take(order), nanos.take(order)
    severity = columns.get("severity")
    attributes, types = _build_maps(columns, log.attributes, log.integers)
    resource, _none = _build_maps(columns, log.resource, frozenset())
    return build_batch(
        Signal.LOGS,
        {
            "time_unix_nano": nanos,
            "severity_text": severity,
            "severity_number": severity_numbers(severity),
            "message": columns.parts.get("message", columns.texts),
            "attributes": attributes,
            "attribute_types": types,
            "resource_attrs": resource if log.resource else None,
        },
        rows,
    )


def _build_maps(
    columns: LogColumns, names: Mapping[str, str], integers: frozenset[str]
) -> tuple[pa.MapArray, pa.MapArray]:
    """Return maps of the parts that each record has, and maps of the types of those that are numbers."""
    merged: dict[str, pa.StringArray] = {}
    for part, key in names.items():
        column = columns.get(part)
        merged[key] = pc.coalesce(merged[key], column) if key in merged else column
    numbers = {names[part] for part in integers}
    values = _interleave(list(merged.values()), len(columns.lines))
    keys = pa.array(list(merged)).take(pa.array(np.tile(np.arange(len(merged)), len(columns.lines))))
    kinds = pa.array(["int" if key in numbers else None for key in merged], pa.string()).take(
        pa.array(np.tile(np.arange(len(merged)), len(columns.lines)))
    )
    present = values.is_valid()
    typed = pc.and_(present, kinds.is_valid())
    return _to_map(keys, values, present, len(merged)), _to_map(keys, kinds, typed, len(merged))


def _interleave(columns: Sequence[pa.StringArray], count: int) -> pa.StringArray:
    """Return the values of columns row by row."""
    if not columns:
        return pa.array([], pa.string())
    order = (np.arange(count)[:, None] + np.arange(len(columns))[None, :] * count).ravel()
    return pa.concat_arrays(columns).take(pa.array(order))


def _to_map(keys: pa.StringArray, values: pa.StringArray, present: pa.BooleanArray, width: int) -> pa.MapArray:
    mask = to_mask(present)
    counts = mask.reshape(-1, width).sum(axis=1) if width else np.zeros(0, dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), keys.filter(present), values.filter(present))
