"""State shared by all commands: the settings, the lake, and the name under which `neve` was started.

Settings and lake are created on first use.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.lake.lake import Lake


def command_name() -> str:
    """Return the command as this shell finds it: `make` runs it from the environment that it created."""
    if shutil.which("neve"):
        return "neve"
    called, here = Path(sys.argv[0]), Path.cwd()
    return str(called.relative_to(here)) if called.is_relative_to(here) else str(called)


@dataclass(frozen=True)
class Context:
    """State of the command line."""

    config: str | None = None

    @cached_property
    def settings(self) -> Settings:
        """Return the configuration, which is read once."""
        from neve.app.configuration.lazy_settings import load_lazily
        from neve.logger import configure_later

        configure_later(_log_to_stderr)
        return load_lazily(self.config)

    def organization(self, given: str | None) -> str:
        """Return the organization that a command works for."""
        from neve.model.settings import check_organization

        return check_organization(given) if given else self.settings.organization

    @cached_property
    def lake(self) -> Lake:
        """Return the lake that the configuration describes."""
        from neve.app.wiring import build_lake

        return build_lake(self.settings)


def _log_to_stderr() -> None:
    """Log to standard error, to keep log lines out of the output of a command. Servers configure logging themselves."""
    import sys

    import structlog

    if not structlog.is_configured():
        structlog.configure(logger_factory=lambda *_names: structlog.PrintLogger(sys.stderr))
