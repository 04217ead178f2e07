"""What decoding takes besides bytes, and what it gives back."""

from dataclasses import dataclass

import pyarrow as pa

from neve.errors import WireError

DAY_NANOS = 86_400 * 1_000_000_000


@dataclass(frozen=True)
class Intake:
    """What the receiver of a message knows about it that the message does not say."""

    organization_id: str
    received_unix_nano: int
    max_future_nanos: int = DAY_NANOS

    @property
    def latest_unix_nano(self) -> int:
        """A record with a later time than this is refused."""
        return self.received_unix_nano + self.max_future_nanos


@dataclass(frozen=True)
class Rejected:
    """One record, or one whole message, that could not be accepted."""

    reason: str
    detail: str
    message: int
    payload: bytes
    encoding: str = "otlp_proto"


class Overgrown(WireError):
    """Raised when messages hold, or would become, far more than their size says."""


@dataclass(frozen=True)
class Decoded:
    """The accepted records as a batch of the table's schema, and everything that was not accepted."""

    batch: pa.RecordBatch
    rejected: tuple[Rejected, ...] = ()
    duplicate_keys: int = 0
    pointless_metrics: int = 0


@dataclass(frozen=True)
class Transcoded:
    """Protobuf messages, the document that each came from, and the documents that are not messages."""

    messages: pa.BinaryArray
    index: tuple[int, ...]
    rejected: tuple[Rejected, ...] = ()
