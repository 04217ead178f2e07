"""The one way out: text for people, JSON for programs. Commands never print by themselves."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from neve.errors import NeveError

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
org_option = click.option("--org", metavar="NAME", help="Organization.  [default: the configured one]")


def say(text: str = "") -> None:
    """A line for a person."""
    click.echo(text)


def note(text: str) -> None:
    """A line beside the result, on standard error."""
    click.echo(text, err=True)


def emit(value: Any) -> None:
    """One JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def say_json(value: Any) -> None:
    """One JSON document on a line of its own, for those who read line by line."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str))


def complain(error: NeveError, *, as_json: bool) -> None:
    """Say what went wrong and what to do."""
    if as_json:
        click.echo(json.dumps({"error": error.message, "hint": error.hint}, ensure_ascii=False), err=True)
    else:
        click.secho("error: ", fg="red", nl=False, err=True)
        click.echo(visible(str(error)), err=True)


def visible(text: str) -> str:
    """Text of others for a terminal: what would steer it is shown instead; tabs and ends of lines stay.

    >>> visible("\\x1b[2Jgone\\ttab\\x9b")
    '\\\\x1b[2Jgone\\ttab\\\\x9b'
    """
    return CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """A table for a person; columns in `right` hold numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for position, header in enumerate(headers):
        drawn.add_column(Text(visible(header)), justify="right" if position in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(visible(cell)) for cell in row))
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False).print(drawn)


def many(count: int, noun: str) -> str:
    """A number of things.

    >>> many(1, "row"), many(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@contextmanager
def progress(enabled: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on the terminal, told the step and how far it is; nothing where nobody is watching."""
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


def size(count: float) -> str:
    """Bytes as people say them.

    >>> size(999), size(123456), size(5_000_000_000)
    ('999 B', '123 kB', '5.0 GB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit in ("B", "kB") else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
