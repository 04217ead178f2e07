"""A raw zone in memory, and messages that are wrong in one way."""

from collections.abc import Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.raw.frame import MAGIC, Frame, decode

NOW = 1_760_000_000_000_000_000


class MemorySink:
    """A sink that keeps pieces, or fails like a disk."""

    writer = "memory"
    open_bytes = 0

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.error: Exception | None = None

    @property
    def frames(self) -> list[Frame]:
        """What was kept."""
        return decode(MAGIC + b"".join(self.pieces)).frames

    def write(self, pieces: Sequence[bytes]) -> None:
        """Keep, or fail."""
        if self.error is not None:
            raise self.error
        self.pieces += pieces

    def tick(self) -> None:
        """Nothing grows old."""

    def close(self) -> None:
        """Nothing is open."""


def span(**changes: object) -> Span:
    """A span that is accepted, unless a change spoils it."""
    fields = {"trace_id": b"t" * 16, "span_id": b"s" * 8, "name": "op", "start_time_unix_nano": NOW} | changes
    return Span(**fields)  # type: ignore[arg-type]


def traces_of(*spans: Span) -> bytes:
    """A message of these spans."""
    group = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
    return ExportTraceServiceRequest(resource_spans=[group]).SerializeToString()


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field on the wire."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def deep_traces(levels: int) -> bytes:
    """A span with an attribute that is a list in a list, and so on."""
    value = field(1, b"x")
    for _ in range(levels):
        value = field(5, field(1, value))
    attribute = field(9, field(1, b"key") + field(2, value))
    return field(1, field(2, field(2, span().SerializeToString() + attribute)))


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])
