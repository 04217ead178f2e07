"""Many malformed records cost a little each, and bytes that harm the reader are kept from it."""

import random
import subprocess
import sys
import time
from collections import Counter

import pyarrow as pa
import pytest

from neve.model.signals import Signal
from neve.otlp import Decoded, Intake, decode, validation
from neve.otlp.protobuf import FEW, RECORDS, SAFE_BYTES, find_malformed, parse_messages
from tests.receive.doubles import NOW, field, span

INTAKE = Intake(organization_id="acme", received_unix_nano=NOW)
GOOD = span().SerializeToString()
BAD = b"\xff"
SPAN = RECORDS[Signal.TRACES]
# A length of nearly 2**64: its sum with a position is a small number.
ENDLESS = b"\x0a" + b"\xff" * 9 + b"\x01" + bytes(20)


def traces(*spans: bytes, resource: bytes = b"") -> bytes:
    """A message of spans that are bytes."""
    return field(1, field(1, resource) + field(2, b"".join(field(2, one) for one in spans)))


def decode_traces(*spans: bytes, resource: bytes = b"") -> Decoded:
    """Decode a message of such spans."""
    return decode(Signal.TRACES, [traces(*spans, resource=resource)], INTAKE)


@pytest.mark.parametrize("bad", [1, FEW, FEW + 1, 3000])
def test_few_and_many_are_found(bad: int) -> None:
    """By halving or one by one: exactly the malformed ones."""
    wires = [BAD] * bad + [GOOD] * 3000
    random.Random(bad).shuffle(wires)
    found = find_malformed(SPAN, pa.array(wires, pa.binary()))
    assert sorted(found) == [place for place, wire in enumerate(wires) if wire == BAD]
    assert all(found.values())


def test_what_only_the_reader_refuses_is_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should protobuf's own reader accept something more, each value is tried."""
    monkeypatch.setattr("neve.otlp.protobuf.find_refused", lambda *_: {})
    wires = [BAD, GOOD] * (FEW + 1)
    assert sorted(find_malformed(SPAN, pa.array(wires, pa.binary()))) == list(range(0, len(wires), 2))


@pytest.mark.slow
def test_a_message_of_malformed_records_takes_seconds() -> None:
    """Measured: 1 s for 200,000. Every one is refused with its reason and its bytes."""
    count = 20_000
    started = time.process_time()
    decoded = decode_traces(*[BAD] * count, GOOD)
    assert time.process_time() - started < 10
    assert decoded.batch.num_rows == 1
    assert Counter(bad.reason for bad in decoded.rejected) == {"malformed_record": count}
    assert decode(Signal.TRACES, [decoded.rejected[-1].payload], INTAKE).rejected[0].payload == traces(BAD)


@pytest.mark.slow
def test_a_metric_of_refused_points_takes_seconds() -> None:
    """Each comes back in a metric of its own, which is not read anew for each."""
    points = field(1, b"") * 20_000
    started = time.process_time()
    message = field(1, field(2, field(2, field(1, b"name") + field(5, points))))
    decoded = decode(Signal.METRICS, [message], INTAKE)
    assert time.process_time() - started < 10
    assert Counter(bad.reason for bad in decoded.rejected) == {"missing_time": 20_000}


def test_a_large_resource_is_not_repeated_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many bytes records are refused without theirs, and that is said."""
    monkeypatch.setattr(validation, "MAX_BYTES", 10_000)
    resource = field(1, field(1, b"k") + field(2, field(1, b"v" * 3000)))
    decoded = decode_traces(*[BAD] * 100, resource=resource)
    assert len(decoded.rejected) == 100
    kept = [bad for bad in decoded.rejected if bad.payload]
    assert len(kept) == 3
    assert "its bytes are omitted" in decoded.rejected[-1].detail
    assert "left out" not in kept[0].detail


def test_a_large_metric_is_not_repeated_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is what the points of a metric share."""
    monkeypatch.setattr(validation, "MAX_BYTES", 10_000)
    metric = field(1, b"name") + field(2, b"d" * 3000) + field(5, field(1, b"") * 100)
    decoded = decode(Signal.METRICS, [field(1, field(2, field(2, metric)))], INTAKE)
    assert [bool(bad.payload) for bad in decoded.rejected] == [True] * 3 + [False] * 97


def test_a_long_id_is_not_repeated_in_words() -> None:
    """The detail shows how it begins; the payload has all of it."""
    [refused] = decode_traces(span(trace_id=b"i" * 10_000).SerializeToString()).rejected
    assert len(refused.detail) < 200
    assert len(refused.payload) > 10_000


def test_a_length_without_end_is_malformed(capfd: pytest.CaptureFixture[str]) -> None:
    """The reader panics on it, which is no `Exception`: the record is refused alone, and the log is not flooded."""
    decoded = decode_traces(GOOD, *[ENDLESS] * 500, GOOD)
    assert decoded.batch.num_rows == 2
    assert Counter(bad.reason for bad in decoded.rejected) == {"malformed_record": 500}
    assert capfd.readouterr().err.count("panicked") <= 3


@pytest.mark.slow
def test_groups_in_groups_do_not_end_the_process() -> None:
    """The reader recurses into groups, which nobody sends, and a million of them would overflow its stack."""
    # In a process of its own: a mistake here would end the tests without a word.
    code = "from tests.otlp.test_many import decode_groups; decode_groups()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert run.stdout.decode().split() == ["malformed_message", "malformed_context"] + ["malformed_record"] * 3


def decode_groups() -> None:
    """Decode messages with groups in every place, and print why they are refused."""
    many, allowed = b"\x13" * 1_000_000, b"\x13" * (SAFE_BYTES - 100)
    for wire in (
        many,
        traces(GOOD, resource=many),
        traces(many),
        traces(GOOD + field(9, many)),
        traces(GOOD + field(9, allowed)),
    ):
        print(*(bad.reason for bad in decode(Signal.TRACES, [wire], INTAKE).rejected))  # noqa: T201


def test_a_long_value_is_parsed_like_a_short_one() -> None:
    """Only its nesting is looked at before."""
    long = span(name="n" * SAFE_BYTES).SerializeToString()
    parsed = parse_messages(SPAN, pa.array([long, BAD, GOOD, None, long[:-1]], pa.binary()))
    assert parsed.index.tolist() == [0, 2, 3]
    assert sorted(parsed.malformed) == [1, 4]
