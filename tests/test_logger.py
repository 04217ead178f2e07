"""Loggers import structlog at their first use."""

import copy
import subprocess
import sys

import pytest
import structlog
from structlog.testing import capture_logs

from neve import logger
from neve.logger import configure_later, get_logger

SCRIPT = """
import sys
from neve.logger import get_logger
log = get_logger("neve.test")
print("structlog" in sys.modules)
log.info("logged")
print("structlog" in sys.modules)
"""
WITHOUT_RICH = """
import sys
from neve.logger import load_structlog
load_structlog()
import structlog
print("rich" in sys.modules)
from rich.console import Console
structlog.dev.ConsoleRenderer()
"""


def test_servers_load_structlog_without_rich() -> None:
    """Other code can import it afterwards."""
    ended = subprocess.run([sys.executable, "-c", WITHOUT_RICH], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


def test_structlog_is_imported_with_the_first_log_line() -> None:
    """A command that logs nothing does not pay for it."""
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    before, *_line, after = ended.stdout.splitlines()
    assert (before, after) == ("False", "True")


def test_a_logger_has_the_methods_of_structlog() -> None:
    """Fields, bound values and exceptions arrive as they do without this module."""
    log = get_logger("neve.test")
    with capture_logs() as logs:
        log.bind(job=1).warning("job failed", error="none")
    assert logs == [{"job": 1, "error": "none", "event": "job failed", "log_level": "warning"}]


def test_a_logger_can_be_copied() -> None:
    """Copying asks for names of protocols, which are no methods of a logger."""
    assert isinstance(copy.deepcopy(get_logger("neve.test")), logger.LazyLogger)


def test_a_configuration_waits_for_the_first_log_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called once, before the next logger is made."""
    calls: list[bool] = []
    monkeypatch.setattr(logger, "_configurations", set())
    configure_later(lambda: calls.append(structlog.is_configured()))
    log = get_logger("neve.test")
    assert not calls
    with capture_logs():
        log.info("one")
        get_logger("neve.other").info("two")
    assert len(calls) == 1
