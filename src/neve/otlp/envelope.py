"""Envelope of a message: its records, each with its resource and scope.

All three signals have the same envelope with other names. Decoding turns a column of messages into a column of
records plus, for each record, the index of its scope group. The columns that all records of a group share are
decoded once for each group. Encoding finds the groups again as runs of rows with the same resource and scope.
`Rows` are decoded columns together with their envelope.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.signals import Signal
from neve.otlp.attributes import decode_attributes, encode_attributes, find_unreadable_rows
from neve.otlp.columns import empty_to_null, list_of, null_to_zero, struct, text_or_empty, to_signed, with_nulls
from neve.otlp.decode_result import Rejected
from neve.otlp.digest import Digests, digests
from neve.otlp.protobuf import MESSAGES, Handler, Indices, handler, parse_messages
from neve.otlp.value_columns import null_mask

SERVICE_NAME = "service.name"
RESOURCE = "resource.v1.Resource"
SCOPE = "common.v1.InstrumentationScope"
NAMES = {
    Signal.TRACES: ("resource_spans", "scope_spans", "spans"),
    Signal.LOGS: ("resource_logs", "scope_logs", "log_records"),
    Signal.METRICS: ("resource_metrics", "scope_metrics", "metrics"),
}


@dataclass(frozen=True)
class WireContext:
    """Context of records on the wire: resource and scope as bytes (null if not sent), each with its schema URL."""

    resource: pa.BinaryArray
    resource_schema_url: pa.StringArray
    scope: pa.BinaryArray
    scope_schema_url: pa.StringArray

    @property
    def columns(self) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
        """Return all four columns."""
        return self.resource, self.resource_schema_url, self.scope, self.scope_schema_url

    def take(self, index: Indices) -> "WireContext":
        """Return some of the rows."""
        return WireContext(*(column.take(pa.array(index)) for column in self.columns))


@dataclass(frozen=True)
class Envelope:
    """Records of some messages, and their groups."""

    signal: Signal
    records: pa.BinaryArray
    group: Indices
    message: Indices
    groups: WireContext

    def select(self, keep: npt.NDArray[np.bool_] | Indices) -> "Envelope":
        """Return the same groups with only some of the records."""
        index = np.flatnonzero(keep) if keep.dtype == np.bool_ else keep
        records = self.records.take(pa.array(index))
        return replace(self, records=records, group=self.group[index], message=self.message[index])

    def renumber(self, messages: Indices) -> "Envelope":
        """Return the envelope with new message numbers: 0 becomes the first of `messages`, and so on."""
        return replace(self, message=messages[self.message])

    def without_groups(self, groups: Indices) -> "Envelope":
        """Return the envelope with null resources and scopes for some groups, which must hold no records."""
        lost = np.isin(np.arange(len(self.groups.resource)), groups)
        resource, scope = with_nulls(self.groups.resource, lost), with_nulls(self.groups.scope, lost)
        return replace(self, groups=replace(self.groups, resource=resource, scope=scope))


def open_messages(signal: Signal, messages: pa.RecordBatch) -> Envelope:
    """Split parsed messages into records and groups."""
    _resource_groups, scope_groups, records = NAMES[signal]
    resources = messages.column(0)
    message_of_resource = pc.list_parent_indices(resources).to_numpy()
    resource = resources.flatten()
    scopes = resource.field(scope_groups)
    resource_of_scope = pc.list_parent_indices(scopes)
    scope = scopes.flatten()
    record_lists = scope.field(records)
    group = pc.list_parent_indices(record_lists).to_numpy()
    return Envelope(
        signal=signal,
        records=record_lists.flatten(),
        group=group,
        message=message_of_resource[resource_of_scope.to_numpy()[group]],
        groups=WireContext(
            resource=resource.field("resource").take(resource_of_scope),
            resource_schema_url=resource.field("schema_url").take(resource_of_scope),
            scope=scope.field("scope"),
            scope_schema_url=scope.field("schema_url"),
        ),
    )


@dataclass(frozen=True)
class Context:
    """Columns that the records of a group share, one row a group."""

    columns: pa.RecordBatch
    digests: Digests
    duplicate_keys: int


def decode_context(groups: WireContext) -> Context:
    """Decode each group's resource and scope; raises `ValueError` if one can't be read."""
    resource, scope = _parse_all(RESOURCE, groups.resource), _parse_all(SCOPE, groups.scope)
    resource_maps = decode_attributes(resource.column("attributes"))
    scope_maps = decode_attributes(scope.column("attributes"))
    resource_null, scope_null = null_mask(groups.resource), null_mask(groups.scope)
    columns = {
        "service_name": _service_name(resource_maps.attributes),
        "resource_attrs": with_nulls(resource_maps.attributes, resource_null),
        "resource_attr_types": with_nulls(resource_maps.types, resource_null),
        "resource_dropped_attributes_count": to_signed(resource.column("dropped_attributes_count")),
        "resource_entity_refs": resource.column("entity_refs"),
        "resource_schema_url": empty_to_null(groups.resource_schema_url),
        "scope_name": with_nulls(scope.column("name"), scope_null),
        "scope_version": empty_to_null(scope.column("version")),
        "scope_attrs": with_nulls(scope_maps.attributes, scope_null),
        "scope_attr_types": with_nulls(scope_maps.types, scope_null),
        "scope_dropped_attributes_count": to_signed(scope.column("dropped_attributes_count")),
        "scope_schema_url": empty_to_null(groups.scope_schema_url),
    }
    return Context(
        pa.RecordBatch.from_pydict(columns),
        _context_digests(groups),
        resource_maps.duplicate_keys + scope_maps.duplicate_keys,
    )


def find_unreadable_groups(groups: WireContext) -> dict[int, str]:
    """Return the groups that `decode_context` can't decode, with the reasons."""
    bad: dict[int, str] = {}
    for name, column in ((RESOURCE, groups.resource), (SCOPE, groups.scope)):
        parsed = parse_messages(name, column)
        bad |= parsed.malformed | {
            int(parsed.index[row]): why for row, why in find_unreadable_rows(parsed.batch).items()
        }
    return bad


