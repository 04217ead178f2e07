"""Long tables in a terminal are shown page by page; all else is printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from neve.cli.terminal.prompt import Prompt
from neve.errors import QueryError
from neve.query.request import Request
from tests.cli.runner import run
from tests.cli.terminals import ROWS, in_terminal

if TYPE_CHECKING:
    from neve.cli.querying.query_target import Answer

NEVE = str(Path(sys.executable).with_name("neve"))
MARKS = "sed s/^/page:/"  # a pager that can be told from the terminal
LONG = "SELECT n FROM range(40) AS r(n) ORDER BY n"
SHORT = "SELECT n FROM range(3) AS r(n) ORDER BY n"
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def printed(rows: int) -> list[str]:
    """What is left of so many lines in a terminal, through the pager."""
    program = f"from neve.cli.output import show_in_pager; show_in_pager(lambda: print(*range({rows}), sep=chr(10)))"
    return in_terminal([sys.executable, "-c", program], PAGER=MARKS)


@pytest.mark.parametrize(("rows", "mark"), [(ROWS - 1, ""), (ROWS, "page:"), (500, "page:")])
def test_what_does_not_fit_into_the_terminal_is_paged(rows: int, mark: str) -> None:
    """One line is the prompt's; nothing is lost either way."""
    assert printed(rows) == [f"{mark}{number}" for number in range(rows)]


def test_a_pager_that_is_not_there_hides_nothing() -> None:
    """The text is printed then."""
    program = "from neve.cli.output import show_in_pager; show_in_pager(lambda: print(*range(40), sep=chr(10)))"
    assert in_terminal([sys.executable, "-c", program], PAGER="no-such-pager") == [str(number) for number in range(40)]


@pytest.mark.long
@pytest.mark.parametrize(("options", "mark"), [((), "page:"), (("--no-pager",), "")])
def test_tables_of_queries_are_paged(config: str, tmp_path: Path, options: tuple[str, ...], mark: str) -> None:
    """Long ones, unless that is not wanted; short ones are printed. A statement that fails ends nothing."""
    typed = f"{LONG};\r{SHORT};\rSELECT :y;\r\\d logs\r\\q\r"
    command = [NEVE, "-c", config, "query", *options]
    shown = [STYLES.sub("", line) for line in in_terminal(command, typed, PAGER=MARKS, HOME=str(tmp_path))]
    paged = [line.removeprefix("page:") for line in shown if line.startswith("page:")]
    assert [int(line) for line in paged if line.strip().isdigit()] == (list(range(40)) if mark else [])
    assert sum(line.strip().isdigit() for line in shown) == (3 if mark else 43)
    assert {"40 rows", "3 rows"} <= set(shown)
    assert any("there is no value for the parameter $y" in line for line in shown)
    assert any(line.startswith(f"{mark}severity_number") for line in shown)


def test_output_that_goes_elsewhere_is_not_paged(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a file or another program."""
    monkeypatch.setenv("PAGER", MARKS)
    ended = run("-c", config, "query", LONG)
    assert len(ended.text.splitlines()) == 41
    assert "page:" not in ended.text


class Nobody:
    """Knows no tables."""

    def ask(self, request: Request) -> Answer:
        """Is not asked."""
        raise NotImplementedError

    def names(self) -> dict[str, list[str]]:
        """No tables."""
        return {}


def test_every_statement_at_the_prompt_is_a_question_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the same bounds, each with an id that no other has."""
    monkeypatch.setattr("click.get_app_dir", lambda _name: "history")
    seen: list[Request] = []
    first = Request("", "acme", limit=7)
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text("SELECT 1;\rSELECT\r2;\r\\e SELECT 3\r\\d logs\r\\q\r")
        Prompt(Nobody(), first, lambda request, _told: seen.append(request)).run()
    assert [one.sql for one in seen] == ["SELECT 1", "SELECT\n2", "EXPLAIN SELECT 3", 'DESCRIBE "logs"']
    assert len({first.id, *(one.id for one in seen)}) == 5
    assert {(one.organization, one.limit) for one in seen} == {("acme", 7)}


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("SET TimeZone = 'Europe/Berlin'", "Europe/Berlin"),
        ("set time zone 'Asia/Kolkata';", "Asia/Kolkata"),
        ("SET SESSION timezone TO 'UTC'", "UTC"),
        ("RESET TimeZone", "UTC"),
    ],
)
def test_a_session_of_the_prompt_has_a_time_zone(text: str, zone: str) -> None:
    """Later statements run in it, and times are shown in it."""
    seen: list[Request] = []
    prompt = Prompt(Nobody(), Request("", "acme", time_zone="Asia/Tokyo"), lambda request, _told: seen.append(request))
    prompt._do(text)
    prompt._do("SELECT 1")
    assert [(request.sql, request.time_zone) for request in seen] == [("SELECT 1", zone)]
    assert prompt.view.zone == zone


def test_a_time_zone_and_a_statement_on_one_line() -> None:
    """The zone is set, and the statement runs in it."""
    seen: list[Request] = []
    prompt = Prompt(Nobody(), Request("", "acme"), lambda request, _told: seen.append(request))
    prompt._do("SET TimeZone = 'Asia/Kolkata'; SELECT 1")
    assert [(request.sql, request.time_zone) for request in seen] == [("SELECT 1", "Asia/Kolkata")]
    assert prompt.view.zone == "Asia/Kolkata"


def test_an_unknown_time_zone_is_refused_at_the_prompt() -> None:
    """The session keeps the one before."""
    prompt = Prompt(Nobody(), Request("", "acme"), lambda _request, _told: None)
    with pytest.raises(QueryError, match="the time zone is 'Nowhere'"):
        prompt._do("SET TimeZone = 'Nowhere'")
    assert prompt.request.time_zone == "UTC"
