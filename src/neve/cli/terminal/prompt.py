"""The interactive prompt of `neve query`: statements, commands that begin with a backslash, history and completion."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from neve.cli.output import print_error, print_note, print_table, print_text, show_in_pager
from neve.cli.terminal.cells import find_zone
from neve.cli.terminal.result_view import ResultView, sort_columns
from neve.errors import NeveError
from neve.query.request import SET_ZONE, UTC_ZONE, split_zone
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer

    from neve.cli.querying.query_target import QueryTarget
    from neve.query.request import Request


HELP = """\
\\d            list the tables
\\d TABLE      list the columns of a table
\\e SQL        show the files that a statement would read, and why
\\plot SQL     plot a result: a time column and numbers
\\x            rows one below the other, on or off
\\x auto       rows one below the other if the columns do not fit (the default)
\\tz ZONE      show times in a zone, such as Europe/Berlin or local
\\full         show nested values and empty columns completely, or no longer
\\timing       show the duration of each query, or no longer
\\q            quit (as does Ctrl+D)
SET TimeZone = 'Europe/Berlin';  use a zone for days and for times without one
RESET TimeZone;                  use UTC again
A statement ends with ; and may have several lines. Ctrl+C cancels it.
Tab completes names, the arrows go through the history."""
KEYWORDS = """\
SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT WITH AS JOIN LEFT ON USING AND OR NOT IN IS NULL LIKE ILIKE BETWEEN
CASE WHEN THEN ELSE END DISTINCT UNION ALL ASC DESC INTERVAL TIMESTAMP count sum min max avg date_trunc now
quantile_cont has_term has_phrase regexp_matches"""
# A table follows: after FROM and JOIN, in a list of tables, and after DESCRIBE, SUMMARIZE and \\d.
NAMES_TABLE = re.compile(
    r"(?:\bFROM\s+(?:\w+\s*,\s*)*|\bJOIN\s+|^\s*(?:DESCRIBE|SUMMARIZE|\\d)\s+)\w*$", re.IGNORECASE | re.ASCII
)
SIGNAL_TABLES = ("spans", "logs", "metrics")
SHOWN_COLUMNS = 4  # of each table in the list of tables


@dataclass
class Prompt:
    """An interactive prompt that reads statements until the end of input; `show` prints a result and its statistics."""

    asked: QueryTarget
    request: Request
    show: Callable[[Request, bool], None]
    timing: bool = False
    view: ResultView = field(default_factory=ResultView)
    plot: Callable[[Request], None] | None = None

    def run(self) -> None:
        """Run the prompt until the end of input."""
        print_text("SQL ends with ;   \\? is help, \\q quits")
        session = self._session()
        for text in _read_statements(session):
            if text in ("\\q", "exit", "quit"):
                return
            try:
                self._do(text)
            except NeveError as error:
                print_error(error, as_json=False)
            except KeyboardInterrupt:
                print_note("cancelled")

    def _do(self, text: str) -> None:
        zone = SET_ZONE.fullmatch(text.strip())
        if zone is not None:
            self._set_session_zone(zone["name"] or UTC_ZONE)
            return
        session_zone, text = split_zone(text)
        if session_zone:
            self._set_session_zone(session_zone)
        word, _, rest = text.partition(" ")
        if not word.startswith("\\") and word != "help":
            self.show(self.request.asking(text), self.timing)
            return
        commands: dict[str, Callable[[str], None]] = {
            **dict.fromkeys(("\\?", "\\h", "help"), lambda _rest: print_text(HELP)),
            "\\d": self._describe,
            "\\e": lambda sql: self.show(self.request.asking(f"EXPLAIN {sql}"), False),
            "\\plot": self._plot,
            "\\x": self._set_vertical,
            "\\tz": self._set_zone,
            "\\full": self._set_full,
            "\\timing": self._set_timing,
        }
        if word not in commands:
            print_text(f"{word} is not a command; \\? lists them")
            return
        commands[word](rest.strip().removesuffix(";").strip())

    def _describe(self, name: str) -> None:
        if name:
            self.show(self.request.asking(f'DESCRIBE "{name.replace(chr(34), "")}"'), False)
            return
        rows = [
            (table, f"{len(columns):,}", _list_first(columns)) for table, columns in sorted(self.asked.names().items())
        ]

        def draw() -> None:
            print_table(("table", "columns", "for example"), rows, right=(1,))

        show_in_pager(draw) if self.view.paged else draw()
        print_note(f"{format_count(len(rows), 'table')}; \\d TABLE lists the columns of one")

    def _plot(self, sql: str) -> None:
        if self.plot is not None:
            self.plot(self.request.asking(sql))

    def _set_vertical(self, word: str) -> None:
        if word in ("on", "off", "auto"):
            self.view.vertical = word  # type: ignore[assignment] # one of the three
        elif word:
            print_text(f"\\x {word} is not a command; \\x takes on, off or auto")
            return
        else:
            self.view.vertical = "off" if self.view.vertical == "on" else "on"
        print_text(f"vertical rows are {self.view.vertical}")

    def _set_zone(self, name: str) -> None:
        if name:
            find_zone(name)
            self.view.zone = name
        print_text(f"times are shown in {self.view.zone or 'UTC'}")

    def _set_session_zone(self, name: str) -> None:
        """Set the time zone of later statements, and show times in it."""
        find_zone(name)
        self.request, self.view.zone = replace(self.request, time_zone=name), name
        print_text(f"the time zone is {name}")

    def _set_full(self, _rest: str) -> None:
        self.view.full = not self.view.full
        print_text(f"full values are {'on' if self.view.full else 'off'}")

    def _set_timing(self, _rest: str) -> None:
        self.timing = not self.timing
        print_text(f"timing is {'on' if self.timing else 'off'}")

    def _session(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory

        folder = Path(click.get_app_dir("neve"))
        folder.mkdir(parents=True, exist_ok=True)
        completer = _make_completer(self.asked.names())
        return PromptSession(history=FileHistory(str(folder / "history")), completer=completer)


def _list_first(columns: Sequence[str]) -> str:
    """List the columns that `SELECT *` shows first."""
    more = "…" if len(columns) > SHOWN_COLUMNS else ""
    return ", ".join(columns[place] for place in sort_columns(columns)[:SHOWN_COLUMNS]) + more


def _make_completer(names: Mapping[str, Sequence[str]]) -> Completer:
    from prompt_toolkit.application import get_app
    from prompt_toolkit.completion import DynamicCompleter, WordCompleter

    def choose() -> Completer:
        buffer = get_app().current_buffer
        before = buffer.document.text_before_cursor
        return WordCompleter(list_completions(buffer.text, names, before), ignore_case=True)

    return DynamicCompleter(choose)


def list_completions(text: str, names: Mapping[str, Sequence[str]], before: str = "") -> list[str]:
    """Return the words that Tab offers: columns of the tables in the statement first, then those of the signals.

    `before` is the text before the cursor. After FROM and similar words, tables are first.

    >>> list_completions("SELECT ser", {"jobs": ["server"], "logs": ["service_name"]})[:2]
    ['service_name', 'server']
    """
    written = set(re.findall(r"\w+", text.lower()))
    tables = sorted(names, key=lambda name: (name.lower() not in written, name not in SIGNAL_TABLES))
    columns = [column for table in tables for column in names[table]]
    of_lake = (*names, *columns) if NAMES_TABLE.search(before) else (*columns, *names)
    return list(dict.fromkeys((*of_lake, *KEYWORDS.split())))


def _read_statements(session: PromptSession[str]) -> Iterator[str]:
    """Yield the input statement by statement; a prompt command is one line."""
    lines: list[str] = []
    while True:
        try:
            line = session.prompt("neve> " if not lines else "  ... ")
        except KeyboardInterrupt:
            lines = []
            continue
        except EOFError:
            return
        lines.append(line)
        text = "\n".join(lines).strip()
        if not text:
            lines = []
        elif text.startswith("\\") or text in ("exit", "quit", "help"):
            lines = []
            yield text
        elif text.endswith(";"):
            lines = []
            yield text.rstrip(";").strip()
