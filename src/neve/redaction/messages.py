"""Redact encoded OTLP messages: decode what a rule may concern, replace columns, encode it again.

Only records, resources and scopes with bytes that a rule may concern are decoded. All other bytes stay as they are.
Messages with an unusual envelope are decoded whole.
A part that a rule may concern and that can't be decoded is replaced by `WITHHELD`, which ingestion rejects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.envelope import NAMES, RESOURCE, SCOPE
from neve.otlp.protobuf import (
    MESSAGES,
    RECORDS,
    find_refused,
    find_unsafe,
    handler,
    message_class,
    other_rows,
    read_messages,
)
from neve.otlp.value_columns import Mask, null_mask
from neve.redaction.regions import Unusual, find_regions, replace_regions
from neve.redaction.rules import MASK, Hasher, compile_rules

if TYPE_CHECKING:
    from neve.model.signals import Signal
    from neve.otlp.protobuf import Handler, Indices
    from neve.redaction.config import RedactionConfig, RuleConfig
    from neve.redaction.regions import Regions
    from neve.redaction.rules import CompiledRules

WITHHELD = b"\x07[withheld]"  # no message begins with the tag 7
SLICE_BYTES = 16 * 1024 * 1024  # of records that are decoded at once
MAX_LEVELS = 32  # of nested values; decoding rejects deeper ones
ARRAY, MAP = "common.v1.ArrayValue", "common.v1.KeyValueList"
NESTED = {"array_value": ARRAY, "kvlist_value": MAP}


class Malformed(ValueError):
    """Raised when a part of a message can't be decoded, and the caller has no time to find it."""


def redact_messages(
    config: RedactionConfig, organization: str, signal: Signal, messages: pa.BinaryArray, *, is_quick: bool = False
) -> pa.BinaryArray:
    """Return messages with the rules applied. Messages that no rule concerns keep their bytes.

    `is_quick` raises `Malformed` for a message with malformed parts: to find them takes long.
    """
    redactor = _find_redactor(config, organization, signal, is_quick)
    return redactor.redact(messages) if redactor and len(messages) else messages


def redact_message(
    config: RedactionConfig, organization: str, signal: Signal, message: bytes, *, is_quick: bool = False
) -> bytes:
    """Return one message with the rules applied: the same object if no rule concerns it."""
    redactor = _find_redactor(config, organization, signal, is_quick) if config.rules else None
    return redactor.redact_each([message])[0] if redactor else message


def _find_redactor(config: RedactionConfig, organization: str, signal: Signal, is_quick: bool) -> _Redactor | None:
    """Return the redactor of messages; None if no rule applies to them."""
    rules = config.select(organization, signal)
    if not rules:
        return None
    return _Redactor(signal, compile_rules(rules), Hasher.of(config.salt.get_secret_value(), organization), is_quick)


