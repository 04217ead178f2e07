"""The forms of an answer: every one of them gives back the same rows, however they are cut."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.api.query.errors import Failure
from neve.api.query.formats import MEDIA_TYPES, build_writer, negotiate_format, split_batch
from neve.api.query.json_values import json_rows
from neve.errors import QueryError
from neve.query.output import to_json_value
from neve.query.request import Statistics

UTC_TIME = pa.timestamp("us", tz="UTC")
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.string(): st.text(),
    pa.large_string(): st.text(),
    pa.binary(): st.binary(),
    pa.binary(4): st.binary(min_size=4, max_size=4),
    UTC_TIME: st.datetimes(timezones=st.just(UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", tz="Etc/UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.timestamp("s"): st.datetimes().map(lambda moment: moment.replace(microsecond=0)),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.decimal128(9, 2): st.integers(-(10**8), 10**8).map(lambda number: Decimal(number).scaleb(-2)),
    pa.map_(pa.string(), pa.string()): st.dictionaries(st.text(), st.text()).map(lambda map_: list(map_.items())),
    pa.map_(pa.string(), pa.float64()): st.dictionaries(st.text(), st.floats()).map(lambda map_: list(map_.items())),
    pa.list_(pa.float64()): st.lists(st.none() | st.floats()),
    pa.struct([("a", pa.binary()), ("b", UTC_TIME)]): st.fixed_dictionaries(
        {"a": st.none() | st.binary(), "b": st.none() | st.datetimes(timezones=st.just(UTC))}
    ),
    pa.null(): st.none(),
}


@st.composite
def results(draw: st.DrawFn) -> pa.Table:
    """A result of some columns and a few rows."""
    kinds = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    rows = draw(st.integers(0, 8))
    columns = [pa.array(draw(st.lists(st.none() | TYPES[kind], min_size=rows, max_size=rows)), kind) for kind in kinds]
    names = draw(st.lists(st.text(max_size=5), min_size=len(kinds), max_size=len(kinds)))
    return pa.table(columns, names=names)


def answer(form: Any, table: pa.Table, piece: int = 1 << 20) -> bytes:
    """A whole answer, made of pieces."""
    writer = build_writer(form)
    out = [writer.begin("id", table.schema)]
    out += [writer.rows(rows) for batch in table.to_batches() for rows in split_batch(batch, piece)]
    return b"".join([*out, writer.end(Statistics(rows=table.num_rows))])


def expected(table: pa.Table) -> list[list[Any]]:
    """The rows as `to_json_value` says them, one value after the other."""
    columns = [[to_json_value(value, column.type) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def strict(text: bytes | str) -> Any:
    """JSON, and nothing that only Python takes for it."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.slow
@given(results(), st.sampled_from([1, 64, 1 << 20]))
def test_json_says_values_as_plain_does(table: pa.Table, piece: int) -> None:
    """As lists in one object; cutting makes no difference."""
    document = strict(answer("json", table, piece))
    assert list(document) == ["id", "columns", "rows", "statistics"]
    assert document["rows"] == expected(table)
    assert [column["name"] for column in document["columns"]] == table.schema.names
    assert document["statistics"]["rows"] == table.num_rows


@pytest.mark.slow
@given(results(), st.sampled_from([1, 64, 1 << 20]))
def test_columns_have_the_same_values(table: pa.Table, piece: int) -> None:
    """As pieces of columns; integers that a browser would round are text."""
    document = strict(answer("columns", table, piece))
    assert list(document) == ["id", "columns", "pieces", "statistics"]
    rows = [list(row) for columns in document["pieces"] for row in zip(*columns, strict=True)]
    assert rows == [[exact_integer(value) for value in row] for row in expected(table)]


def exact_integer(value: Any) -> Any:
    """The text of an integer beyond 2^53."""
    return str(value) if isinstance(value, int) and abs(value) >= 2**53 else value


@pytest.mark.slow
@given(results(), st.sampled_from([1, 64, 1 << 20]))
def test_json_lines_say_the_same(table: pa.Table, piece: int) -> None:
    """An object a line, whatever the columns are called."""
    text = answer("jsonl", table, piece).decode()
    lines = [strict(line) for line in text.split("\n")[:-1]]
    assert [list(line.values()) for line in lines if len(line) == table.num_columns] == [
        row for row, line in zip(expected(table), lines, strict=True) if len(line) == table.num_columns
    ]


@pytest.mark.slow
@given(results(), st.sampled_from([1, 1 << 20]))
def test_arrow_keeps_everything(table: pa.Table, piece: int) -> None:
    """Types and values."""
    back = pa.ipc.open_stream(answer("arrow", table, piece)).read_all()
    assert back.schema == table.schema
    assert repr(back.to_pylist()) == repr(table.to_pylist())


