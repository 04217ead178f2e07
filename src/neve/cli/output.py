"""Print text, tables, progress and JSON. Commands print only through this module.

Tables that are longer than the screen go through the pager.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from neve.errors import NeveError


CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
org_option = click.option("--org", metavar="NAME", help="Organization.  [default: the configured one]")


def print_text(text: str = "") -> None:
    """Print a line of text."""
    click.echo(text)


def print_note(text: str) -> None:
    """Print a note on standard error, apart from the result."""
    click.echo(text, err=True)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_json_line(value: Any) -> None:
    """Print one JSON document on one line, for programs that read line by line."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str))


def print_error(error: NeveError, *, as_json: bool) -> None:
    """Print an error and its hint."""
    if as_json:
        click.echo(json.dumps({"error": error.message, "hint": error.hint}, ensure_ascii=False), err=True)
    else:
        click.secho("error: ", fg="red", nl=False, err=True)
        click.echo(escape_controls(str(error)), err=True)


def escape_controls(text: str) -> str:
    """Escape control characters of foreign text for a terminal; tabs and line ends stay.

    >>> escape_controls("\\x1b[2Jgone\\ttab\\x9b")
    '\\\\x1b[2Jgone\\ttab\\\\x9b'
    """
    return CONTROL_CHARACTERS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


DEFAULT_WIDTH = 200  # without a terminal


def screen_width(default: int = DEFAULT_WIDTH) -> int:
    """Return the columns of the terminal or of the variable COLUMNS; without both, the default."""
    return shutil.get_terminal_size((default, 24)).columns if sys.stdout.isatty() else _columns_variable() or default


def _columns_variable() -> int:
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() else 0


LONGEST_WORD = 20  # that a narrow terminal keeps in one piece


def word_width(cells: Iterable[str]) -> int:
    """Return the length of the longest word, so that a column is not narrower: a date must not be broken.

    >>> word_width(["spans 2026-01-31", "logs"])
    10
    """
    return min(LONGEST_WORD, max((len(word) for cell in cells for word in cell.split()), default=1))


def limit_widths(widths: Sequence[int], room: int) -> list[int]:
    """Return the widths, the largest ones reduced until all fit into the room. None is smaller than 1.

    >>> limit_widths([20, 3, 8], 20)
    [9, 3, 8]
    """
    for limit in range(max(widths, default=1), 1, -1):
        limited = [min(width, limit) for width in widths]
        if sum(limited) <= room:
            return limited
    return [1] * len(widths)


def print_paragraph(text: str, indent: int = 0, hanging: int = 4) -> None:
    """Print text that may be longer than a line of the terminal: it is folded between words, further lines indented."""
    import textwrap

    margin = " " * indent
    if not (sys.stdout.isatty() or _columns_variable()):
        print_text(f"{margin}{text}")
        return
    form = textwrap.TextWrapper(
        screen_width(),
        initial_indent=margin,
        subsequent_indent=margin + " " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    print_text(form.fill(text))


GAP = 2  # between two columns


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    optional: Sequence[int] = (),
) -> None:
    """Print a table; columns in `right` hold numbers and are aligned to the right.

    A narrow terminal leaves out columns of `optional`, the first of them first, and a note names them.
    """
    lines = [tuple(escape_controls(cell).expandtabs() for cell in row) for row in (headers, *rows)]
    widths = [max(map(text_width, cells)) for cells in zip(*lines, strict=True)]
    hidden = _choose_hidden(widths, optional)
    if hidden:
        names = ", ".join(headers[place] for place in sorted(hidden))
        shown = [place for place in range(len(headers)) if place not in hidden]
        lines = [tuple(line[place] for place in shown) for line in lines]
        widths = [widths[place] for place in shown]
        right = [number for number, place in enumerate(shown) if place in right]
    if not _fits(widths) or not print_unfolded(lines, widths, right):
        _print_folded(lines, right)
    if hidden:
        print_note(f"not shown: {names} (use a wider terminal or --json)")


def _fits(widths: Sequence[int]) -> bool:
    return sum(widths) + GAP * (len(widths) - 1) <= screen_width()


def _choose_hidden(widths: Sequence[int], optional: Sequence[int]) -> set[int]:
    """Return the columns to leave out, so that the others fit into the terminal."""
    hidden: set[int] = set()
    for place in optional:
        if _fits([width for other, width in enumerate(widths) if other not in hidden]):
            break
        hidden.add(place)
    return hidden


def print_unfolded(lines: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[int]) -> bool:
    """Print rows below the first one, which is the header, if each cell fits into its column; else return False.

    Most tables fit. They need no rich, whose import takes longer than a short command.
    """
    if any(
        "\n" in cell or text_width(cell) > width for line in lines for cell, width in zip(line, widths, strict=True)
    ):
        return False
    is_plain = os.environ.get("TERM") in ("dumb", "unknown")
    for number, line in enumerate(lines):
        cells = [
            _pad(cell, width, place in right) for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text = (" " * GAP).join(cells).rstrip()
        print_text(text if number or is_plain else click.style(text, bold=True))
    return True


def _pad(cell: str, width: int, is_right: bool) -> str:
    room = " " * (width - text_width(cell))
    return room + cell if is_right else cell + room


def text_width(text: str) -> int:
    """Return the columns of the terminal that the longest line of a text takes."""
    if text.isascii() and "\n" not in text:
        return len(text)
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")))


def _print_folded(lines: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    columns = list(zip(*lines, strict=True))
    # Rich cuts a table off whose least widths do not fit.
    least = limit_widths([word_width(cells) for cells in columns], screen_width() - GAP * (len(columns) - 1))
    for position, cells in enumerate(columns):
        drawn.add_column(
            Text(cells[0]),
            justify="right" if position in right else "left",
            overflow="fold",
            min_width=least[position],
        )
    for row in lines[1:]:
        drawn.add_row(*map(Text, row))
    Console(width=screen_width(), highlight=False).print(drawn)


@contextmanager
def progress_bar(enabled: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback that shows the step and its progress as a bar; without a terminal it shows nothing."""
    if not (enabled and sys.stderr.isatty()):
        yield lambda _step, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def tell(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total)
            bar.update(tasks[step], completed=done, total=total)

        yield tell


class _TerminalBuffer(io.StringIO):
    """A buffer that collects terminal output."""

    def isatty(self) -> bool:
        """Return True, as the terminal that the buffer replaces would."""
        return True


def show_in_pager(draw: Callable[[], None]) -> None:
    """Show the output of `draw`: through the program in PAGER if it does not fit into the terminal."""
    if not sys.stdout.isatty():
        draw()
        return
    with redirect_stdout(_TerminalBuffer()) as screen:
        draw()
    text = screen.getvalue()
    if text.count("\n") < shutil.get_terminal_size().lines:
        click.echo(text, nl=False)
    else:
        click.echo_via_pager(text.removesuffix("\n"))
