"""Bad input costs itself only: lines, rows and whole files that can't be read."""

import pyarrow as pa
import pytest

from neve.errors import InputError
from neve.ingest.files.formats import Format
from neve.ingest.files.reader import Messages, ReadOptions
from neve.model.signals import Signal
from tests.ingest.samples import AT, Row, csv, lines, parquet, read, reasons, rows

BOM = b"\xef\xbb\xbf"


def read_csv(text: bytes) -> Messages:
    """A CSV file of logs."""
    return read("logs.csv", text)


def attributes(found: Messages) -> list[dict[str, str | None]]:
    """The attributes of every row."""
    return [dict(row["attributes"]) for row in rows(found)]


def messages(found: Messages) -> list[str]:
    """The messages of the logs."""
    return [row["message"] for row in rows(found)]


@pytest.mark.parametrize(
    "line", ["not json", "[1, 2]", '"text"', "5", "null", '{"message": "cut', '{"a": 1} {"b": 2}', '{"a": "\\ud800"}']
)
def test_a_line_that_is_no_object_is_refused_alone(line: str) -> None:
    """The lines around it are read, blank lines count, and the line comes back as it was."""
    found = read("logs.jsonl", lines({"message": "a"}, "", line, {"message": "b"}))
    assert messages(found) == ["a", "b"]
    [bad] = found.rejected
    assert (bad.reason, bad.message, bad.payload) == ("malformed_line", 2, line.encode())
    assert bad.detail == "the line is not a JSON object with each key once"


def test_a_line_that_is_nested_too_deep_is_refused_alone() -> None:
    """No protobuf reader would open it; brackets inside of texts are no levels."""
    deep = '{"a": ' + "[" * 40 + "]" * 40 + "}"
    found = read("logs.jsonl", lines({"message": "[" * 90}, deep, {"message": "b", "a": [[[1]]]}))
    assert messages(found) == ["[" * 90, "b"]
    [bad] = found.rejected
    assert (bad.reason, bad.message, bad.payload) == ("malformed_line", 1, deep.encode())
    assert bad.detail == "the record is nested 41 levels deep, expected 31 at most"


def test_windows_lines_are_lines() -> None:
    """A carriage return before the line's end is space."""
    assert messages(read("logs.jsonl", b'{"message": "a"}\r\n\r\n{"message": "b"}\r\n')) == ["a", "b"]


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    """A log line with stray bytes is kept, with marks in their place."""
    assert messages(read("logs.jsonl", b'{"message": "a\xffb"}')) == ["a\N{REPLACEMENT CHARACTER}b"]


def test_a_line_with_a_key_twice_costs_itself_only() -> None:
    """Such JSON is legal if unwise: the other lines of the file must be read."""
    found = read("logs.jsonl", lines('{"message": "odd", "a": 1, "a": 2}', {"message": "ok"}))
    assert "ok" in messages(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        '{"message": "m", "attributes": {"a": 1, "a": 2}}',
        '{"message": "m", "a": 0, "attributes": {"a": 1, "given.a": 2}}',
        '{"message": "m", "resource": {"a": 1, "a": 2}}',
        '{"message": "m", "service": "x", "resource": {"service.name": 1, "given.service.name": 2}}',
    ],
)
@pytest.mark.parametrize("others", [[], [{"message": "ok"}, {"message": "m", "a": 1, "attributes": {"a": 2, "b": 3}}]])
def test_an_object_with_a_key_twice_costs_its_record_only(line: str, others: list[Row]) -> None:
    """Also where the second key is the name that the first one gets."""
    found = read("logs.jsonl", lines(line, *others))
    [bad] = found.rejected
    assert (bad.reason, bad.message, bad.payload) == ("malformed_line", 0, line.encode())
    assert bad.detail == "the attributes or the resource of the record have a duplicate key"
    assert attributes(found) == [{}, {"a": "1", "given.a": "2", "b": "3"}][: len(others)]


@pytest.mark.parametrize(("severity", "number"), [("9" * 5000, 0), ("0000000017", 17), ("25", 0), ("17", 17)])
def test_a_severity_with_many_digits_is_no_number(severity: str, number: int) -> None:
    """Its text is kept."""
    [row] = rows(read("logs.jsonl", lines({"severity": severity, "message": "m"})))
    assert (row["severity_text"], row["severity_number"]) == (severity, number)


def test_rows_with_too_many_or_few_columns_are_refused_alone() -> None:
    """Each is given back with its text and the counts."""
    found = read_csv(b"time,message\n2025-01-01,a\n1,2,3\n2025-01-01,b\nalone\n")
    assert messages(found) == ["a", "b"]
    assert [(bad.reason, bad.detail, bad.payload) for bad in found.rejected] == [
        ("malformed_line", "the line has 3 columns, expected 2", b"1,2,3"),
        ("malformed_line", "the line has 1 columns, expected 2", b"alone"),
    ]


