"""Commands that are run by themselves, with the context that `neve` would give them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from neve.cli.context import Context
from neve.errors import NeveError

if TYPE_CHECKING:
    import click


@dataclass(frozen=True)
class Told:
    """What a command printed, or why it failed."""

    code: int
    text: str
    errors: str

    @property
    def json(self) -> Any:
        """What it printed, read as JSON."""
        return json.loads(self.text)


def tell(command: click.Command, *arguments: str, config: str | None = None) -> Told:
    """Run a command; an error for users is its message."""
    ended = CliRunner().invoke(command, list(arguments), obj=Context(config))
    if isinstance(ended.exception, NeveError):
        return Told(1, ended.stdout, str(ended.exception))
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Told(ended.exit_code, ended.stdout, ended.stderr)
