"""Flat files are read in whole columns, with the result of the way that takes any shape."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.ingest.config import FieldsConfig
from neve.ingest.files import generic_records
from neve.ingest.files.flat_records import FlatRecords, merge_orders
from neve.ingest.files.formats import Format
from neve.ingest.files.generic_records import GenericMessages, GenericReader
from neve.ingest.files.json_documents import read_documents
from neve.ingest.files.sql_values import NO_IDS, is_no_id, normal_id
from neve.model.signals import Signal
from tests.ingest.samples import SPAN, TRACE

pytestmark = pytest.mark.slow

IDS = (TRACE, TRACE.upper(), SPAN, "0" * 32, "0" * 16, "-", "", " none ", "NULL", "root", "req-17", TRACE[:8], 5, None)
TIMES = (
    *("2025-01-01T00:00:00.123456789Z", "2025-01-01 02:00:00+02:00", "12:30:00", "yesterday", "", None, True),
    *(1735689600, 1735689600.5, "1735689600123", 10**30, -1, "2025-01-01"),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(["[1, 2]", '{"a": 1}', "[[[", "null", "1.50", "\t"]),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 3), max_size=2),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "time": st.sampled_from(TIMES),
    "timestamp": st.sampled_from(TIMES),
    "date": st.sampled_from(["2025-01-01", "2025/1/1", "x", None]),
    "level": st.sampled_from(["INFO", "warn", 17, None, {"a": 1}]),
    "message": SCALARS,
    "msg": SCALARS,
    "service": st.sampled_from(["cart", "Cart", "ä", "", None, 5]),
    "trace_id": st.sampled_from(IDS),
    "span_id": st.sampled_from(IDS),
    "name": SCALARS,
    "start": st.sampled_from(TIMES),
    "end": st.sampled_from(TIMES),
    "duration_ms": st.sampled_from([1, 2.5, "3", "x", None]),
    "value": st.sampled_from([1, 2.5, "3", "x", None, 10**25]),
    "unit": st.sampled_from(["1", None]),
    "attributes": st.sampled_from([{"a": 1}, '{"a": 2}', "text", None]),
    "user.name": SCALARS,
    "http-status": SCALARS,
    "a b": SCALARS,
    'quoted "key"': SCALARS,
    "ключ": SCALARS,
    "": SCALARS,
}
RECORDS = st.lists(
    st.lists(st.sampled_from(sorted(FIELDS)), unique=True, max_size=9).flatmap(
        lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in names})
    ),
    max_size=8,
)
PLAIN = sorted(FIELDS.keys() - {"attributes", 'quoted "key"', "ключ", ""})
SAME_KEYS = st.lists(st.sampled_from(PLAIN), unique=True, min_size=1, max_size=9).flatmap(
    lambda names: st.lists(st.fixed_dictionaries({name: FIELDS[name] for name in names}), max_size=8)
)
LINES = st.sampled_from([b"", b"  ", b"\r", b"not json", b"[1]", b'{"a": 1, "a": 2}', b'{"message": "\xff"}', b"{}"])


def read(signal: Signal, form: Format, data: bytes) -> GenericMessages | str:
    """Return the messages of a file, or the error."""
    try:
        return GenericReader(signal, FieldsConfig()).read(form, data)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def assert_same(signal: Signal, form: Format, data: bytes) -> bool:
    """Both ways give the same messages, refusals and names; return whether the file was flat."""
    ways: list[bool] = []
    original = generic_records._read_flat

    def look(*arguments: Any) -> FlatRecords | None:
        records = original(*arguments)
        ways.append(records is not None)
        return records

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generic_records, "_read_flat", look)
        found = read(signal, form, data)
        patch.setattr(generic_records, "_read_flat", lambda *_arguments: None)
        expected = read(signal, form, data)
    assert found == expected
    return any(ways)


def read_line_by_line(data: bytes) -> tuple[list[tuple[int, str]], list[tuple[int, bytes]]]:
    """Return the documents of lines and the refused lines, with Python's reader of JSON."""
    good, bad = [], []
    for at, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        text = line.decode(errors="replace")
        try:
            pairs = json.loads(text, object_pairs_hook=list) if text.lstrip().startswith("{") else None
        except ValueError:
            pairs = None
        is_good = pairs is not None and len({key for key, _value in pairs}) == len(pairs)
        if is_good:
            good.append((at, text))
        else:
            bad.append((at, line))
    return good, bad