def test_parquet_and_csv_keep_the_rows() -> None:
    """Parquet with its types, CSV as text; of two columns with one name the second gets a number."""
    kinds = [pa.int64(), pa.string(), UTC_TIME, pa.map_(pa.string(), pa.string()), pa.binary(), pa.float64()]
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    values = [1, 'a "b",\n', moment, [("k", "v")], b"\x01\xff", math.nan]
    table = pa.table([pa.array([value, None], kind) for value, kind in zip(values, kinds, strict=True)], list("abcdea"))
    back = pq.read_table(io.BytesIO(answer("parquet", table)))
    assert back.schema.names == ["a", "b", "c", "d", "e", "a_2"]
    assert repr(back.to_pylist()) == repr(table.rename_columns(back.schema.names).to_pylist())
    read = pacsv.read_csv(
        io.BytesIO(answer("csv", table)), parse_options=pacsv.ParseOptions(newlines_in_values=True)
    ).to_pylist()
    assert {**read[0], "a_2": None} == {
        "a": 1,
        "b": 'a "b",\n',
        "c": moment,
        "d": '{"k": "v"}',
        "e": "01ff",
        "a_2": None,
    }


def test_parquet_gathers_small_batches() -> None:
    """A row group for each of a thousand batches would be slow to read."""
    table = pa.concat_tables([pa.table({"a": [number]}) for number in range(1000)])
    data = answer("parquet", table)
    assert pq.ParquetFile(io.BytesIO(data)).num_row_groups == 1
    assert pq.read_table(io.BytesIO(data))["a"].to_pylist() == list(range(1000))


@pytest.mark.parametrize("form", list(MEDIA_TYPES))
def test_a_result_without_rows_is_whole(form: Any) -> None:
    """It has its columns."""
    data = answer(form, pa.table({"a": pa.array([], pa.int64()), "m": pa.array([], pa.map_(pa.string(), pa.string()))}))
    readers: dict[str, Any] = {
        "json": lambda: [column["name"] for column in strict(data)["columns"]],
        "jsonl": lambda: ["a", "m"] if data == b"" else None,
        "csv": lambda: pacsv.read_csv(io.BytesIO(data)).schema.names,
        "parquet": lambda: pq.read_schema(io.BytesIO(data)).names,
        "arrow": lambda: pa.ipc.open_stream(data).schema.names,
        "columns": lambda: [column["name"] for column in strict(data)["columns"]],
    }
    assert readers[form]() == ["a", "m"]


def test_odd_values_are_written_where_they_can_be() -> None:
    """Intervals as text, times far away as they are; a day that no calendar has is said to be one."""
    odd = pa.table(
        {
            "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
            "far": pa.array([2**63 - 1], pa.timestamp("us")),
            "duration": pa.array([timedelta(1)]),
            "day": [date(1, 1, 1)],
            "clock": [time(1)],
        }
    )
    [row] = strict(answer("json", odd))["rows"]
    assert row[1] == "294247-01-10T04:00:54.775807"
    assert pq.read_table(io.BytesIO(answer("parquet", odd)))["interval"].to_pylist() == [row[0]]
    assert b"MonthDayNano" in answer("csv", odd.drop_columns(["duration"]))
    worse = pa.table({"x": pa.array([2**31 - 1], pa.date32())})
    with pytest.raises(QueryError, match="a value of column 'x' can't be written"):
        answer("json", worse)


@given(st.integers(0, 50), st.integers(1, 2000))
def test_slices_are_the_batch(rows: int, piece: int) -> None:
    """In order, none empty, and each within the bound or one row."""
    batch = pa.record_batch({"a": ["x" * (number * 7 % 90) for number in range(rows)]})
    cut = list(split_batch(batch, piece))
    assert [row for one in cut for row in json_rows(one)] == list(json_rows(batch))
    assert all(one.num_rows for one in cut)


def test_an_error_behind_rows_is_said_where_there_is_a_place() -> None:
    """JSON stays JSON; a file that is cut off must not look whole."""
    failure = Failure(422, "limit_exceeded", "too many", limit="rows", hint="fewer")
    told = {"code": "limit_exceeded", "message": "too many", "hint": "fewer", "limit": "rows"}
    batch = pa.record_batch({"a": [1, 2]})
    for form in MEDIA_TYPES:
        writer = build_writer(form)
        before = writer.begin("id", batch.schema) + writer.rows(batch)
        tail = writer.fail(failure)
        if form in ("json", "columns"):
            document = strict(before + (tail or b""))
            assert (document.get("rows", [[1], [2]]), document["error"]) == ([[1], [2]], told)
            assert "statistics" not in document
        elif form == "jsonl":
            assert strict((before + (tail or b"")).splitlines()[-1]) == {"error": told}
        else:
            assert tail is None


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, "json"),
        ("", "json"),
        ("*/*", "json"),
        ("application/*", "json"),
        ("text/*", "csv"),
        ("text/html, text/csv;q=0.1", "csv"),
        ("APPLICATION/VND.APACHE.PARQUET", "parquet"),
        ("application/vnd.apache.arrow.stream, */*;q=0.9", "arrow"),
        ("application/json;q=0, */*", "jsonl"),
        ("application/json; charset=utf-8", "json"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "json"),
    ],
)
def test_the_header_says_the_form(accept: str | None, form: str) -> None:
    """As browsers and programs write it."""
    assert negotiate_format(accept) == form


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "text/csv;q=x", ";", "nonsense"])
def test_a_form_that_there_is_not_is_refused(accept: str) -> None:
    """With those that there are."""
    with pytest.raises(Failure, match=r"expected one of application/json, .*stream") as caught:
        negotiate_format(accept)
    assert (caught.value.status, caught.value.code) == (406, "not_acceptable")
