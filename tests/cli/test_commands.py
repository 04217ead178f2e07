"""`neve init`, `tables` and `doctor`, and how errors are said: without a JVM."""

import json
from pathlib import Path

import pytest

from neve.model.tables import TABLES
from tests.cli.runner import run

NAMES = [table.name for table in TABLES]


@pytest.fixture
def by_variables(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake that only variables describe."""
    monkeypatch.setenv("NEVE_LAKE__WAREHOUSE", str(elsewhere / "w"))
    monkeypatch.setenv("NEVE_CATALOG__PATH", str(elsewhere / "deep" / "c.db"))
    return elsewhere


@pytest.mark.lake
def test_init_makes_the_tables_once(by_variables: Path) -> None:
    """The second run finds them; the files are where the variables say."""
    first, second = run("init"), run("init", "--json")
    assert (first.code, second.code) == (0, 0)
    assert [line.split() for line in first.text.splitlines()[: len(NAMES)]] == [[name, "created"] for name in NAMES]
    assert f"the lake is at file://{by_variables}/w" in first.text
    assert second.json == [{"table": name, "created": False, "changes": []} for name in NAMES]
    assert (by_variables / "deep" / "c.db").exists()
    assert list((by_variables / "w").rglob("*.metadata.json"))


@pytest.mark.lake
def test_the_doctor_says_what_is_wrong_and_exits_with_1(by_variables: Path) -> None:
    """As text and as JSON; after init nothing is wrong, and notes are no errors."""
    ill, ill_json = run("doctor"), run("doctor", "--json")
    assert (ill.code, ill_json.code) == (1, 1)
    assert f"wrong tables         missing: {', '.join(NAMES)}" in ill.text
    assert "-> run `neve init`" in ill.text
    wrong = [finding for finding in ill_json.json if finding["status"] == "wrong"]
    assert wrong == [
        {
            "what": "tables",
            "status": "wrong",
            "detail": f"missing: {', '.join(NAMES)}",
            "remedy": "run `neve init`",
        }
    ]
    run("init")
    well = run("doctor", "--json")
    assert well.code == 0
    assert {finding["status"] for finding in well.json} == {"ok", "note"}


def test_the_doctor_says_that_java_is_too_old(by_variables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy under it."""
    monkeypatch.setenv("JAVA_HOME", str(by_variables))
    ended = run("doctor")
    assert ended.code == 1
    assert f"wrong java           JAVA_HOME is '{by_variables}', but there is no bin/java in it" in ended.text
    assert "-> install a JDK or JRE 17 or later" in ended.text


def test_the_doctor_names_the_configuration_that_is_used(by_variables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a variable names it."""
    path = by_variables / "own.yaml"
    path.write_text("organization: acme\n")
    monkeypatch.setenv("NEVE_CONFIG", str(path))
    [finding] = [finding for finding in run("doctor", "--json").json if finding["what"] == "configuration"]
    assert (finding["status"], finding["detail"]) == ("ok", str(path))


def test_tables_are_listed_with_their_numbers(config: str) -> None:
    """Rows, files, snapshots and times of all organizations, from metadata alone."""
    listed = {table["name"]: table for table in run("-c", config, "tables", "--json").json}
    assert sorted(listed) == sorted(NAMES)
    assert {name: listed[name]["rows"] for name in ("spans", "logs", "metrics", "quarantine")} == {
        "spans": 9,
        "logs": 3,
        "metrics": 1,
        "quarantine": 0,
    }
    assert (listed["logs"]["files"], listed["logs"]["snapshots"]) == (2, 2)
    assert listed["logs"]["earliest"] == listed["logs"]["latest"] == "2025-10-09T08:53:20.123456+00:00"
    assert (listed["quarantine"]["earliest"], listed["quarantine"]["bytes"]) == (None, 0)


def test_tables_are_drawn_for_a_person(config: str) -> None:
    """One line a table, under a header, the three signals first."""
    header, *lines = run("-c", config, "tables").text.splitlines()
    drawn = ["table", "rows", "files", "bytes", "snapshots", "duplicates", "earliest", "latest", "committed"]
    assert header.split() == drawn
    signals = ["logs", "metrics", "spans"]
    assert [line.split()[0] for line in lines] == [*signals, *sorted(set(NAMES) - set(signals))]
    assert "2025-10-09 08:53:20" in next(line for line in lines if line.startswith("logs"))


@pytest.mark.parametrize("command", [["tables"], ["query", "SELECT 1"]])
def test_missing_tables_are_said_with_a_hint(command: list[str]) -> None:
    """As text and as JSON, on standard error, with exit code 1."""
    text, as_json = run(*command), run(*command, "--json")
    assert (text.code, text.data) == (as_json.code, as_json.data) == (1, b"")
    assert text.errors == "error: the lake has no tables\nhint: run `neve init`\n"
    assert json.loads(as_json.errors) == {"error": "the lake has no tables", "hint": "run `neve init`"}


@pytest.mark.parametrize("command", ["init", "tables", "doctor"])
def test_a_bad_configuration_is_said_by_every_command(command: str) -> None:
    """Before anything is done."""
    Path("bad.yaml").write_text("lake: {warehose: x}\n")
    ended = run("-c", "bad.yaml", command, "--json")
    assert (ended.code, ended.data) == (1, b"")
    assert json.loads(ended.errors) == {
        "error": "bad.yaml: lake.warehose: unknown key 'warehose', did you mean 'warehouse'?",
        "hint": None,
    }
    assert not Path("lake").exists()


def test_a_configuration_that_is_not_there_is_said() -> None:
    """The file is named."""
    ended = run("--config", "gone.yaml", "tables")
    assert (ended.code, ended.errors) == (1, "error: the configuration file gone.yaml does not exist\n")


def test_a_path_that_is_not_there_is_said_before_spark_starts(by_variables: Path) -> None:
    """`neve ingest files` looks for the files first."""
    ended = run("ingest", "files", str(by_variables / "gone.json"))
    assert (ended.code, ended.errors) == (1, f"error: {by_variables}/gone.json does not exist\n")


def test_a_catalog_that_cannot_be_opened_is_said(elsewhere: Path) -> None:
    """Which one, why, and who can tell more."""
    (elsewhere / "lake").mkdir()
    (elsewhere / "lake" / "catalog.db").write_bytes(b"this is no database" * 100)
    ended = run("tables")
    assert ended.code == 1
    assert ended.errors.startswith("error: can't open the sqlite catalog 'neve': ")
    assert "hint: run `neve doctor` to see what is reachable" in ended.errors


@pytest.mark.parametrize(("name", "code"), [("logs.jsonl", 0), ("logs.csv", 1), ("notes.md", 3)])
def test_a_dry_run_shows_files_and_its_exit_code(by_variables: Path, name: str, code: int) -> None:
    """`neve ingest files --dry-run` needs no tables and no Spark."""
    content = {
        "logs.jsonl": '{"Timestamp": "2025-01-01T00:00:00Z", "Body": "hello", "SeverityText": "warn"}',
        "logs.csv": "when,what\n1,2\n",
        "notes.md": "hello",
    }
    folder = by_variables / "in"
    folder.mkdir()
    (folder / name).write_text(content[name])
    ended = run("ingest", "files", str(folder), "--dry-run")
    assert ended.code == code
    words = {0: "message     from Body", 1: "among its fields what, when", 3: "nothing would be ingested"}
    assert words[code] in ended.text
    said = run("ingest", "files", str(folder), "--dry-run", "--json").json
    assert (len(said["files"]), len(said["ignored"])) == ((0, 1) if code == 3 else (1, 0))


def test_a_lake_that_cannot_be_created_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the path, the setting and the reason."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NEVE_CATALOG__PATH", str(tmp_path / "file" / "lake" / "catalog.db"))
    ended = run("init")
    assert (ended.code, ended.data) == (1, b"")
    assert "catalog.db (catalog.path): Not a directory\nhint: run `neve init` in a folder that you may" in ended.errors
    monkeypatch.delenv("NEVE_CATALOG__PATH")
    monkeypatch.setenv("NEVE_LAKE__WAREHOUSE", "/proc/nothing")
    assert "can't create /proc/nothing (lake.warehouse): " in run("init").errors