@dataclass(frozen=True)
class _Redactor:
    signal: Signal
    rules: CompiledRules
    hasher: Hasher
    is_quick: bool

    def redact(self, messages: pa.BinaryArray) -> pa.BinaryArray:
        """Redact a column of messages."""
        hits = np.flatnonzero(self.rules.may_match(messages).to_numpy(zero_copy_only=False))
        if not len(hits):
            return messages
        some = (self.redact_each(messages.take(pa.array(part)).to_pylist()) for part in _slices(messages, hits))
        return _replace_rows(messages, hits, [pa.array(part, pa.binary()) for part in some])

    def redact_each(self, messages: list[bytes]) -> list[bytes]:
        """Redact messages together: regions of the same kind are decoded at once. Others are the same objects."""
        regions, unusual = self._find_regions(messages)
        contents: list[dict[int, bytes]] = [{} for _ in messages]
        for name, kind in ((RESOURCE, "resources"), (SCOPE, "scopes"), (RECORDS[self.signal], "records")):
            places = [(row, part) for row, found in regions.items() for part in getattr(found, kind)]
            if places:
                column = pa.array([messages[row][part.start : part.end] for row, part in places], pa.binary())
                for (row, part), content in zip(places, self._redact_slice(name, column, 0).to_pylist(), strict=True):
                    contents[row][part.start] = content
        redacted = list(messages)
        for row, found in regions.items():
            redacted[row] = replace_regions(messages[row], found, contents[row])
        if unusual:
            column = pa.array([messages[row] for row in unusual], pa.binary())
            for row, content in zip(unusual, self.redact_whole(column).to_pylist(), strict=True):
                redacted[row] = content
        return redacted

    def _find_regions(self, messages: list[bytes]) -> tuple[dict[int, Regions], list[int]]:
        """Return the regions of messages by row, and the rows of messages that have to be decoded whole."""
        if self.rules.quick is None:
            return {}, list(range(len(messages)))
        regions, unusual = {}, []
        for row, message in enumerate(messages):
            try:
                found = find_regions(self.rules.quick, message)
            except Unusual:
                unusual.append(row)
            else:
                if found is not None:
                    regions[row] = found
        return regions, unusual

    def redact_whole(self, messages: pa.BinaryArray) -> pa.BinaryArray:
        """Redact a column of messages by decoding their envelopes."""
        return self._redact_encoded(MESSAGES[self.signal], messages)

    def _redact_encoded(self, name: str, column: pa.BinaryArray, levels: int = 0) -> pa.BinaryArray:
        """Redact encoded values of one message type."""
        hits = np.flatnonzero(self.rules.may_match(column).to_numpy(zero_copy_only=False))
        if not len(hits):
            return column
        parts = [self._redact_slice(name, column.take(pa.array(some)), levels) for some in _slices(column, hits)]
        return _replace_rows(column, hits, parts)

    def _redact_slice(self, name: str, some: pa.BinaryArray, levels: int) -> pa.BinaryArray:
        is_whole = name in RECORDS.values()
        kind, wire = message_class(name, whole=is_whole), handler(name, whole=is_whole)
        bad = find_unsafe(kind, some)
        batch = None if bad else _read(wire, some)
        if batch is not None:
            return self._redact_batch(wire, batch, levels)
        if self.is_quick:
            raise Malformed(name)
        bad = find_refused(kind, some, range(len(some)))
        places = np.full(len(some), 0)
        good = other_rows(len(some), bad)
        batch = _read(wire, some.take(pa.array(good)))
        withheld = pa.array([WITHHELD], pa.binary())
        if batch is None:  # the two readers disagree in an unknown case
            return withheld.take(pa.array(places))
        places[good] = np.arange(1, len(good) + 1)
        return pa.concat_arrays([withheld, self._redact_batch(wire, batch, levels)]).take(pa.array(places))

    def _redact_batch(self, wire: Handler, batch: pa.RecordBatch, levels: int) -> pa.BinaryArray:
        columns = [self._redact_column(name, batch.column(name), levels) for name in batch.schema.names]
        return wire.record_batch_to_array(pa.RecordBatch.from_arrays(columns, schema=batch.schema))

    def _redact_column(self, name: str, array: pa.Array, levels: int) -> pa.Array:
        """Redact a column of any type. Attributes and values are known by their fields."""
        kind = array.type
        if pa.types.is_string(kind):
            return self.rules.redact_texts(array, self.hasher)
        if pa.types.is_binary(kind):
            return self._redact_encoded(inner, array, levels) if (inner := self._message_of(name)) else array
        if not pa.types.is_nested(kind) or not self.rules.may_concern(array):
            return array
        if pa.types.is_struct(kind):
            if kind.get_field_index("kvlist_value") >= 0:
                return self._redact_values(array, levels)
            return _rebuild(array, {f.name: self._redact_column(f.name, _field(array, f.name), levels) for f in kind})
        return self._redact_list(name, array, levels)

    def _message_of(self, name: str) -> str | None:
        """Return the type of a message that is left as bytes in a field of this name."""
        if name == "resource":
            return RESOURCE
        if name == "scope":
            return SCOPE
        return RECORDS[self.signal] if name == NAMES[self.signal][2] else None

    def _redact_list(self, name: str, array: pa.ListArray, levels: int) -> pa.ListArray:
        offsets = array.offsets.to_numpy()
        values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        offsets = offsets - offsets[0]
        kind = array.type.value_type
        if pa.types.is_struct(kind) and kind.get_field_index("key") >= 0:
            values, keep = self._redact_entries(values, levels)
            if keep is not None:
                values = values.filter(pa.array(keep))
                offsets = np.concatenate(([0], np.cumsum(keep, dtype=np.int32)))[offsets]
        else:
            values = self._redact_column(name, values, levels)
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=array.type)

    def _redact_entries(self, entries: pa.StructArray, levels: int) -> tuple[pa.StructArray, Mask | None]:
        """Redact entries with a key, and return those that stay as a mask; None for all."""
        keys, value = entries.field("key"), _field(entries, "value")
        keep: Mask | None = None
        done = np.zeros(len(keys), dtype=np.bool_)
        replaced = value
        for rule, found in self.rules.match_keys(keys):
            mask = found.to_numpy(zero_copy_only=False)
            done |= mask
            if rule.action == "drop":
                keep = ~mask if keep is None else keep & ~mask
            else:
                replaced = self._replace_values(replaced, mask, rule)
        rest = self._redact_values(replaced, levels) if not done.any() else self._redact_others(replaced, done, levels)
        keys = self.rules.redact_texts(keys, self.hasher)
        return _rebuild(entries, {"key": keys, "value": rest}), keep

    def _redact_others(self, value: pa.StructArray, done: Mask, levels: int) -> pa.StructArray:
        """Redact the values that no rule of keys has replaced."""
        if not self.rules.may_concern(value):
            return value
        order = np.where(done, np.cumsum(done) - 1, int(done.sum()) + np.cumsum(~done) - 1)
        some = self._redact_values(value.filter(pa.array(~done)), levels)
        return pa.concat_arrays([value.filter(pa.array(done)), some]).take(pa.array(order))

    def _replace_values(self, value: pa.StructArray, mask: Mask, rule: RuleConfig) -> pa.StructArray:
        """Replace whole values by the mask or by their hash; a value that was never sent stays so."""
        mask = mask & ~null_mask(value)
        some = value.filter(pa.array(mask))
        texts = self._hash_values(some) if rule.action == "hash" else pa.array([MASK] * len(some), pa.string())
        columns = {}
        for field in value.type:
            column = _field(value, field.name)
            new = texts if field.name == "string_value" else pa.nulls(len(some), field.type)
            columns[field.name] = pc.replace_with_mask(column, pa.array(mask), new)
        return _rebuild(value, columns)

    def _hash_values(self, value: pa.StructArray) -> pa.StringArray:
        """Hash values by their text, so that the number 1 and the text "1" have the same hash."""
        texts = [
            _field(value, field.name).cast(pa.string()) for field in value.type if not pa.types.is_binary(field.type)
        ]
        raw = [_field(value, field.name) for field in value.type if pa.types.is_binary(field.type)]
        return self.hasher.hash_all(pc.coalesce(*(text.cast(pa.binary()) for text in texts), *raw, b""))

    def _redact_values(self, value: pa.StructArray, levels: int) -> pa.StructArray:
        """Redact texts and bytes by patterns, and nested values by all rules."""
        columns = {field.name: _field(value, field.name) for field in value.type}
        for name in ("string_value", "bytes_value"):
            columns[name] = self.rules.redact_texts(columns[name], self.hasher)
        for name, inner in NESTED.items():
            if columns[name].null_count < len(columns[name]):
                columns[name] = self._redact_nested(inner, columns[name], levels + 1)
        return _rebuild(value, columns)

    def _redact_nested(self, name: str, column: pa.BinaryArray, levels: int) -> pa.BinaryArray:
        if levels <= MAX_LEVELS:
            return self._redact_encoded(name, column, levels)
        return pc.if_else(self.rules.may_match(column), pa.scalar(WITHHELD, pa.binary()), column)


def _read(wire: Handler, column: pa.BinaryArray) -> pa.RecordBatch | None:
    try:
        return read_messages(wire, column)
    except ValueError:
        return None


def _replace_rows(column: pa.BinaryArray, rows: Indices, parts: list[pa.BinaryArray]) -> pa.BinaryArray:
    mask = np.zeros(len(column), dtype=np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(column, pa.array(mask), pa.concat_arrays(parts))


def _slices(column: pa.BinaryArray, hits: Indices) -> list[Indices]:
    """Split rows into runs of bounded size."""
    sizes = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)[hits].astype(np.int64)
    run = np.cumsum(sizes) // SLICE_BYTES
    return np.split(hits, np.flatnonzero(np.diff(run)) + 1)


def _field(array: pa.StructArray, name: str) -> pa.Array:
    """Return a field of a struct, null where the struct is null."""
    return pc.struct_field(array, name)


def _rebuild(array: pa.StructArray, columns: dict[str, pa.Array]) -> pa.StructArray:
    mask = pa.array(null_mask(array)) if array.null_count else None
    return pa.StructArray.from_arrays([columns[field.name] for field in array.type], fields=list(array.type), mask=mask)
