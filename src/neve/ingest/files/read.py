"""A file's bytes: unpacked, and cut into OTLP messages of one signal."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.errors import InputError, UnknownSignal
from neve.ingest.files.documents import MOST_UNPACKED, check_size
from neve.ingest.files.formats import Compression, Format, read_name, signal_hint
from neve.ingest.files.generic import GenericReader
from neve.ingest.files.sniff import is_otlp_json, json_signal, json_signals, proto_signal
from neve.otlp.json import documents, to_protobuf

if TYPE_CHECKING:
    from neve.ingest.config import FieldsConfig
    from neve.model.signals import Signal
    from neve.otlp import Rejected


PIECE_BYTES = 4 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Wanted:
    """What the user said about the files, where names and contents do not say it."""

    signal: Signal | None = None
    format: Format | None = None


@dataclass(frozen=True)
class Messages:
    """The OTLP messages of one file."""

    signal: Signal
    format: Format
    messages: pa.BinaryArray
    index: tuple[int, ...]
    rejected: tuple[Rejected, ...] = ()


def unpack(path: str, raw: bytes, most: int = MOST_UNPACKED) -> bytes:
    """The bytes inside a compressed file; raises `InputError` when they are cut short or not what the name says.

    Unpacking ends with `FileTooLarge` as soon as there is more than `most`: a few kilobytes can hold gigabytes.
    """
    compression = read_name(path).compression
    if compression is Compression.NONE:
        check_size(len(raw), most)
        return raw
    unpacked = io.BytesIO()
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), compression.value) as stream:
            while piece := stream.read(PIECE_BYTES):
                check_size(unpacked.tell() + len(piece), most)
                unpacked.write(piece)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"can't unpack {compression} data: {error}") from error
    return unpacked.getvalue()


def read_messages(
    path: str, data: bytes, wanted: Wanted, fields: FieldsConfig, most: int = MOST_UNPACKED
) -> list[Messages]:
    """The messages of an unpacked file, for each signal that it holds; generic records become messages first."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    form = wanted.format or read_name(path).format or Format.JSON_LINES
    if wanted.format is None and form in (Format.OTLP_JSON, Format.JSON_LINES):
        form = Format.OTLP_JSON if is_otlp_json(data) else Format.JSON_LINES
    if form is Format.OTLP_PROTO:
        return [_proto(path, data, wanted)]
    if form is Format.OTLP_JSON:
        return _json(path, data, wanted)
    signal = wanted.signal or signal_hint(path)
    if signal is None:
        raise UnknownSignal(
            f"can't tell whether this {form} file holds logs, metrics or traces",
            hint="pass --signal, or put the word into the file's or its folder's name",
        )
    read = GenericReader(signal, fields, most).read(form, data)
    return [Messages(signal, form, read.messages, tuple(range(len(read.messages))), read.rejected)]


def _proto(path: str, data: bytes, wanted: Wanted) -> Messages:
    messages = pa.array(split_messages(data), pa.binary())
    signal = wanted.signal or proto_signal(messages) or signal_hint(path)
    if signal is None:
        raise UnknownSignal("can't tell whether this protobuf file holds logs, metrics or traces", hint="pass --signal")
    return Messages(signal, Format.OTLP_PROTO, messages, tuple(range(len(messages))))


def _json(path: str, data: bytes, wanted: Wanted) -> list[Messages]:
    present = json_signals(data)
    if wanted.signal is None and len(present) > 1:
        return _mixed_json(data)
    signal = wanted.signal or next(iter(present), None) or signal_hint(path)
    if signal is None:
        raise UnknownSignal(
            "can't tell whether this OTLP JSON file holds logs, metrics or traces", hint="pass --signal"
        )
    read = to_protobuf(signal, data)
    return [Messages(signal, Format.OTLP_JSON, read.messages, read.index, read.rejected)]


def _mixed_json(data: bytes) -> list[Messages]:
    """A file whose lines are of several signals: each line goes to its own; what is none goes with the first."""
    lines = [line for line in documents(data) if line.strip()]
    signals = [json_signal(line) for line in lines]
    first = next(signal for signal in signals if signal)
    found = []
    for signal in dict.fromkeys(signal or first for signal in signals):
        places = [place for place, own in enumerate(signals) if (own or first) is signal]
        read = to_protobuf(signal, b"\n".join(b" ".join(lines[place].splitlines()) for place in places))
        rejected = tuple(replace(bad, message=places[bad.message]) for bad in read.rejected)
        index = tuple(places[position] for position in read.index)
        found.append(Messages(signal, Format.OTLP_JSON, read.messages, index, rejected))
    return found


def split_messages(data: bytes) -> list[bytes]:
    """The messages of a protobuf file: one, or several that each stand behind their length.

    The collector's file exporter writes the second kind, with a length of four bytes, the highest first.
    """
    messages, start = [], 0
    while start + 4 <= len(data):
        (length,) = struct.unpack_from(">I", data, start)
        if start + 4 + length > len(data):
            break
        messages.append(data[start + 4 : start + 4 + length])
        start += 4 + length
    if not messages:
        return [data]
    cut_short = [data[start:]] if start < len(data) else []  # whoever decodes it will say so
    return [message for message in messages if message] + cut_short
