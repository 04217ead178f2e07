"""The wire: OTLP protobuf and JSON to Arrow batches of the tables' schemas, and back, without loss."""

from neve.otlp.batch import Decoded, Intake, Overgrown, Rejected
from neve.otlp.codec import decode, encode

__all__ = ["Decoded", "Intake", "Overgrown", "Rejected", "decode", "encode"]
