"""`neve query`: every format, to a file and to standard output, and one organization's rows only."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neve.cli.terminal.cells import CellFormat
from neve.cli.terminal.result_view import ResultView
from tests.cli.runner import run
from tests.query.lakes import ACME, OTHER

LOGS = "SELECT message, timestamp, attributes FROM logs ORDER BY message"
BACKSLASH = "C:\\[x]"
CLOSING = "\\[/x]"
COUNTS = "SELECT organization_id, count(*) AS n FROM logs GROUP BY ALL"


def test_a_table_for_a_person(config: str) -> None:
    """Columns under their names, times to the microsecond, maps as JSON; how many rows stands apart."""
    ended = run("-c", config, "query", LOGS)
    assert ended.code == 0
    header, first, second = ended.text.splitlines()
    assert header.split() == ["message", "timestamp", "attributes"]
    assert [part.strip() for part in first.split("  ") if part.strip()] == [
        "first, with a comma",
        "2025-10-09 08:53:20.123456",
        '{"user": "7"}',
    ]
    assert second.startswith("second ")
    assert ended.errors == "2 rows\n"


@pytest.mark.slow
def test_a_time_zone_before_the_statement(config: str) -> None:
    """Days and times are those of the zone, as in a session of DuckDB."""
    sql = "SELECT hour(timestamp) AS h, timestamp AS t FROM logs ORDER BY t LIMIT 1"
    ended = run("-c", config, "query", f"SET TimeZone = 'Asia/Tokyo'; {sql}")
    assert ended.text.splitlines()[1].split() == ["17", "2025-10-09", "17:53:20.123456+09:00"]
    refused = run("-c", config, "query", "SET TimeZone = 'Nowhere'; SELECT 1")
    assert refused.code == 1
    assert "the time zone is 'Nowhere'" in refused.errors


def test_json_lines(config: str) -> None:
    """One object a row."""
    ended = run("-c", config, "query", LOGS, "--json")
    assert (ended.code, ended.errors) == (0, "")
    assert json.loads(ended.text.splitlines()[0]) == {
        "message": "first, with a comma",
        "timestamp": "2025-10-09T08:53:20.123456+00:00",
        "attributes": {"user": "7"},
    }


def test_csv(config: str) -> None:
    """With a header and quotes where they are needed."""
    ended = run(
        "-c", config, "query", "SELECT message, span_id, severity_number FROM logs ORDER BY 1", "--format", "csv"
    )
    assert ended.text == '"message","span_id","severity_number"\n"first, with a comma",,17\n"second",,17\n'


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (["--since", "30000d"], 2),
        (["--since", "1s"], 0),
        (["--since", "30000d", "--until", "29000d"], 0),
        (["--until", "1h"], 2),
        (["--since", "2025-10-09", "--until", "2025-10-10"], 2),
        (["--since", "2025-10-10"], 0),
    ],
)
def test_a_time_range_bounds_every_table(config: str, bounds: list[str], expected: int) -> None:
    """A duration counts back from now. A range is added to the conditions of the statement."""
    ended = run("-c", config, "query", "SELECT count(*) AS n FROM logs WHERE severity_number = 17", "--json", *bounds)
    assert json.loads(ended.text) == {"n": expected}


@pytest.mark.parametrize(
    ("text", "words"),
    [("yesterday", "expected one like 1h, 7d, 2026-01-31"), ("999999999d", "'999999999d' is too far in the past")],
)
def test_a_wrong_time_is_named(text: str, words: str) -> None:
    """With the forms that are accepted."""
    ended = run("query", "SELECT 1", "--since", text)
    assert ended.code == 2
    assert words in ended.errors


def test_arrow_to_standard_output(config: str) -> None:
    """A stream that any Arrow library reads."""
    ended = run("-c", config, "query", "SELECT trace_id FROM spans ORDER BY 1 LIMIT 1", "--format", "arrow")
    assert pa.ipc.open_stream(ended.data).read_all().to_pylist() == [{"trace_id": b"\x01" * 16}]


def test_parquet_to_a_file(config: str) -> None:
    """The ending says the format; the count goes to standard error, and nothing to standard output."""
    ended = run("-c", config, "query", LOGS, "-o", "out.parquet")
    assert (ended.code, ended.data, ended.errors) == (0, b"", "2 rows in out.parquet\n")
    table = pq.read_table("out.parquet")
    assert table.column("message").to_pylist() == ["first, with a comma", "second"]
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "out.txt"], "out.txt has no known suffix"),
        (["-o", "out.csv", "--format", "table"], "a table is for a terminal"),
        (["--org", "not a name"], "organization is 'not a name', expected 1 to 64 letters"),
    ],
)
def test_options_that_do_not_fit_are_refused(config: str, arguments: list[str], words: str) -> None:
    """In words, and no file is made."""
    ended = run("-c", config, "query", "SELECT 1", *arguments)
    assert (ended.code, ended.data) == (1, b"")
    assert words in ended.errors
    assert list(Path.cwd().glob("out.*")) == []


def test_a_file_that_cannot_be_written_is_said(config: str) -> None:
    """A folder that is not there is what a user can act on."""
    ended = run("-c", config, "query", "SELECT 1 AS x", "-o", "gone/out.csv")
    assert ended.code == 1
    assert "gone/out.csv" in ended.errors


@pytest.mark.parametrize(
    ("option", "seen"),
    [([], {"organization_id": ACME, "n": 2}), (["--org", OTHER], {"organization_id": OTHER, "n": 1})],
)
def test_rows_of_another_organization_are_not_visible(config: str, option: list[str], seen: dict[str, object]) -> None:
    """Without --org the configured organization is asked for; each has its own rows and no others."""
    assert run("-c", config, "query", COUNTS, "--json", *option).json == seen


def test_an_organization_without_rows_gets_none(config: str) -> None:
    """That is an empty result, not an error."""
    ended = run("-c", config, "query", COUNTS, "--json", "--org", "nobody")
    assert (ended.code, ended.data) == (0, b"")


def test_a_bad_statement_is_said(config: str) -> None:
    """As text, and as JSON where JSON was asked for; with exit code 1 and nothing on standard output."""
    text = run("-c", config, "query", "SELECT * FROM log")
    assert (text.code, text.data) == (1, b"")
    assert text.errors.startswith(
        "error: 'log' is not a table of the lake\nhint: did you mean logs? `SHOW TABLES` lists all"
    )
    as_json = json.loads(run("-c", config, "query", "SELECT 1 +", "--json").errors)
    assert as_json["error"].startswith("syntax error near")


def test_a_statement_from_standard_input(config: str) -> None:
    """As in `neve query < file.sql`."""
    ended = run("-c", config, "query", "--json", stdin="SELECT count(*) AS n FROM logs\n")
    assert (ended.code, ended.json) == (0, {"n": 2})


@pytest.mark.slow
def test_options_of_a_question(config: str) -> None:
    """Parameters by name, bounds of time, what would be read, and what it took."""
    by_name = run(
        "-c",
        config,
        "query",
        "--json",
        "SELECT upper(:word) AS w, 1 + :number AS n",
        "-p",
        "word=x y",
        "-p",
        "number=4",
    )
    assert by_name.json == {"w": "X Y", "n": 5}
    assert "--param is 'word', expected NAME=VALUE" in run("-c", config, "query", "SELECT 1", "-p", "word").errors
    early = run("-c", config, "query", "--json", "SELECT count(*) AS n FROM logs", "--until", "2020-01-01")
    assert early.json == {"n": 0}
    explained = run("-c", config, "query", "--explain", "SELECT * FROM logs")
    assert "engine: duckdb" in explained.text
    took = run("-c", config, "query", "--timing", "SELECT count(*) FROM logs")
    assert "duckdb, 1 file of" in took.errors


def test_bounds_of_a_question(config: str) -> None:
    """Rows and seconds; what can't be is refused by name."""
    few = run("-c", config, "query", "--json", "SELECT n FROM range(9) AS r(n)", "--limit", "2", "--fresh", "--partial")
    assert few.text == '{"n": 0}\n{"n": 1}\n'
    long = "SELECT count(*) FROM range(100000000000) AS a, range(1000000) AS b"
    late = run("-c", config, "query", long, "--timeout", "0.3")
    assert (late.code, late.data) == (1, b"")
    assert "the query took longer than 0.3 s" in late.errors
    assert run("-c", config, "query", "SELECT 1", "--limit", "0").code == 2
    assert run("-c", config, "query", "SELECT 1", "--timeout", "0").code == 2


