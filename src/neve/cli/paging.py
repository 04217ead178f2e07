"""Long output in a terminal, page by page."""

from __future__ import annotations

import io
import shutil
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable


class _Screen(io.StringIO):
    """Keeps what a terminal would show."""

    def isatty(self) -> bool:
        """As the terminal that it stands for."""
        return True


def paged(draw: Callable[[], None]) -> None:
    """Show what `draw` prints: in a terminal that it does not fit into, through the program that PAGER names."""
    if not sys.stdout.isatty():
        draw()
        return
    with redirect_stdout(_Screen()) as screen:
        draw()
    text = screen.getvalue()
    if text.count("\n") < shutil.get_terminal_size().lines:
        click.echo(text, nl=False)
    else:
        click.echo_via_pager(text.removesuffix("\n"))
