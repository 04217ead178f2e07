"""Inputs that are small to send and large to read: each has to be refused, or read within the bounds of its target.

A bomb that only a setting defuses names it. Where that setting is not there, the bomb is left out and reported.
"""

from __future__ import annotations

import gzip
import inspect
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import zstandard

from neve.ingest.config import IngestConfig
from neve.ingest.files.reader import decompress
from neve.model.signals import Signal
from neve.raw.frame import Encoding, Frame, Kind, Packing
from neve.receive.config import ReceiverConfig
from tests.fuzz.containers import FILES, body, segment
from tests.fuzz.corpus import KINDS, parquet
from tests.fuzz.wire import field, varint
from tests.otlp.damage import NOW, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MB = 1024 * 1024
PLAIN = 60 * MB  # just below receiver.max_message_bytes
GROUPS, ATTRIBUTES = "max_groups", "max_attributes"
RECORD = 2  # the number of the field of records in a scope, and of scopes in a resource, in all three signals
SPAN = field(1, b"t" * 16) + field(2, b"s" * 8) + varint(7 << 3 | 1) + NOW.to_bytes(8, "little")
DEEP = 100_000
WBITS = {Packing.GZIP: 16 + zlib.MAX_WBITS, Packing.DEFLATE: zlib.MAX_WBITS}


@dataclass(frozen=True)
class Bomb:
    """An input with a name, made when it is wanted; `missing` is what it needs and this version does not have."""

    name: str
    make: Callable[[], bytes]
    missing: str = ""


def _needs(setting: str, section: type[ReceiverConfig | IngestConfig] = ReceiverConfig) -> str:
    place = "receiver" if section is ReceiverConfig else "ingest"
    return "" if setting in section.model_fields else f"{place}.{setting}"


def repeated(piece: bytes, size: int = PLAIN) -> bytes:
    """A piece again and again, up to a size."""
    return piece * (size // len(piece))


def in_scope(records: bytes) -> bytes:
    """A message of one resource and one scope that holds these bytes."""
    return field(1, field(RECORD, records))


def nested_value(levels: int) -> bytes:
    """A value in lists in lists, as an attribute of a span; built from the inside, whose lengths are known."""
    parts = [field(1, b"x")]
    size = len(parts[0])
    for _ in range(levels):
        inner = varint(1 << 3 | 2) + varint(size)
        outer = varint(5 << 3 | 2) + varint(size + len(inner))
        parts += [inner, outer]
        size += len(inner) + len(outer)
    return in_scope(field(RECORD, SPAN + field(9, field(1, b"key") + field(2, b"".join(reversed(parts))))))


MESSAGES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty scopes": (lambda: field(1, repeated(field(RECORD, b"")) + field(RECORD, field(RECORD, SPAN))), GROUPS),
    "empty resources": (lambda: repeated(field(1, b"")), GROUPS),
    "empty records": (lambda: in_scope(repeated(field(RECORD, b""))), GROUPS),
    "empty attributes": (lambda: in_scope(field(RECORD, SPAN + repeated(field(9, b"")))), ATTRIBUTES),
    "one key a million times": (lambda: in_scope(field(RECORD, SPAN + field(9, field(1, b"k")) * MB)), ""),
    "attributes of a resource": (
        lambda: field(1, field(1, repeated(field(1, b""))) + field(2, field(2, SPAN))),
        ATTRIBUTES,
    ),
    "a large resource of many spans": (
        lambda: field(
            1, field(1, field(1, field(1, b"k") + field(2, field(1, b"v" * MB)))) + field(2, field(2, SPAN) * 90_000)
        ),
        "",
    ),
    "deep values": (lambda: nested_value(DEEP), ""),
    "groups in groups": (lambda: repeated(varint(1 << 3 | 3)), ""),
    "an endless length": (lambda: varint(1 << 3 | 2) + varint(2**64 - 1) + b"x", ""),
    "a tag without an end": (lambda: b"\xff" * PLAIN, ""),
    "a length without an end": (lambda: varint(1 << 3 | 2) + b"\xff" * PLAIN, ""),
    "a length of 2 GB": (lambda: varint(1 << 3 | 2) + varint(2**31 - 1) + b"x" * 100, ""),
    "lengths that are cut": (lambda: field(1, field(2, varint(2 << 3 | 2) + b"\xff\xff\xff")), ""),
    "unknown fields": (lambda: repeated(varint(1000 << 3) + b"\x00"), ""),
}
DOCUMENTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty resources": (lambda: b'{"resourceSpans":[' + repeated(b"{},") + b"{}]}", GROUPS),
    "brackets": (lambda: b'{"resourceSpans":' + b"[" * PLAIN, ""),
    "one string": (lambda: b'{"resourceSpans":"' + repeated(b"\\\\") + b'"}', ""),
    "one number": (lambda: b'{"resourceSpans":[{"x":' + b"9" * MB + b"}]}", ""),
    "one key": (lambda: b'{"resourceSpans":[],' + b'"a":1,' * MB + b'"b":2}', ""),
    "spaces": (lambda: b" " * PLAIN + b"{}", ""),
    "nested values": (
        lambda: b'{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":' + _json_value(14),
        "",
    ),
}