@pytest.mark.parametrize("sql", ["SELECT upper(:w)", "SELECT 1 FROM logs WHERE has_term(message, :w)"])
def test_a_number_where_text_is_expected(config: str, sql: str) -> None:
    """The hint says how text that looks like a number is written, and that works."""
    ended = run("-c", config, "query", sql, "-p", "w=500")
    assert ended.code == 1
    assert """hint: w is not a string: for a string, write -p w='"500"'""" in ended.errors
    assert run("-c", config, "query", sql, "-p", 'w="500"').code == 0


@pytest.mark.slow
def test_what_would_steer_a_terminal_is_shown(config: str) -> None:
    """In tables and in errors; ends of lines stay, and files for programs have what there is."""
    sql = "SELECT chr(27) || '[2J' || chr(155) || chr(13) || 'a' || chr(10) || 'b' AS x"
    shown = run("-c", config, "query", sql).text
    assert [line.strip() for line in shown.splitlines()[1:]] == ["\\x1b[2J\\x9b\\x0da", "b"]
    assert run("-c", config, "query", sql, "--json").json == {"x": "\x1b[2J\x9b\ra\nb"}
    assert b"\x1b[2J" in run("-c", config, "query", sql, "--format", "csv").data
    assert "\x1b[2J" not in run("-c", config, "query", "SELECT CAST(chr(27) || '[2J' AS INTEGER)").errors


