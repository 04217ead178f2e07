"""Every format, packed in every way, gives the records of every signal as they were written."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from google.protobuf.message import Message

from neve.ingest.files.formats import Format
from neve.ingest.files.reader import ReadOptions
from neve.model.signals import Signal
from tests.ingest.samples import DOCUMENTS, FOUND, csv, generic, json_text, otlp, pack, parquet, prefixed, read, rows
from tests.otlp.messages import CLASSES

Write = Callable[[Signal, list[Message]], bytes]

EACH_SIGNAL = pytest.mark.parametrize("signal", list(Signal))
EACH_PACKING = pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
GENERIC = {Format.JSON_LINES: "jsonl", Format.CSV: "csv", Format.PARQUET: "parquet"}
BOOLEANS = (
    "otlp/json.py _conform fills a missing boolean with 0, so metrics always take the slow way, whose `documents` "
    "can't cut pretty-printed documents"
)
# How a file may hold some messages: its ending, how many there can be, and how they are written.
OTLP: dict[str, tuple[str, Format, int, Write]] = {
    "one protobuf message": ("binpb", Format.OTLP_PROTO, 1, lambda _s, some: some[0].SerializeToString()),
    "protobuf behind lengths": (
        "pb",
        Format.OTLP_PROTO,
        2,
        lambda _s, some: prefixed(*(message.SerializeToString() for message in some)),
    ),
    "one JSON document": ("json", Format.OTLP_JSON, 1, lambda signal, some: json_text(signal, some[0])),
    "JSON lines": (
        "jsonl",
        Format.OTLP_JSON,
        2,
        lambda signal, some: b"\n".join(json_text(signal, message) for message in some) + b"\n",
    ),
    "one pretty-printed document": (
        "json",
        Format.OTLP_JSON,
        1,
        lambda signal, some: json_text(signal, some[0], indent=2),
    ),
    "pretty-printed documents": (
        "json",
        Format.OTLP_JSON,
        2,
        lambda signal, some: b"\n".join(json_text(signal, message, indent=2) for message in some),
    ),
}


@EACH_SIGNAL
@EACH_PACKING
@pytest.mark.parametrize("form", GENERIC)
def test_generic_files(signal: Signal, packing: str, form: Format) -> None:
    """The fields that mean something are in their columns, the other one is an attribute."""
    name = f"{signal}.{GENERIC[form]}{packing}"
    found = read(name, pack(packing, generic(form, DOCUMENTS[signal])))
    assert (found.signal, found.format, found.rejected) == (signal, form, ())
    table = rows(found)
    for column, values in FOUND[signal].items():
        assert [row[column] for row in table] == values
    assert [row["attribute_types"] for row in table] == [[], []]


@EACH_SIGNAL
@EACH_PACKING
@pytest.mark.parametrize("how", OTLP)
def test_otlp_files(signal: Signal, packing: str, how: str) -> None:
    """The messages are the ones that were written, in their order."""
    ending, form, count, write = OTLP[how]
    messages = [otlp(signal, name) for name in ("cart", "shop")[:count]]
    found = read(f"{signal}.{ending}{packing}", pack(packing, write(signal, messages)))
    assert (found.signal, found.format, found.rejected) == (signal, form, ())
    assert [CLASSES[signal].FromString(wire) for wire in found.messages.to_pylist()] == messages
    assert found.index == tuple(range(count))
    assert [row["service_name"] for row in rows(found)] == ["cart", "shop"][:count]


@EACH_SIGNAL
def test_the_user_is_believed_over_the_name(signal: Signal) -> None:
    """With --format and --signal neither the ending nor the folder matters."""
    wanted = ReadOptions(signal, Format.CSV)
    found = read("metrics/traces.log", generic(Format.CSV, DOCUMENTS[signal]), wanted)
    assert (found.signal, found.format) == (signal, Format.CSV)
    assert len(rows(found)) == 2


@EACH_SIGNAL
@pytest.mark.parametrize("form", GENERIC)
def test_a_file_without_records_has_no_messages(signal: Signal, form: Format) -> None:
    """A header without rows, or no line at all, is not an error."""
    nothing = pa.table({"time": pa.array([], pa.string()), "value": pa.array([], pa.string())})
    data = {Format.JSON_LINES: b"\n\n", Format.CSV: csv(nothing), Format.PARQUET: parquet(nothing)}[form]
    found = read(f"x.{GENERIC[form]}", data, ReadOptions(signal))
    assert (found.signal, found.messages.to_pylist(), found.rejected) == (signal, [], ())
