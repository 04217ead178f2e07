"""Input and result types of decoding: `Intake`, `Decoded`, `Rejected` and `Transcoded`."""

from dataclasses import dataclass, field

import pyarrow as pa

from neve.errors import WireError

DAY_NANOS = 86_400 * 1_000_000_000


@dataclass(frozen=True)
class Intake:
    """Facts about a message that the receiver knows and the message does not contain."""

    organization_id: str
    received_unix_nano: int
    max_future_nanos: int = DAY_NANOS

    @property
    def latest_unix_nano(self) -> int:
        """The latest accepted time of a record."""
        return self.received_unix_nano + self.max_future_nanos


@dataclass(frozen=True)
class Rejected:
    """One record, or one whole message, that was rejected."""

    reason: str
    detail: str
    message: int
    payload: bytes
    encoding: str = "otlp_proto"
    records: int = 1  # points of a metric


class BoundsExceeded(WireError):
    """Raised when messages hold, or would become, far more than their size suggests."""


@dataclass(frozen=True)
class Decoded:
    """The accepted records as a batch of the table's schema, and everything that was rejected."""

    batch: pa.RecordBatch
    rejected: tuple[Rejected, ...] = ()
    duplicate_keys: int = 0
    pointless_metrics: int = 0
    message: pa.Int64Array = field(default_factory=lambda: pa.array([], pa.int64()))  # of each row of the batch


@dataclass(frozen=True)
class Transcoded:
    """Protobuf messages, the document of each, and the documents that are not messages."""

    messages: pa.BinaryArray
    index: tuple[int, ...]
    rejected: tuple[Rejected, ...] = ()
