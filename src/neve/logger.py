"""Loggers that import structlog when they first log, because most commands log nothing.

structlog imports asyncio, and rich if it is installed: 0.1 CPU seconds, a tenth of a short command. Servers need it
before they open their ports, and load it without rich.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


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


def load_structlog() -> None:
    """Import structlog without rich, by which it would only print tracebacks in boxes. No effect on a loaded rich.

    A server calls it at its start, before it has threads: meanwhile, rich can't be imported.
    """
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = cast("ModuleType", None)  # its import fails
    try:
        import structlog.dev  # noqa: PLC0415 - remembers that there is no rich
        import structlog.tracebacks  # noqa: F401, PLC0415 - as above
    finally:
        del sys.modules["rich"]


def _make_logger(name: str) -> Any:
    import structlog  # noqa: PLC0415 - the purpose of this module

    while _configurations:
        _configurations.pop()()
    return structlog.get_logger(name)