def _json_value(levels: int) -> bytes:
    return b'{"arrayValue":{"values":[' * levels + b"{}" + b"]}}" * levels + b"}]}}]}"


def packed_zeros(packing: Packing, size: int = 1024 * MB) -> bytes:
    """A gigabyte of nothing, packed piece by piece: the bomb must not go off here."""
    packer = (
        zstandard.ZstdCompressor().compressobj()
        if packing is Packing.ZSTD
        else zlib.compressobj(9, wbits=WBITS[packing])
    )
    return b"".join([*(packer.compress(bytes(MB)) for _ in range(size // MB)), packer.flush()])


def _packed(packing: Packing) -> list[tuple[str, Callable[[], bytes]]]:
    zeros = partial(packed_zeros, packing)
    if packing is Packing.GZIP:
        return [
            ("gzip of 1 GB", zeros),
            ("gzip of many members", lambda: gzip.compress(b"", mtime=0) * 200_000),
            ("gzip in gzip", lambda: gzip.compress(zeros(), mtime=0)),
        ]
    if packing is Packing.DEFLATE:
        return [("deflate of 1 GB", zeros)]
    return [
        ("zstd of 1 GB", zeros),
        ("zstd with a window of 2 GB", lambda: b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00"),
        ("zstd of many frames", lambda: zstandard.ZstdCompressor().compress(b"") * 200_000),
    ]


def bodies() -> list[Bomb]:
    """Bodies of requests."""
    found = []
    for name, (make, setting) in MESSAGES.items():
        for signal in Signal if "empty" in name else (Signal.TRACES,):
            packed = partial(_body, signal, Encoding.PROTOBUF, Packing.GZIP, make)
            found.append(Bomb(f"{name} in {signal}", packed, _needs(setting) if setting else ""))
    for name, (make, setting) in DOCUMENTS.items():
        packed = partial(_body, Signal.TRACES, Encoding.JSON, Packing.GZIP, make)
        found.append(Bomb(f"JSON: {name}", packed, _needs(setting) if setting else ""))
    for packing in (Packing.GZIP, Packing.DEFLATE, Packing.ZSTD):
        head = body(Signal.LOGS, Encoding.PROTOBUF, packing, b"")[:1]
        found += [Bomb(name, partial(_behind, head, make)) for name, make in _packed(packing)]
    return found


def _body(signal: Signal, encoding: Encoding, packing: Packing, make: Callable[[], bytes]) -> bytes:
    return body(signal, encoding, packing, make())


def _behind(head: bytes, make: Callable[[], bytes]) -> bytes:
    return head + make()


def segments() -> list[Bomb]:
    """Segments whose frames the receiver would have let in, or that somebody else wrote."""
    found = []
    for name, (make, setting) in MESSAGES.items():
        missing = _needs(setting or GROUPS, IngestConfig) if setting or "empty" in name else ""
        found.append(Bomb(name, partial(_one_frame, make), missing))
    many = partial(_many_frames, 20)
    return [*found, Bomb("20 frames of 60 MB", many, _needs(GROUPS, IngestConfig))]


def _one_frame(make: Callable[[], bytes]) -> bytes:
    payload = gzip.compress(make(), 1, mtime=0)
    return segment(Frame(Kind.TRACES, "acme", NOW, payload, packing=Packing.GZIP))


def _many_frames(count: int) -> bytes:
    """Frames that are legal one by one: few records, and a long unknown field."""
    plain = whole()[Signal.LOGS] + field(1000, bytes(PLAIN))
    frame = Frame(KINDS[Signal.LOGS], "acme", NOW, gzip.compress(plain, 9, mtime=0), packing=Packing.GZIP)
    return segment(*(frame,) * count)


def files() -> list[Bomb]:
    """Files that unpack to gigabytes, and files with too many columns, levels or rows for their size."""
    bounded = "" if "most" in inspect.signature(decompress).parameters else "a bound on unpacked files"
    return [
        Bomb("zstd of 1 GB", lambda: _file("spans.csv.zst") + packed_zeros(Packing.ZSTD), bounded),
        Bomb("gzip of 1 GB", lambda: _file("logs.jsonl.gz") + packed_zeros(Packing.GZIP), bounded),
        Bomb("Parquet of equal rows", lambda: _file("logs.parquet") + parquet(_equal_rows()), bounded),
        Bomb("CSV of 20,000 columns", lambda: _file("logs.csv") + ",".join(f"c{n}" for n in range(20_000)).encode()),
        Bomb("JSON lines of brackets", lambda: _file("logs.jsonl") + b'{"a":' + b"[" * MB),
        Bomb("JSON lines, deep", lambda: _file("logs.jsonl") + b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"),
        Bomb("a million empty lines", lambda: _file("logs.jsonl") + b"\n" * MB),
        Bomb("many lengths", lambda: _file("x.pb") + b"\x00\x00\x00\x00" * MB),
        Bomb("groups in groups", lambda: _file("traces.binpb") + varint(1 << 3 | 3) * MB),
    ]


def _equal_rows() -> pa.Table:
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int8()), ["x" * 1000])
    return pa.table({"message": words})


def _file(name: str) -> bytes:
    return bytes([FILES.index(name)])


def values() -> list[Bomb]:
    """CBOR that is deep, that claims what it does not hold, and that refers to itself."""
    return [
        Bomb("deep slices", lambda: b"\x00" + b"\x81" * MB + b"\x80"),
        Bomb("deep maps", lambda: b"\x01" + b"\xa1\x61k" * DEEP + b"\xa0"),
        Bomb("a long slice", lambda: b"\x00\x9b" + (2**62).to_bytes(8)),
        Bomb("a long text", lambda: b"\x00\x81\x7b" + (2**62).to_bytes(8)),
        Bomb("a slice of itself", lambda: b"\x00\xd8\x1c\x82\xd8\x1d\x00\xd8\x1d\x00"),
        Bomb("a large number", lambda: b"\x00\x81\xc2\x5a\x00\x10\x00\x00" + b"\xff" * MB),
        Bomb("a decimal with a large exponent", lambda: b"\x00\x81\xc4\x82\x1b" + (2**62).to_bytes(8) + b"\x01"),
    ]


def statements() -> Sequence[Bomb]:
    """Statements that cost more to read than to write."""
    texts = {
        "a structure, deep": "SELECT from_json('{}', '" + '{"a":' * 5000 + '"INT"' + "}" * 5000 + "')",
        "a list structure, deep": "SELECT from_json('[]', '" + "[" * 45_000 + '"INT"' + "]" * 45_000 + "')",
        "a path of wildcards": "SELECT json_extract('" + "[" * 1000 + "]" * 1000 + "', '$" + "..*" * 8 + "')",
        "a pattern of wildcards": "SELECT repeat('a', 100000) ILIKE '" + "%_a" * 30_000 + "b'",
        "many conditions": "SELECT 1 FROM logs WHERE " + " OR ".join(f"message = '{n}'" for n in range(4000)),
        "many constants": "SELECT 1 FROM logs WHERE message IN (" + ",".join(f"'{n}'" for n in range(12_000)) + ")",
        "many columns": "SELECT " + ",".join(["1"] * 40_000),
        "many joins": "SELECT 1 FROM logs" + ", logs" * 5000,
        "many unions": "SELECT 1" + " UNION ALL SELECT 1" * 4000,
        "parentheses": "SELECT " + "(" * 45_000 + "1" + ")" * 45_000,
        "minuses": "SELECT " + "- " * 45_000 + "1",
        "brackets": "SELECT " + "[" * 45_000 + "]" * 45_000,
        "casts": "SELECT 1" + "::INT" * 18_000,
        "comments": "SELECT 1 " + "/*" * 45_000,
        "WITH in WITH": "WITH a AS (" * 300 + "SELECT 1" + ") SELECT * FROM a" * 300,
        "a long name": 'SELECT 1 AS "' + "k" * 99_000 + '"',
        "a long number": "SELECT " + "9" * 90_000,
        "a type, deep": "SELECT CAST(NULL AS INT" + "[]" * 40_000 + ")",
        "lambdas": "SELECT " + "list_transform([1], x -> " * 300 + "1" + ")" * 300,
    }
    return [Bomb(name, partial(str.encode, text)) for name, text in texts.items()]
