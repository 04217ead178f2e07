"""`neve top`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from neve.cli.watching import key_option, server_option, watching

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.reports import StatusReport
    from neve.cli.context import Context


@click.command()
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@click.option("--once", is_flag=True, help="Look once, print it and end; so it is where there is no terminal.")
@server_option
@key_option
@click.pass_obj
def top(context: Context, every: float, once: bool, server: str | None, key: str | None) -> None:
    """What `neve status` says, live: looked at again every few seconds. The key q or Ctrl+C ends it.

    \b
    Examples:
      neve top
      neve top --every 0.5
      neve top --server http://127.0.0.1:8480
    """
    with watching(context, server, key) as look:
        if once or not sys.stdout.isatty():
            from neve.cli.status_view import status_view
            from neve.cli.terminal import draw

            draw(status_view(look()))
            return
        with suppress(KeyboardInterrupt):
            follow(look, every)


def follow(look: Callable[[], StatusReport], every: float) -> None:
    """Draw what is there until someone has seen enough; a look that fails is said, and tried again."""
    from rich.live import Live

    from neve.cli.status_view import failure_view, status_view
    from neve.cli.terminal import console, keys
    from neve.errors import NeveError

    with keys() as pressed, Live(console=console(), screen=True, auto_refresh=False) as live:
        while True:
            try:
                live.update(status_view(look()), refresh=True)
            except NeveError as error:
                live.update(failure_view(error.message), refresh=True)
            if pressed(every) in ("q", "Q"):
                return
