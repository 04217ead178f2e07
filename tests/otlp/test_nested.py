"""Values inside of values: a bound for their depth, and one that can't be read costs its own record only."""

from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from neve.model.signals import Signal
from neve.otlp import Decoded, Intake, decode, encode
from neve.otlp.envelope import NAMES
from neve.otlp.json import to_json, to_protobuf
from neve.otlp.protobuf import MESSAGES, POINTS, message_class
from neve.otlp.values import CACHED_BYTES, MAX_LEVELS, UnreadableValue, render_array, render_map
from tests.otlp.canonical import canonical
from tests.otlp.damage import NOW, whole
from tests.otlp.messages import CLASSES
from tests.receive.doubles import field

INTAKE = Intake(organization_id="acme", received_unix_nano=NOW)
BOUND = f"more than {MAX_LEVELS} levels deep"
# Where a value may stand: the signal, and the way to it from the first record.
PLACES: dict[str, tuple[Signal, str]] = {
    "span": (Signal.TRACES, "attributes[1].value"),
    "event": (Signal.TRACES, "events[0].attributes[1].value"),
    "link": (Signal.TRACES, "links[0].attributes[1].value"),
    "log": (Signal.LOGS, "attributes[1].value"),
    "body": (Signal.LOGS, "body"),
    "metadata": (Signal.METRICS, "metadata[1].value"),
    "point": (Signal.METRICS, "gauge.data_points[0].attributes[1].value"),
    "exemplar": (Signal.METRICS, "gauge.data_points[0].exemplars[0].filtered_attributes[1].value"),
}
each_place = pytest.mark.parametrize("place", PLACES)
each_kind = pytest.mark.parametrize("kind", ["array_value", "kvlist_value"])


class Spoilable:
    """A message whose lists and maps inside of values are plain bytes, so that they can be anything."""

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.message: Any = message_class(MESSAGES[signal], whole=True).FromString(whole()[signal])

    @property
    def group(self) -> Any:
        """The first group of records with one resource."""
        return getattr(self.message, NAMES[self.signal][0])[0]

    @property
    def scope(self) -> Any:
        """The first group of records with one scope."""
        return getattr(self.group, NAMES[self.signal][1])[0]

    @property
    def records(self) -> Any:
        """The records of that."""
        return getattr(self.scope, NAMES[self.signal][2])

    @property
    def wire(self) -> bytes:
        """The message on the wire."""
        written: bytes = self.message.SerializeToString()
        return written

    def spoil(self, way: str, kind: str, data: bytes) -> None:
        """Put other bytes into a value of the first record."""
        setattr(follow(self.records[0], way), kind, data)

    def decode(self) -> Decoded:
        """As the receiver would."""
        return decode(self.signal, [self.wire], INTAKE)


def follow(message: Any, way: str) -> Any:
    """The field at the end of names and indexes."""
    for step in way.replace("]", "").split("."):
        name, *indexes = step.split("[")
        message = getattr(message, name)
        for index in indexes:
            message = message[int(index)]
    return message


def deep(levels: int, kind: str) -> bytes:
    """The bytes of a list or map that holds one that holds one, and so on."""
    data = b""
    for _ in range(levels - 1):
        data = (
            field(1, field(5, data)) if kind == "array_value" else field(1, field(1, b"k") + field(2, field(6, data)))
        )
    return data


@each_kind
@each_place
def test_the_deepest_value_goes_everywhere(place: str, kind: str) -> None:
    """At the bound a value is accepted, comes back as it was, and every reader can read it, JSON included."""
    signal, way = PLACES[place]
    spoilable = Spoilable(signal)
    spoilable.spoil(way, kind, deep(MAX_LEVELS, kind))
    message = CLASSES[signal].FromString(spoilable.wire)
    decoded = spoilable.decode()
    assert decoded.rejected == ()
    back = CLASSES[signal].FromString(encode(signal, decoded.batch))
    assert canonical(signal, back) == canonical(signal, message)
    read = to_protobuf(signal, to_json(signal, spoilable.wire).encode())
    assert [CLASSES[signal].FromString(wire) for wire in read.messages.to_pylist()] == [message]


@pytest.mark.slow
@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 60, 10_000])
@each_kind
@each_place
def test_a_value_that_is_too_deep_costs_its_record(place: str, kind: str, levels: int) -> None:
    """One level more, and many more: the record is refused with the bound in words, its neighbours are kept."""
    signal, way = PLACES[place]
    spoilable = Spoilable(signal)
    before = spoilable.decode().batch.num_rows
    spoilable.spoil(way, kind, deep(levels, kind))
    decoded = spoilable.decode()
    [refused] = decoded.rejected
    assert refused.reason == "malformed_record"
    assert BOUND in refused.detail
    assert decoded.batch.num_rows == before - (3 if place == "metadata" else 1)  # a metric goes with its points


