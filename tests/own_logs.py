"""Let a test configure logs as a server does, without an effect on other tests of the same process."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMED = ("", "neve", "uvicorn")


@contextmanager
def own_logs() -> Iterator[None]:
    """Restore the configuration of logs at the end; no logger caches it meanwhile."""
    root, loggers = logging.getLogger(), [logging.getLogger(name) for name in NAMED]
    handlers, levels, config = root.handlers, [logger.level for logger in loggers], structlog.get_config()
    configure = structlog.configure

    def configure_uncached(**options: Any) -> None:
        configure(**{**options, "cache_logger_on_first_use": False})

    with patch.object(structlog, "configure", configure_uncached):
        try:
            yield
        finally:
            configure(**config)
            root.handlers = handlers
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
