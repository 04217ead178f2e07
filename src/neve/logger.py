"""Loggers that import structlog when they first log, because most commands log nothing.

structlog imports rich and asyncio: 0.1 CPU seconds, a tenth of a short command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class LazyLogger:
    """A logger of structlog, made at its first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a protocol of Python, such as copying, and not a method of a logger
            raise AttributeError(name)
        if "logger" not in vars(self):
            self.logger = _make_logger(self._name)
        return getattr(self.logger, name)


def get_logger(name: str) -> Any:
    """Return the logger of a name. Its methods are those of `structlog.get_logger`."""
    return LazyLogger(name)


_configurations: set[Callable[[], None]] = set()


def configure_later(configure: Callable[[], None]) -> None:
    """Call a function before the next logger is made, to configure structlog only in processes that log."""
    _configurations.add(configure)


def _make_logger(name: str) -> Any:
    import structlog  # noqa: PLC0415 - the purpose of this module

    while _configurations:
        _configurations.pop()()
    return structlog.get_logger(name)
