"""What a file is, told by its content where the name leaves it open."""

import re

import pyarrow as pa

from neve.model.signals import Signal
from neve.otlp.envelope import open_messages
from neve.otlp.parse import malformed
from neve.otlp.wire import RECORDS, handler

LOOK_AT_BYTES = 64 * 1024
LOOK_AT_RECORDS = 64
TOP_FIELDS = {"resourceSpans": Signal.TRACES, "resourceLogs": Signal.LOGS, "resourceMetrics": Signal.METRICS}
TOP = re.compile(rb'^\s*\{\s*"(resourceSpans|resourceLogs|resourceMetrics)"\s*:')


def is_otlp_json(data: bytes) -> bool:
    """Whether the first document begins as an OTLP message does."""
    return TOP.match(data[:LOOK_AT_BYTES]) is not None


def json_signal(data: bytes) -> Signal | None:
    """The signal of an OTLP JSON text."""
    match = TOP.match(data[:LOOK_AT_BYTES])
    return TOP_FIELDS[match[1].decode()] if match else None


def proto_signal(messages: pa.BinaryArray) -> Signal | None:
    """The one signal whose records the first message's bytes can be; nothing where none or several fit."""
    fits = [signal for signal in Signal if _fits(signal, messages.slice(0, 1))]
    return fits[0] if len(fits) == 1 else None


def _fits(signal: Signal, message: pa.BinaryArray) -> bool:
    try:
        records = open_messages(signal, message).records.slice(0, LOOK_AT_RECORDS)
    except ValueError:
        return False
    return len(records) > 0 and not malformed(handler(RECORDS[signal]), records)
