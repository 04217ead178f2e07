"""Commands of the prompt: they change the display of the results that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.cli.terminal.prompt import HELP, Prompt, list_completions
from neve.cli.terminal.result_view import ResultView
from neve.errors import QueryError
from neve.query.request import Request

if TYPE_CHECKING:
    from neve.cli.querying.query_target import Answer

NAMES = {"jobs": ["server", "service_key"], "logs": ["service_name", "message"], "spans": ["service_name", "span_id"]}


class Known:
    """Knows some tables."""

    def ask(self, request: Request) -> Answer:
        """Is not asked."""
        raise NotImplementedError

    def names(self) -> dict[str, list[str]]:
        """The tables."""
        return NAMES


@pytest.fixture
def asked() -> list[str]:
    """Statements that the prompt passed on."""
    return []


@pytest.fixture
def prompt(asked: list[str]) -> Prompt:
    """A prompt without a terminal."""
    return Prompt(
        Known(),
        Request("", "acme"),
        lambda request, _timing: asked.append(request.sql),
        view=ResultView(),
        plot=lambda request: asked.append(f"plot {request.sql}"),
    )


def test_the_form_of_rows(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    """On, off, automatic; anything else is refused and changes nothing."""
    seen = []
    for command in ("\\x", "\\x", "\\x auto", "\\x on", "\\x sideways"):
        prompt._do(command)
        seen.append(prompt.view.vertical)
    assert seen == ["on", "off", "auto", "on", "on"]
    assert "takes on, off or auto" in capsys.readouterr().out


def test_the_zone(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that there is not leaves the zone as it was."""
    prompt._do("\\tz Europe/Berlin")
    with pytest.raises(QueryError, match="the time zone is 'Nowhere'"):
        prompt._do("\\tz Nowhere")
    assert prompt.view.zone == "Europe/Berlin"
    prompt._do("\\tz")
    assert capsys.readouterr().out.splitlines() == ["times are shown in Europe/Berlin"] * 2


def test_full_values_and_timing(prompt: Prompt) -> None:
    """Each is on after the first time and off after the second."""
    seen = []
    for command in ("\\full", "\\full", "\\timing", "\\timing"):
        prompt._do(command)
        seen.append((prompt.view.full, prompt.timing))
    assert seen == [(True, False), (False, False), (False, True), (False, False)]


def test_statements_of_commands(prompt: Prompt, asked: list[str]) -> None:
    """With and without a semicolon; a quote in a name of a table can't end the name."""
    for command in ("\\plot SELECT 1;", "\\e SELECT 2", '\\d lo"gs'):
        prompt._do(command)
    assert asked == ["plot SELECT 1", "EXPLAIN SELECT 2", 'DESCRIBE "logs"']


def test_the_tables_are_listed(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    """With the number of their columns; an unknown command is named, and the help has all that there are."""
    prompt._do("\\d")
    prompt._do("\\nothing")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["jobs", "2", "server,", "service_key"]
    assert lines[-1][0] == "\\nothing"
    assert all(f"\\{name} " in HELP for name in ("d", "e", "plot", "x", "tz", "full", "timing", "q"))


def test_columns_of_the_named_table_are_offered_first() -> None:
    """And without a table, those of spans, logs and metrics."""
    words = list_completions("SELECT ser", NAMES)
    assert words.index("service_name") < words.index("server")
    words = list_completions("SELECT ser FROM jobs", NAMES)
    assert words.index("server") < words.index("service_name")
    assert len(words) == len(set(words))


def test_tables_are_offered_where_one_is_named() -> None:
    """After FROM, JOIN and DESCRIBE, and in a list of tables; elsewhere columns are first."""
    for before in ("SELECT 1 FROM ", "select 1 from logs, jo", "SELECT 1 FROM logs JOIN j", "DESCRIBE ", "\\d l"):
        assert list_completions(before, NAMES, before)[0] in NAMES
    for before in ("SELECT ser", "SELECT 1 FROM logs WHERE s", "SELECT 1 FROM logs JOIN jobs ON s"):
        assert list_completions(before, NAMES, before)[0] not in NAMES
