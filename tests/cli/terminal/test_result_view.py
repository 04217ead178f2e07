"""Results in a terminal: tables that fit, vertical rows, useful columns first, times in a zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.cli.terminal.cells import CellFormat, find_zone, format_time, shorten_json
from neve.cli.terminal.result_view import ResultView, sort_columns
from neve.errors import QueryError
from neve.model.tables import LOGS, TABLES
from tests.cli.runner import run

if TYPE_CHECKING:
    from collections.abc import Callable

WIDE = pa.table({f"column_{number}": [number * 1000, number] for number in range(20)})
NARROW = pa.table({"service": ["cart", "payment"], "n": [7, 12]})


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Show a table in so many columns, and return the lines."""

    def draw(table: pa.Table, width: int = 80, **settings: object) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        ResultView(**settings).show(table.to_reader())  # type: ignore[arg-type]
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return draw


def test_columns_that_fit_are_a_table(show: Callable[..., list[str]]) -> None:
    """With numbers on the right."""
    assert show(NARROW) == ["service   n", "cart      7", "payment  12"]


def test_columns_that_do_not_fit_are_rows_below_each_other(show: Callable[..., list[str]]) -> None:
    """No line is longer than the terminal; in a wider one the same columns are a table."""
    lines = show(WIDE)
    assert lines[0].startswith("── row 1 ─")
    assert lines[1:3] == ["column_0   0", "column_1   1000"]
    assert sum(line.startswith("── row") for line in lines) == 2
    assert max(map(len, lines)) <= 80
    assert show(WIDE, 240)[0].split() == WIDE.column_names


def test_the_form_can_be_chosen(show: Callable[..., list[str]]) -> None:
    """Vertical rows of few columns, and a table of many, which is as wide as it must be."""
    assert show(NARROW, vertical="on")[1:3] == ["service  cart", "n        7"]
    assert show(WIDE, vertical="off")[0].split() == WIDE.column_names


def test_text_is_folded_and_ids_and_times_are_not(show: Callable[..., list[str]]) -> None:
    """A long message takes the rest of the line, and more lines."""
    message = "connection pool exhausted after 30 s; " * 4
    table = pa.table({"at": [datetime(2026, 1, 31, tzinfo=UTC)], "id": [b"\xab" * 8], "message": [message]})
    lines = show(table)
    assert lines[1].startswith(f"2026-01-31 00:00:00  {'ab' * 8}  connection pool")
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80


def test_a_single_column_is_never_vertical(show: Callable[..., list[str]]) -> None:
    """However long its text is."""
    lines = show(pa.table({"text": ["x" * 200]}))
    assert lines == ["text", "x" * 80, "x" * 80, "x" * 40]


def whole_table(rows: int = 1) -> pa.Table:
    """All columns of logs, as `SELECT *` gives them; most are empty."""
    columns = {column.name: pa.nulls(rows, column.type) for column in LOGS.columns}
    columns |= {
        "organization_id": pa.array(["acme"] * rows),
        "message": pa.array(["a message"] * rows),
        "timestamp": pa.array([datetime(2026, 1, 31, tzinfo=UTC)] * rows, pa.timestamp("us", "UTC")),
        "scope_name": pa.array(["s"] * rows),
        "attributes": pa.array([[]] * rows, pa.map_(pa.string(), pa.string())),
    }
    return pa.table(columns)


def test_a_whole_table_begins_with_the_useful_columns(
    show: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Empty ones are left out unless all are wanted, and a note says so."""
    table = whole_table()
    assert show(table)[0].split() == ["timestamp", "message", "scope_name", "organization_id"]
    ResultView().show(table.to_reader())
    empty = len(LOGS.columns) - 4
    assert f"{empty} empty columns not shown" in capsys.readouterr().err
    full = show(table, full=True)
    names = [line.split()[0] for line in full[1:]]
    assert names[:4] == ["timestamp", "service_name", "severity_text", "message"]
    assert names[-3:] == ["organization_id", "record_id", "ingested_at"]
    assert len(names) == len(LOGS.columns)


def test_other_results_keep_their_order(show: Callable[..., list[str]]) -> None:
    """The order that a statement names is meant; and empty columns are shown."""
    table = pa.table({"organization_id": ["a"], "message": pa.nulls(1, pa.string()), "timestamp": ["t"]})
    assert show(table)[0].split() == ["organization_id", "message", "timestamp"]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_column_is_lost_by_the_order(table: object) -> None:
    """Of any table."""
    names = [column.name for column in table.columns]  # type: ignore[attr-defined]
    assert sorted(sort_columns(names)) == list(range(len(names)))


def test_formats_for_programs_keep_the_order_of_the_table(config: str) -> None:
    """JSON lines and CSV have all columns as they are declared."""
    names = [column.name for column in LOGS.columns]
    assert list(run("-c", config, "query", "SELECT * FROM logs LIMIT 1", "--json").json) == names
    csv = run("-c", config, "query", "SELECT * FROM logs LIMIT 1", "--format", "csv").text
    assert csv.splitlines()[0] == ",".join(f'"{name}"' for name in names)


def test_select_all_can_be_read(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 80 columns: names on the left, in one piece."""
    monkeypatch.setenv("COLUMNS", "80")
    ended = run("-c", config, "query", "SELECT * FROM spans LIMIT 2")
    lines = ended.text.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[1:4]] == ["timestamp", "service_name", "operation_name"]
    assert "empty columns not shown" in ended.errors