@settings(max_examples=300, deadline=None)
@given(
    lines=st.lists(
        st.one_of(
            LINES,
            st.sampled_from([b"\x0b\x0c \t", b'\x0b{"a": 1}', b'{"a": 1}\r', b"\xff\xfe", b'{"a": {"b": 1, "b": 2}}']),
            SAME_KEYS.map(lambda records: json.dumps(records[0]).encode() if records else b""),
        ),
        max_size=7,
    )
)
def test_lines_are_split_as_python_splits_them(lines: list[bytes]) -> None:
    """Positions, texts and the bytes of refused lines are those of a reader that takes line by line."""
    data = b'{"first": 1}\n{"second": 2}\n' + b"\n".join(lines)
    found = read_documents(Format.JSON_LINES, data, generic_records.connect())
    good, bad = read_line_by_line(data)
    assert list(zip(found.positions.to_pylist(), found.texts.to_pylist(), strict=True)) == good
    assert [(one.message, one.payload) for one in found.rejected] == bad


def write_csv(records: list[dict[str, Any]]) -> bytes:
    """Return records as CSV."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


@pytest.mark.parametrize("signal", list(Signal))
@settings(max_examples=150, deadline=None)
@given(records=st.one_of(SAME_KEYS, RECORDS), odd=st.lists(LINES, max_size=2), place=st.integers(0, 8))
def test_json_lines_are_read_alike(signal: Signal, records: list[dict[str, Any]], odd: list[bytes], place: int) -> None:
    """Lines of any fields, values and order, with malformed ones between them, give the same messages and refusals."""
    lines = [json.dumps(record).encode() for record in records]
    assert_same(signal, Format.JSON_LINES, b"\n".join([*lines[:place], *odd, *lines[place:]]))


@pytest.mark.parametrize("signal", list(Signal))
@settings(max_examples=80, deadline=None)
@given(records=SAME_KEYS, tail=st.sampled_from([b"", b"a,b,c,d,e,f,g,h,i,j,k\n", b"\n"]))
def test_csv_is_read_alike(signal: Signal, records: list[dict[str, Any]], tail: bytes) -> None:
    """Rows of any texts, with lines of too many columns, give the same messages and refusals."""
    assert_same(signal, Format.CSV, write_csv(records) + tail)


def test_common_files_are_flat() -> None:
    """Lines with optional fields and nested attributes, and CSV, do not need a map for each record."""
    common = {"time": "2025-01-01T00:00:00Z", "level": "info", "message": "m", "service": "cart", "user": 5}
    records = [common, {**common, "tags": ["a"]}, {"time": None, "message": "n", "user": None}]
    assert assert_same(Signal.LOGS, Format.JSON_LINES, "\n".join(map(json.dumps, records)).encode())
    assert assert_same(Signal.LOGS, Format.CSV, write_csv([common, common]))


@pytest.mark.parametrize(
    "record",
    [
        {"message": "m", "attributes": {"a": 1}},
        {"message": "m", "resource": '{"a": 1}'},
        {"message": "m", "_source": {"a": 1}},
        {"message": "m", 'odd "name"': 1},
        {"message": "m", "deep": json.loads("[" * 40 + "]" * 40)},
        {f"field{number}": number for number in range(100)} | {"message": "m"},
    ],
)
def test_other_files_take_the_general_way(record: dict[str, Any]) -> None:
    """Nested attributes, odd names, deep values and very many fields give the same result."""
    assert_same(Signal.LOGS, Format.JSON_LINES, json.dumps(record).encode())


def test_orders_of_keys_are_merged() -> None:
    """The order of each record is kept, and records with contrary orders have none in common."""
    assert merge_orders([("a", "b", "d"), ("a", "c", "d"), ("b", "c")]) == ("a", "b", "c", "d")
    assert merge_orders([("a", "b"), ("b", "c"), ("c", "a")]) is None


OLD_NO_ID = "(trim(text, '0- ') = '' OR lower(trim(text)) IN ('root', 'none', 'null', 'nil'))"


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.sampled_from(list(map(str, IDS))), st.text("0- \u00a0\u2003nNrRoOtTlLuUeE1aA", max_size=8)))
def test_texts_without_an_id_are_recognised(text: str) -> None:
    """One pattern finds what trimming and comparing find, and an id is never one of them."""
    engine = duckdb.connect()
    query = f"SELECT {is_no_id('text')}, {OLD_NO_ID}, {normal_id('text', 16)} FROM (SELECT ?::VARCHAR AS text)"
    [(found, expected, identity)] = engine.execute(query, [text]).fetchall()
    assert found == expected
    assert not (found and identity)
    assert len(NO_IDS) == 4
