"""`neve status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import emit, json_option
from neve.cli.watching import key_option, server_option, watching

if TYPE_CHECKING:
    from neve.cli.context import Context


@click.command()
@server_option
@key_option
@json_option
@click.pass_obj
def status(context: Context, server: str | None, key: str | None, as_json: bool) -> None:
    """How the lake and those who tend it are: parts, queues, running jobs, what ended and why, what is behind.

    It is read from the state store and the catalog, whether or not a `neve serve` runs; with --server, a server tells.

    \b
    Examples:
      neve status
      neve status --json
      neve status --server http://127.0.0.1:8480 --key neve_…
    """
    with watching(context, server, key) as look:
        found = look()
    if as_json:
        emit(found.plain)
        return
    from neve.cli.status_view import status_view
    from neve.cli.terminal import draw

    draw(status_view(found))
