"""Results as files: times, maps and bytes in each format."""

import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neve.query.output import FORMATS, to_json_value, write_result

MOMENT = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
MAP = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    [
        ("id", pa.binary()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("attributes", MAP),
        ("events", pa.list_(pa.struct([("name", pa.string()), ("attributes", MAP), ("id", pa.binary())]))),
        ("message", pa.string()),
        ("count", pa.int64()),
        ("ratio", pa.float64()),
        ("ok", pa.bool_()),
    ]
)
ROW = {
    "id": b"\x01\xff",
    "at": MOMENT,
    "attributes": [("k", "v"), ("é", None)],
    "events": [{"name": "e", "attributes": [("a", "b")], "id": b"\xab"}],
    "message": 'a "quoted", two-line\ntext',
    "count": 2**62,
    "ratio": 0.1,
    "ok": True,
}
NOTHING: dict[str, Any] = dict.fromkeys(SCHEMA.names)
AS_JSON = ROW | {
    "id": "01ff",
    "at": "2025-01-02T03:04:05.678901+00:00",
    "attributes": {"k": "v", "é": None},
    "events": [{"name": "e", "attributes": {"a": "b"}, "id": "ab"}],
}


def reader(*batches: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatchReader:
    """A result that comes in some batches."""
    return pa.RecordBatchReader.from_batches(
        schema, [pa.RecordBatch.from_pylist(batch, schema=schema) for batch in batches]
    )


def write(form: str, *batches: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> bytes:
    """A result in a format; the count must be right."""
    sink = io.BytesIO()
    assert write_result(reader(*batches, schema=schema), form, sink) == sum(map(len, batches))
    return sink.getvalue()


def one(value: Any, kind: pa.DataType, form: str = "jsonl") -> bytes:
    """A result of one value."""
    return write(form, [{"x": value}], schema=pa.schema([("x", kind)]))


def test_json_lines() -> None:
    """One object a line: bytes as hex, times as RFC 3339, maps as objects, null as null."""
    lines = write("jsonl", [ROW], [NOTHING, ROW]).splitlines()
    assert [json.loads(line) for line in lines] == [AS_JSON, NOTHING, AS_JSON]


def test_csv() -> None:
    """What CSV has no way to say is JSON and hex; quotes and line breaks survive; null is empty."""
    header, row, nothing = csv.reader(io.StringIO(write("csv", [ROW, NOTHING]).decode(), newline=""))
    said = dict(zip(header, row, strict=True))
    assert header == SCHEMA.names
    assert (said["id"], said["message"], said["count"], said["ratio"]) == ("01ff", ROW["message"], str(2**62), "0.1")
    assert datetime.fromisoformat(said["at"]) == MOMENT
    assert json.loads(said["attributes"]) == AS_JSON["attributes"]
    assert json.loads(said["events"]) == AS_JSON["events"]
    assert set(nothing) == {""}


def test_parquet_and_arrow_keep_every_type() -> None:
    """Both give back the very same table."""
    expected = reader([ROW], [NOTHING]).read_all()
    assert pq.read_table(io.BytesIO(write("parquet", [ROW], [NOTHING]))).cast(SCHEMA) == expected
    assert pa.ipc.open_stream(write("arrow", [ROW], [NOTHING])).read_all() == expected


@pytest.mark.parametrize("form", FORMATS[1:])
def test_a_result_without_rows_is_a_file_all_the_same(form: str) -> None:
    """With its header or schema where the format has one."""
    data = write(form)
    if form == "jsonl":
        assert data == b""
    elif form == "csv":
        assert data.decode().strip() == ",".join(f'"{name}"' for name in SCHEMA.names)
    elif form == "parquet":
        assert pq.read_table(io.BytesIO(data)).schema.names == SCHEMA.names
    else:
        assert pa.ipc.open_stream(data).schema == SCHEMA


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, None),
        (True, True),
        (5, 5),
        ("text", "text"),
        (b"", ""),
        ([1, b"\x0a"], [1, "0a"]),
        ([("a", [("b", b"\x01")])], {"a": {"b": "01"}}),
        ({"x": [MOMENT]}, {"x": ["2025-01-02T03:04:05.678901+00:00"]}),
        (MOMENT.date(), "2025-01-02"),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_plain_values(value: Any, said: Any) -> None:
    """What JSON says of each kind of value."""
    assert to_json_value(value) == said


def test_an_empty_map_is_an_object() -> None:
    """The same column must not be an object in one row and a list in the next."""
    assert json.loads(one([], MAP)) == {"x": {}}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_lines_are_json_whatever_the_numbers(value: float) -> None:
    """Metrics have such values, and strict readers refuse the line."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    assert "x" in json.loads(one(value, pa.float64()), parse_constant=refuse)


def test_a_sum_of_integers_is_a_number() -> None:
    """`SELECT sum(count)` gives a decimal without digits after the point."""
    assert json.loads(one(Decimal(42), pa.decimal128(38, 0))) == {"x": 42}


def test_columns_of_the_same_name_are_both_there() -> None:
    """`SELECT a.*, b.*` of a join has such columns."""
    schema = pa.schema([("x", pa.int64()), ("x", pa.int64())])
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], schema=schema)
    sink = io.BytesIO()
    write_result(pa.RecordBatchReader.from_batches(schema, [batch]), "jsonl", sink)
    assert set(json.loads(sink.getvalue()).values()) == {1, 2}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_difference_of_times_can_be_written(form: str) -> None:
    """`SELECT max(timestamp) - min(timestamp)` is an interval."""
    assert one(pa.MonthDayNano([0, 1, 0]), pa.month_day_nano_interval(), form)