@each_kind
@each_place
def test_a_malformed_value_costs_its_record(place: str, kind: str) -> None:
    """Bytes that are no list or map, wherever they stand; what was refused is refused again when it is read again."""
    signal, way = PLACES[place]
    spoilable = Spoilable(signal)
    before = spoilable.decode().batch.num_rows
    spoilable.spoil(way, kind, b"\xff")
    decoded = spoilable.decode()
    assert decoded.batch.num_rows == before - (3 if place == "metadata" else 1)
    [refused] = decoded.rejected
    assert (refused.reason, refused.message) == ("malformed_record", 0)
    again = decode(signal, [refused.payload], INTAKE)
    assert (again.batch.num_rows, [bad.payload for bad in again.rejected]) == (0, [refused.payload])


@pytest.mark.parametrize("kind", POINTS)
def test_a_point_comes_back_alone_in_its_metric(kind: str) -> None:
    """Of every type."""
    spoilable = Spoilable(Signal.METRICS)
    before = spoilable.decode().batch.num_rows
    metric = next(one for one in spoilable.records if one.WhichOneof("data") == kind)
    follow(metric, f"{kind}.data_points[0].attributes[1].value").array_value = deep(40, "array_value")
    decoded = spoilable.decode()
    assert decoded.batch.num_rows == before - 1
    [refused] = decoded.rejected
    message = ExportMetricsServiceRequest.FromString(refused.payload)
    [alone] = message.resource_metrics[0].scope_metrics[0].metrics
    assert (alone.name, len(getattr(alone, kind).data_points)) == (metric.name, 1)


@pytest.mark.parametrize("data", [b"\xff", deep(40, "array_value")], ids=["malformed", "deep"])
@pytest.mark.parametrize("holder", ["resource", "scope"])
@pytest.mark.parametrize("signal", list(Signal))
def test_what_a_group_shares_costs_the_group(signal: Signal, holder: str, data: bytes) -> None:
    """A value in a resource or scope can't be read: its records are refused, those of the other groups are kept."""
    spoilable = Spoilable(signal)
    spoilable.message.MergeFrom(Spoilable(signal).message)
    before = spoilable.decode().batch.num_rows
    records = len(spoilable.records)
    lost = before // 2 if signal is Signal.METRICS else records  # a metric is refused once, with all its points
    around = spoilable.group.resource if holder == "resource" else spoilable.scope.scope
    around.attributes[1].value.array_value = data
    decoded = spoilable.decode()
    assert [bad.reason for bad in decoded.rejected] == ["malformed_context"] * records
    assert all(BOUND in bad.detail for bad in decoded.rejected)
    assert decoded.batch.num_rows == before - lost


def test_a_malformed_value_under_a_key_twice_rejects_its_record() -> None:
    """Both values of a key are stored, so that the earlier one is checked, too, whatever the records beside it hold."""
    spoilable = Spoilable(Signal.TRACES)
    before = spoilable.decode().batch.num_rows
    first, second = spoilable.records[:2]
    first.attributes[1].value.array_value = b"\xff"
    first.attributes.add(key="nested").value.string_value = "the later one"
    decoded = spoilable.decode()
    assert (decoded.batch.num_rows, len(decoded.rejected)) == (before - 1, 1)
    second.attributes[1].value.array_value = b"\xff"
    decoded = spoilable.decode()
    assert (decoded.batch.num_rows, len(decoded.rejected)) == (before - 2, 2)


def test_a_value_of_two_kinds_has_the_text_of_its_kind() -> None:
    """The standard forbids it; what is stored must be readable all the same."""
    bodies = [field(1, b"text") + b"\x18\x07" + field(5, b""), b"\x18\x07" + field(5, b""), field(5, b"")]
    records = b"".join(field(2, field(5, body)) for body in bodies)
    decoded = decode(Signal.LOGS, [field(1, field(2, records))], INTAKE)
    assert decoded.batch.column("message").to_pylist() == ["text", "7", "[]"]
    assert decoded.batch.column("body_type").to_pylist() == [None, "int", "array"]
    encode(Signal.LOGS, decoded.batch)


@pytest.mark.parametrize("render", [render_array, render_map])
def test_large_values_are_rendered_like_small_ones(render: Any) -> None:
    """Only small ones are kept for the next time."""
    for size in (1, CACHED_BYTES * 2):
        with pytest.raises(UnreadableValue, match="malformed, or nested more than"):
            render(b"\xff" * size)
    assert render(b"") == (("[]", "array") if render is render_array else ("{}", "map"))
