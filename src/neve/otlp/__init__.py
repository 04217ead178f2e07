"""OTLP codec: protobuf and JSON messages to Arrow batches of the tables' schemas, and back, without loss."""

from neve.otlp.codec import decode, encode
from neve.otlp.decode_result import BoundsExceeded, Decoded, Intake, Rejected

__all__ = ["BoundsExceeded", "Decoded", "Intake", "Rejected", "decode", "encode"]
