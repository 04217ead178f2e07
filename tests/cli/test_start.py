"""`neve` answers at once, and says what is wrong with a command line."""

import errno
import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout

import click
import pytest

from neve import __version__
from neve.cli.main import main, neve
from tests.cli.runner import run

HEAVY = ("pyspark", "pyiceberg", "pyarrow", "pydantic", "duckdb", "numpy", "pandas", "yaml", "rich")
COMMANDS = (  # in the order of their sections
    *("demo", "up", "init", "doctor", "setup", "completion", "help"),
    *("ingest", "otap", "serve"),
    *("query", "logs", "trace", "map", "tables"),
    *("rules", "tail", "reservoir"),
    *("compact", "maintain", "rollup", "search", "series", "traces", "autopilot"),
    *("status", "top", "plan", "jobs", "policies", "size"),
    *("keys", "audit", "erase", "backup", "restore"),
)
ASK = f"""
import sys
sys.argv = ["neve", *sys.argv[1:]]
from neve.cli.main import main
try:
    main()
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
    print(len(sys.modules), file=sys.stderr)
"""
MOST_MODULES = 300  # about 200 are loaded, two thirds of them by Click and the standard library


@pytest.mark.parametrize("arguments", [["--help"], ["query", "--help"], ["ingest", "files", "-h"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """Neither engines nor the configuration are loaded to print a page of text, nor many modules at all."""
    ended = subprocess.run([sys.executable, "-c", ASK, *arguments], capture_output=True, text=True, check=True)
    heavy, modules = ended.stderr.splitlines()
    assert heavy == "[]"
    assert int(modules) < MOST_MODULES
    assert "neve" in ended.stdout


ENGINES = (
    "pandas",
    "sqlalchemy",
    "pyspark",
    "lark",
    "grpc",
    "opentelemetry",
    "urllib3",
    "prompt_toolkit",
    "matplotlib",
    "structlog",
)
READERS = (*ENGINES, "sqlglot", "fsspec")
TABLE_READERS = ("pyiceberg.table", "pyarrow", "numpy", "duckdb")
TABLE_WRITERS = ("pyiceberg.table", "pyiceberg.catalog", "pyiceberg.io.pyarrow", "pyarrow.parquet", "pyarrow.compute")
UNUSED_BY_QUERIES = (
    "prometheus_client",
    "sqlglot.dialects.spark",
    "neve.lake.spark.session",
    "neve.query.engine.worker_pool",
    "neve.rollup.definition",
    "neve.search.lookup",
)
DEFERRED = ("strictyaml.parser", "rich.console")
COUNT = "SELECT count(*) FROM logs"
# What commands must not import, and the largest number of modules, about a tenth above today's.
LIGHT = [
    (["tables"], 330, (*READERS, *TABLE_READERS, "rich.console")),
    (["jobs", "list"], 350, (*READERS, *TABLE_READERS, "prometheus_client")),
    (["plan"], 410, (*READERS, *TABLE_READERS)),
    (["status"], 450, (*READERS, *TABLE_READERS, "prometheus_client")),
    (["doctor"], 510, (*READERS, *TABLE_WRITERS, *DEFERRED)),
    (["compact", "status"], 470, (*READERS, *TABLE_WRITERS, *DEFERRED, "pyarrow", "numpy", "prometheus_client")),
    (["compact", "plan", "logs"], 510, (*READERS, *TABLE_WRITERS, *DEFERRED, "pyarrow", "numpy")),
    (["query", COUNT], 650, (*ENGINES, *TABLE_WRITERS, *UNUSED_BY_QUERIES, *DEFERRED)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "most", "unwanted"), LIGHT, ids=lambda value: str(value)[:30])
def test_commands_import_only_what_they_need(
    config: str, arguments: list[str], most: int, unwanted: tuple[str, ...]
) -> None:
    """Imports are most of the CPU time of a short command: see `make bench BENCH=start`."""
    listed = f"[name for name in {unwanted!r} if name in sys.modules]"
    script = ASK.replace(f"[name for name in {HEAVY!r} if name in sys.modules]", listed)
    command = [sys.executable, "-c", script, "-c", config, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # the doctor finds problems here
    *_notes, heavy, modules = ended.stderr.splitlines()
    assert ended.stdout
    assert heavy == "[]"
    assert int(modules) < most


def test_every_command_is_listed_and_explained() -> None:
    """The page names each command with a line about it, and the way to the settings."""
    page = run("--help")
    assert page.code == 0
    assert tuple(neve.commands) == COMMANDS
    for command in COMMANDS:
        assert f"  {command} " in page.text
    assert "NEVE_SPARK__MASTER" in page.text


def list_groups(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    """Yield every group of commands with the words that name it, `neve` first."""
    yield words, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from list_groups(command, (*words, name))


GROUPS = dict(list_groups(neve))


@pytest.mark.parametrize("words", list(GROUPS), ids=" ".join)
def test_a_list_of_commands_fits_a_narrow_terminal(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command has one line, which is not cut off."""
    monkeypatch.setenv("COLUMNS", "80")
    commands = GROUPS[words].commands
    lines = run(*words, "--help").text.splitlines()
    described = [line for line in lines if line.startswith("  ") and line.split()[0] in commands]
    assert len(described) == len(commands)
    assert [line for line in described if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    """With its options."""
    page = run(command, "--help")
    assert (page.code, page.errors) == (0, "")
    assert "--help" in page.text


def test_the_version_is_said() -> None:
    """Name and number."""
    assert run("--version").text == f"neve, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--version"], 0), (["nothing"], 2), (["-c", "none.yaml", "tables"], 1)]
)
def test_the_program_ends_at_once_with_its_code(arguments: list[str], code: int) -> None:
    """After the handlers that were registered later, and with its whole output in a pipe."""
    script = "import atexit; from neve.cli.main import neve, run; atexit.register(print, 'never')\n"
    script += "neve.callback = lambda **_: atexit.register(print, 'handled')\n" if code == 1 else ""
    ended = subprocess.run(
        [sys.executable, "-c", script + "run()", *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == code
    assert "never" not in ended.stdout  # what frees memory at the end is skipped
    assert ("handled" in ended.stdout) == (code == 1)
    assert ended.stdout or ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["query"], "Missing argument 'SQL'"),
        (["query", "x", "--format", "xml"], "'xml' is not one of"),
        (["ingest", "files"], "Missing argument 'PATH…'"),
        (["tables", "--nothing"], "No such option '--nothing'"),
    ],
)
def test_a_wrong_command_line_is_said(arguments: list[str], words: str) -> None:
    """On standard error, with exit code 2."""
    ended = run(*arguments)
    assert (ended.code, ended.data) == (2, b"")
    assert words in ended.errors


class _Closed(io.StringIO):
    """The output of a command whose reader has gone."""

    def write(self, _text: str) -> int:
        """Nobody reads."""
        raise BrokenPipeError(errno.EPIPE, "broken pipe")


def test_a_reader_that_goes_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """`neve query … | head` ends well."""
    monkeypatch.setattr(sys, "argv", ["neve", "--version"])
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with redirect_stdout(_Closed()), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
