"""The prompt of `neve query`: statements with history and completion, and a few commands of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from neve.cli.output import complain, note, say, table
from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prompt_toolkit import PromptSession

    from neve.cli.asking import Asked
    from neve.query.request import Request

HELP = """\
\\d            the tables
\\d TABLE      the columns of one
\\e SQL        what would be read for a statement, and why
\\timing       say after each answer what it took, or no longer
\\q            the end (as is Ctrl-D)
A statement ends with ; and may have several lines. Tab completes names, the arrows go through the history."""
WORDS = """\
SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT WITH AS JOIN LEFT ON USING AND OR NOT IN IS NULL LIKE ILIKE BETWEEN
CASE WHEN THEN ELSE END DISTINCT UNION ALL ASC DESC INTERVAL TIMESTAMP count sum min max avg date_trunc now
quantile_cont has_term has_phrase regexp_matches"""


@dataclass
class Prompt:
    """Asks for statements until there are no more; `show` prints an answer and says what it took."""

    asked: Asked
    request: Request
    show: Callable[[Request, bool], None]
    timing: bool = False

    def run(self) -> None:
        """Until the end."""
        say("SQL ends with ;   \\? is help, \\q the end")
        session = self._session()
        for text in _statements(session):
            if text in ("\\q", "exit", "quit"):
                return
            try:
                self._do(text)
            except NeveError as error:
                complain(error, as_json=False)
            except KeyboardInterrupt:
                note("cancelled")

    def _do(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        match word:
            case "\\?" | "\\h" | "help":
                say(HELP)
            case "\\d":
                self._describe(rest.strip())
            case "\\e":
                self.show(self.request.asking(f"EXPLAIN {rest}"), False)
            case "\\timing":
                self.timing = not self.timing
                say(f"timing is {'on' if self.timing else 'off'}")
            case _ if word.startswith("\\"):
                say(f"{word} is no command; \\? lists them")
            case _:
                self.show(self.request.asking(text), self.timing)

    def _describe(self, name: str) -> None:
        if name:
            self.show(self.request.asking(f'DESCRIBE "{name.replace(chr(34), "")}"'), False)
            return
        table(("table", "columns"), [(one, ", ".join(columns)) for one, columns in self.asked.names().items()])

    def _session(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory

        folder = Path(click.get_app_dir("neve"))
        folder.mkdir(parents=True, exist_ok=True)
        names = self.asked.names()
        known = [*names, *sorted({column for columns in names.values() for column in columns}), *WORDS.split()]
        completer = WordCompleter(known, ignore_case=True)
        return PromptSession(history=FileHistory(str(folder / "history")), completer=completer)


def _statements(session: PromptSession[str]) -> Iterator[str]:
    """What was typed, statement by statement; a command of the prompt is one line."""
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