def _parse_all(name: str, column: pa.BinaryArray) -> pa.RecordBatch:
    parsed = parse_messages(name, column)
    if parsed.malformed:
        raise ValueError("some values are malformed")
    return parsed.batch


def _service_name(attributes: pa.MapArray) -> pa.StringArray:
    return pc.map_lookup(attributes, SERVICE_NAME, "first")


def _context_digests(groups: WireContext) -> Digests:
    """Return one digest for the context of a record; each part has its own position, so that parts can't be swapped."""
    texts: list[pa.Array] = []
    for part in groups.columns:
        length = pc.binary_length(part).cast(pa.string()).fill_null("absent")
        texts += [length.cast(pa.binary()), part.cast(pa.binary()).fill_null(b"")]
    return digests(pc.binary_join_element_wise(*texts, b":"))


def encode_context(batch: pa.RecordBatch) -> WireContext:
    """Encode the context of every row for the wire."""
    resource_wire, scope_wire = handler(RESOURCE), handler(SCOPE)
    resource = _encode(
        resource_wire,
        {
            "attributes": encode_attributes(batch.column("resource_attrs"), batch.column("resource_attr_types")),
            "dropped_attributes_count": null_to_zero(batch.column("resource_dropped_attributes_count"), pa.uint32()),
            "entity_refs": list_of(batch.column("resource_entity_refs"), resource_wire.schema().field("entity_refs")),
        },
    )
    scope = _encode(
        scope_wire,
        {
            "name": text_or_empty(batch.column("scope_name")),
            "version": text_or_empty(batch.column("scope_version")),
            "attributes": encode_attributes(batch.column("scope_attrs"), batch.column("scope_attr_types")),
            "dropped_attributes_count": null_to_zero(batch.column("scope_dropped_attributes_count"), pa.uint32()),
        },
    )
    return WireContext(
        with_nulls(resource, null_mask(batch.column("resource_attrs"))),
        text_or_empty(batch.column("resource_schema_url")),
        with_nulls(scope, null_mask(batch.column("scope_attrs"))),
        text_or_empty(batch.column("scope_schema_url")),
    )


