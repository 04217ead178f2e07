"""What every command needs: the settings and the lake, made when they are first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.lake.lake import Lake


@dataclass(frozen=True)
class Context:
    """The command line's own state."""

    config: str | None = None

    @cached_property
    def settings(self) -> Settings:
        """The configuration, read once."""
        from neve.app.settings import load_settings

        _log_beside()
        return load_settings(self.config)

    def organization(self, given: str | None) -> str:
        """The organization that a command works for."""
        from neve.model.organization import check_organization

        return check_organization(given) if given else self.settings.organization

    @cached_property
    def lake(self) -> Lake:
        """The lake that the configuration describes."""
        from neve.app.wiring import build_lake

        return build_lake(self.settings)


def _log_beside() -> None:
    """Let parts log to standard error, so that it is never among what a command prints; servers have their own way."""
    import sys

    import structlog

    if not structlog.is_configured():
        structlog.configure(logger_factory=lambda *_names: structlog.PrintLogger(sys.stderr))