def test_times_in_a_zone(config: str) -> None:
    """As an option and as a setting; the option wins."""
    sql = "SELECT TIMESTAMPTZ '2026-07-01 08:00:00+00' AS t, TIMESTAMP '2026-07-01 08:00:00' AS plain"
    shown = run("-c", config, "query", sql, "--tz", "Europe/Berlin").text.splitlines()[1]
    assert shown.split("  ") == ["2026-07-01 10:00:00+02:00", "2026-07-01 08:00:00"]
    assert run("-c", config, "query", sql, "--tz", "Europe/Berlin", "--json").json["t"] == "2026-07-01T08:00:00+00:00"


def test_the_setting_of_the_zone(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for terminals; the option wins over it."""
    monkeypatch.setenv("NEVE_QUERY__TIME_ZONE", "Asia/Tokyo")
    sql = "SELECT TIMESTAMPTZ '2026-07-01 08:00:00+00' AS t"
    assert run("-c", config, "query", sql).text.splitlines()[1] == "2026-07-01 17:00:00+09:00"
    assert run("-c", config, "query", sql, "--tz", "UTC").text.splitlines()[1].strip() == "2026-07-01 08:00:00"


@pytest.mark.parametrize("name", ["Nowhere/City", "../../etc/passwd", "Europe", "", "x" * 300, "/etc/hosts", "a\0b"])
def test_a_zone_that_does_not_exist_is_refused(name: str) -> None:
    """By name, whatever it looks like."""
    with pytest.raises(QueryError, match="the time zone is"):
        find_zone(name)


def test_times_at_the_ends_of_the_calendar_stay() -> None:
    """A zone would move them out of the years that there are."""
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)
    assert format_time(first, "America/New_York") == "0001-01-01 00:00:00"
    assert format_time(last, "Asia/Tokyo") == "9999-12-31 23:00:00"


def test_nested_values_are_shortened(show: Callable[..., list[str]]) -> None:
    """In a table to one line, below each other to a few; not at all if all is wanted."""
    value = {f"key.{number}": f"value {number}" for number in range(100)}
    table = pa.table({"n": [1], "map": pa.array([list(value.items())], pa.map_(pa.string(), pa.string()))})
    assert show(table, 120)[1] == '1  {"key.0": "value 0", "key.1": "value 1", … 98 more}'
    vertical = show(table, vertical="on")
    assert len(vertical) <= 1 + 1 + 6  # folded between words
    assert vertical[-1].endswith("more}")
    assert " ".join(line[5:] for line in show(table, vertical="on", full=True)[2:]).endswith('"key.99": "value 99"}')


@pytest.mark.parametrize("value", [{"a": "b" * 50, "c": [1, 2]}, list(range(40)), [[1] * 40], {"k": {"a": "b" * 60}}])
def test_a_shortened_value_has_its_limit(value: object) -> None:
    """Nested or not, however small."""
    assert [len(shorten_json(value, limit)) <= limit for limit in range(1, 80)] == [True] * 79


def test_what_would_steer_a_terminal_is_escaped_everywhere(show: Callable[..., list[str]]) -> None:
    """In names and values, in both forms; a name has one line."""
    table = pa.table({"na\x1b[2J\nme": ["va\x1blue\x9b"], "other": ["\x07"]})
    for form in ("on", "off"):
        text = "\n".join(show(table, vertical=form))
        assert "\x1b" not in text
        assert "\x9b" not in text
        assert "na\\x1b[2J me" in text


def test_values_are_formatted() -> None:
    """Ids as hex, lists as JSON, nothing as nothing."""
    form = CellFormat()
    assert [form.format_cell(value) for value in (b"\x01\xff", [1, None], None, 0.5)] == [
        "01ff",
        "[1, null]",
        "",
        "0.5",
    ]