def test_positions_in_a_csv_file_count_the_same_things() -> None:
    """Two neighbouring rows that are refused for different reasons have neighbouring positions."""
    found = read_csv(b"time,message\n2025-01-01,a\n1,2,3\nsoon,b\n")
    [(_, bad_time), (_, bad_line)] = reasons(found.rejected)
    assert bad_time - bad_line == 1


def test_quotes_commas_and_line_breaks_are_part_of_a_value() -> None:
    """CSV's own escapes are undone."""
    found = read_csv(b'message,note\n"a, ""b""\nc",x\n')
    assert (messages(found), attributes(found)) == (['a, "b"\nc'], [{"note": "x"}])


def test_values_of_a_csv_file_are_text_as_written() -> None:
    """Leading zeros stay; an empty value is nothing, a quoted empty one is empty text."""
    found = read_csv(b'message,zip,flag,none,empty\nm,00123,true,,""\n')
    assert attributes(found) == [{"zip": "00123", "flag": "true", "empty": ""}]
    assert rows(found)[0]["attribute_types"] == []


def test_a_byte_order_mark_changes_nothing() -> None:
    """Spreadsheets write one before the first column's name."""
    assert attributes(read_csv(BOM + b"zip,message\n00123,m\n")) == [{"zip": "00123"}]


@pytest.mark.parametrize("form", [Format.CSV, Format.PARQUET])
def test_names_that_differ_in_case_are_different_fields(form: Format) -> None:
    """Both keep their names, and the one that means something is found."""
    table = pa.table({"Time": ["noon"], "time": [str(AT)]})
    found = read("x", csv(table) if form is Format.CSV else parquet(table), ReadOptions(Signal.LOGS, form))
    assert [row["time_unix_nano"] for row in rows(found)] == [AT]
    assert attributes(found) == [{"Time": "noon"}]


@pytest.mark.parametrize("form", [Format.CSV, Format.PARQUET])
def test_a_column_may_be_called_given(form: Format) -> None:
    """No name of a user's column collides with a name of ours."""
    table = pa.table({"given": ["x"], "message": ["m"]})
    found = read("x", csv(table) if form is Format.CSV else parquet(table), ReadOptions(Signal.LOGS, form))
    assert attributes(found) == [{"given": "x"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "not a CSV file with a header"),
        (b"a,a\n1,2\n", "must name each column once, got ['a', 'a']"),
        (b"a,,b\n1,2,3\n", "must name each column once, got ['a', '', 'b']"),
        (b"message\n\xff\xfe\n", "not a CSV file in UTF-8"),
        (b"message,\x97\n1,2\n", "not a CSV file in UTF-8"),
        (b"a,b\n1,2\n\xff,3,4\n", "not a CSV file in UTF-8"),
        (b"a\rb,c\n1,2\n", "not a CSV file with a header"),
    ],
)
def test_a_csv_file_that_cannot_be_read_as_a_whole(text: bytes, words: str) -> None:
    """It is refused in words."""
    with pytest.raises(InputError) as caught:
        read_csv(text)
    assert words in caught.value.message


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1 nothing of the kind PAR1", parquet({"a": [1]})[:-9]])
def test_an_unreadable_parquet_file(data: bytes) -> None:
    """Garbage, or a file that was cut short, is refused in words."""
    with pytest.raises(InputError, match="not a Parquet file: "):
        read("logs.parquet", data)


def test_parquet_columns_keep_their_types() -> None:
    """Numbers, lists, structs and maps become typed attributes; nulls become nothing."""
    entries = pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string()))
    table = {"message": ["m"], "i": [2**62], "d": [0.5], "b": [False], "list": [[1, 2]], "struct": [{"x": "y"}]}
    table |= {"labels": entries, "day": pa.array([0], pa.date32()), "none": pa.nulls(1, pa.string())}
    [row] = rows(read("logs.parquet", parquet(table)))
    said = {"i": str(2**62), "d": "0.5", "b": "false", "list": "[1,2]", "struct": '{"x":"y"}', "day": "1970-01-01"}
    assert dict(row["attributes"]) == said | {"k": "v"}
    assert dict(row["attribute_types"]) == {"i": "int", "d": "double", "b": "bool", "list": "array", "struct": "map"}


def test_a_parquet_map_with_a_key_twice_costs_no_more_than_itself() -> None:
    """The rows around it are read, or the file is refused in words."""
    entries = pa.array([[("k", "v"), ("k", "w")], []], pa.map_(pa.string(), pa.string()))
    try:
        found: list[Row] = rows(read("logs.parquet", parquet({"message": ["odd", "ok"], "labels": entries})))
    except InputError:
        return
    assert "ok" in [row["message"] for row in found]
