"""OTLP codec: protobuf and JSON messages to Arrow batches of the tables' schemas, and back, without loss."""

from neve.otlp.codec import decode, encode
from neve.otlp.decode_result import Decoded, Intake, Overgrown, Rejected

__all__ = ["Decoded", "Intake", "Overgrown", "Rejected", "decode", "encode"]