def _encode(wire: Handler, columns: dict[str, pa.Array]) -> pa.BinaryArray:
    return wire.record_batch_to_array(pa.RecordBatch.from_pydict(columns))


def seal(signal: Signal, records: pa.BinaryArray, around: WireContext) -> bytes:
    """Encode one message of these records; neighbours with the same resource and scope share their group."""
    if len(records) == 0:
        return b""
    new_resource = find_changes(around.resource, around.resource_schema_url)
    new_scope = new_resource | find_changes(around.scope, around.scope_schema_url)
    resources = _nest(signal, records, around, np.flatnonzero(new_resource), np.flatnonzero(new_scope))
    sealed: bytes = _messages(signal, list_runs(resources, np.array([0])))[0].as_py()
    return sealed


def seal_each(signal: Signal, records: pa.BinaryArray, around: WireContext) -> pa.BinaryArray:
    """Encode a message for each record."""
    each = np.arange(len(records))
    return _messages(signal, list_runs(_nest(signal, records, around, each, each), each))


def _nest(
    signal: Signal, records: pa.BinaryArray, around: WireContext, resource_at: Indices, scope_at: Indices
) -> pa.StructArray:
    """Nest records in scopes in resources, given the first record of each."""
    _resource_groups, scope_groups, record_lists = NAMES[signal]
    scope, resource = around.take(scope_at), around.take(resource_at)
    scopes = struct(
        {"scope": scope.scope, record_lists: list_runs(records, scope_at), "schema_url": scope.scope_schema_url}
    )
    nested = list_runs(scopes, np.searchsorted(scope_at, resource_at))
    return struct({"resource": resource.resource, scope_groups: nested, "schema_url": resource.resource_schema_url})


def _messages(signal: Signal, resources: pa.ListArray) -> pa.BinaryArray:
    batch = pa.RecordBatch.from_arrays([resources], names=[NAMES[signal][0]])
    return handler(MESSAGES[signal]).record_batch_to_array(batch)


def find_changes(*columns: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a mask of rows that differ from the previous row in any of these columns."""
    changed = np.zeros(len(columns[0]), dtype=np.bool_)
    changed[:1] = True
    for column in columns:
        # Null and empty differ here: an empty resource was sent.
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        same = pc.fill_null(pc.equal(before, after), False)
        both_null = pc.and_(before.is_null(), after.is_null())
        changed[1:] |= ~pc.or_(same, both_null).to_numpy(zero_copy_only=False)
    return changed


def list_runs(values: pa.Array, starts: Sequence[int] | npt.NDArray[np.int64]) -> pa.ListArray:
    """Return a list for each run of values, given the starts of the runs."""
    return pa.ListArray.from_arrays(pa.array([*starts, len(values)], pa.int32()), values)


Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class Rows:
    """Columns of the records themselves, one row for each record of the envelope.

    `metric` numbers the metric and type of each row, if the rows are points of metrics.
    """

    columns: Columns
    envelope: Envelope
    digests: Digests
    rejected: tuple[Rejected, ...]
    duplicate_keys: int
    pointless_metrics: int = 0
    metric: Indices | None = None

    @property
    def runs(self) -> tuple[Indices, Indices]:
        """Return the first row of each run of rows with the same metric and type, and the number of its rows."""
        metric = np.arange(len(self.envelope.group)) if self.metric is None else self.metric
        first = np.flatnonzero(np.diff(metric, prepend=-1))
        return first, np.diff(first, append=len(metric))