def test_a_server_that_is_not_there(config: str) -> None:
    """Is said, with what starts one."""
    ended = run("-c", config, "query", "--server", "http://127.0.0.1:9", "SELECT 1")
    assert ended.code == 1
    assert ended.errors.startswith("error: can't reach http://127.0.0.1:9: ")
    assert "neve serve" in ended.errors


def reader(rows: int) -> pa.RecordBatchReader:
    """A result of numbers, three to a batch."""
    table = pa.table({"n": range(rows)})
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3))


@pytest.mark.parametrize(("rows", "shown", "said"), [(5, 5, "5 rows"), (7, 5, "first 5 rows"), (0, 0, "0 rows")])
def test_a_long_table_is_cut_and_says_so(rows: int, shown: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal gets the first rows, and the words how to get all."""
    ResultView(5).show(reader(rows))
    printed = capsys.readouterr()
    assert [line.strip() for line in printed.out.splitlines()[1:]] == [str(number) for number in range(shown)]
    assert printed.err.startswith(said)


def test_a_table_that_is_cut_between_batches_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Six rows at a limit of three are two batches of three."""
    ResultView(3).show(reader(6))
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1 + 3
    assert printed.err.startswith("first 3 rows")


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, ""), ("text", "text"), (b"\x01\xff", "01ff"), (1.5, "1.5"), (True, "true"), ([("a", "b")], '{"a": "b"}')],
)
def test_cells(value: object, said: str) -> None:
    """One value as a person reads it."""
    assert CellFormat().format_cell(value) == said


@pytest.mark.parametrize("text", ["[red]alarm[/red]", "[/]", "a [b", BACKSLASH, CLOSING])
def test_text_in_brackets_is_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in a row is taken for markup."""
    table = pa.table({"x": [text]})
    ResultView(5).show(table.to_reader())
    assert capsys.readouterr().out.splitlines()[1].strip() == text
