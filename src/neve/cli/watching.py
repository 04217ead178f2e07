"""Where a status comes from: the state store and the catalog of this configuration, or a server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from neve.cli.controlling import controlling
from neve.cli.far import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.app.reports import StatusReport
    from neve.cli.context import Context

server_option = click.option("--server", metavar="ADDRESS", help="Ask a server, for example http://127.0.0.1:8480.")
key_option = click.option("--key", envvar="NEVE_API_KEY", help="An API key with the scope admin.  [env: NEVE_API_KEY]")


@contextmanager
def watching(context: Context, server: str | None, key: str | None) -> Iterator[Callable[[], StatusReport]]:
    """Asks for the status, again and again."""
    from neve.app.reports import StatusReport

    if server:
        yield lambda: StatusReport.model_validate(Server(server, key).status())
        return
    with controlling(context) as control:
        yield control.status
