"""A file's bytes to messages: unpacking, cutting protobuf apart, and what can't be told."""

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.errors import InputError
from neve.ingest.files.formats import Format
from neve.ingest.files.reader import ReadOptions, decompress, read_messages, split_messages
from neve.model.signals import Signal
from tests.ingest.samples import FIELDS, json_text, lines, otlp, pack, prefixed, read, rows

DATA = b"one line of many\n" * 500


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_unpacking_gives_what_was_packed(packing: str) -> None:
    """Also where a file is several packed files behind each other, as log rotation makes them."""
    assert decompress(f"x.jsonl{packing}", pack(packing, DATA)) == DATA
    assert decompress(f"x.jsonl{packing}", pack(packing, DATA) * 2) == DATA * 2
    assert decompress(f"x.jsonl{packing}", b"") == b""


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("part", [0.05, 0.5, 0.99])
def test_a_file_that_was_cut_short_is_refused(kind: str, part: float) -> None:
    """Whatever is missing, nothing of such a file is taken for the whole."""
    ending = {"gzip": ".gz", "zstd": ".zst"}[kind]
    raw = pack(ending, DATA)
    with pytest.raises(InputError, match=f"can't unpack {kind} data: "):
        decompress(f"x.jsonl{ending}", raw[: max(1, int(len(raw) * part))])


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_file_that_is_not_packed_is_refused(ending: str) -> None:
    """A name that lies is found out."""
    with pytest.raises(InputError, match="can't unpack "):
        decompress(f"x.jsonl{ending}", DATA)


def test_a_damaged_gzip_file_is_refused() -> None:
    """The checksum is looked at."""
    raw = bytearray(gzip.compress(DATA))
    raw[-6] ^= 0xFF
    with pytest.raises(InputError, match="can't unpack gzip data"):
        decompress("x.jsonl.gz", bytes(raw))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5))
def test_messages_behind_lengths_are_cut_apart(messages: list[bytes]) -> None:
    """Any messages, whatever their bytes."""
    assert split_messages(prefixed(*messages)) == messages


@pytest.mark.parametrize("signal", list(Signal))
def test_one_message_is_not_cut(signal: Signal) -> None:
    """What begins as an OTLP message does is one message; so are a few bytes, and none."""
    wire = otlp(signal).SerializeToString()
    assert split_messages(wire) == [wire]
    assert split_messages(wire[:3]) == [wire[:3]]
    assert split_messages(b"") == [b""]


def test_a_collector_that_died_while_writing_costs_one_message() -> None:
    """The messages before a last one that was cut short are read."""
    wire = otlp(Signal.TRACES).SerializeToString()
    assert split_messages(prefixed(wire, wire, wire)[:-5])[:2] == [wire, wire]


def test_an_empty_message_between_others_is_nothing() -> None:
    """An export request without records has no bytes."""
    wire = otlp(Signal.LOGS).SerializeToString()
    assert [message for message in split_messages(prefixed(wire, b"", wire)) if message] == [wire, wire]


@pytest.mark.parametrize(("name", "form"), [("x.csv", "csv"), ("x.jsonl", "json_lines"), ("x.parquet", "parquet")])
def test_a_generic_file_of_no_known_signal_is_refused(name: str, form: str) -> None:
    """The words say what can't be told, and what to do."""
    with pytest.raises(InputError) as caught:
        read(name, b"")
    assert caught.value.message == f"can't detect whether this {form} file has logs, metrics or traces"
    assert caught.value.hint == "pass --signal, or use the word in the name of the file or its folder"


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff", b"plain text\n"])
def test_a_protobuf_file_that_fits_no_signal_is_refused(data: bytes) -> None:
    """With the hint to say the signal."""
    with pytest.raises(InputError, match="this protobuf file has logs, metrics or traces") as caught:
        read("x.binpb", data)
    assert caught.value.hint == "pass --signal"


def test_otlp_json_of_no_known_signal_is_refused() -> None:
    """Only where the user says that it is OTLP JSON can this happen."""
    with pytest.raises(InputError, match="this OTLP JSON file has"):
        read("x.json", b"{}", ReadOptions(format=Format.OTLP_JSON))


def test_the_content_of_json_counts_more_than_the_path() -> None:
    """A folder called traces may hold a file of logs."""
    assert read("traces/x.json", json_text(Signal.LOGS, otlp(Signal.LOGS))).signal is Signal.LOGS


def test_json_that_is_not_otlp_is_read_as_generic_lines() -> None:
    """Whatever its ending; and OTLP in a .jsonl file is OTLP."""
    found = read("logs.json", lines({"message": "a"}))
    assert (found.format, [row["message"] for row in rows(found)]) == (Format.JSON_LINES, ["a"])


def test_a_bad_line_of_otlp_json_is_placed() -> None:
    """The index says which line each message came from, so that later rejections name the right one."""
    good = json_text(Signal.LOGS, otlp(Signal.LOGS))
    found = read("x.jsonl", b"\n".join([good, b'{"resourceLogs": 5}', good]))
    assert found.index == (0, 2)
    assert [(bad.reason, bad.message) for bad in found.rejected] == [("malformed_message", 1)]


def test_lines_of_another_signal_are_not_dropped() -> None:
    """A collector with one file exporter in three pipelines writes all signals to one file."""
    mixed = b"\n".join(json_text(signal, otlp(signal)) for signal in Signal)
    found = read_messages("all.jsonl", mixed, ReadOptions(), FIELDS)
    assert {messages.signal: len(messages.messages) for messages in found} == dict.fromkeys(Signal, 1)
    assert [messages.index for messages in found] == [(0,), (1,), (2,)]
