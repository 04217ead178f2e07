"""Ctrl+C ends a command with one line that says what happens next, and exit code 130."""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING

import click
import pytest

from neve.cli.main import MODULES, NEXT_STEPS, neve
from neve.errors import EnvironmentFault
from tests.cli.runner import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Heard also where the tests run in a shell's background, which has its processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    """Ctrl+C."""
    os.kill(os.getpid(), signal.SIGINT)


def fail_in_other_words() -> None:
    """As a JVM does whose start is interrupted."""
    try:
        press()
    except KeyboardInterrupt:
        logging.exception("KeyboardInterrupt while sending command")
    raise EnvironmentFault("Spark did not start: an error occurred while calling None.org.apache")


@pytest.mark.parametrize("work", [press, fail_in_other_words])
@pytest.mark.parametrize("name", ["ingest", "query"])
def test_one_line_and_no_traceback(name: str, work: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the interrupted work makes of it; a command that can be continued says how."""
    monkeypatch.setitem(neve.commands, name, click.Command(name, callback=work))
    ended = run(name)
    assert (ended.code, ended.data) == (130, b"")
    assert ended.errors.removeprefix("\n") == (
        f"interrupted: {NEXT_STEPS[name]}\n" if name in NEXT_STEPS else "stopped\n"
    )


def test_an_error_without_ctrl_c_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """And afterwards all is as it was before."""

    def fail() -> None:
        raise EnvironmentFault("no Java", hint="install one")

    monkeypatch.setitem(neve.commands, "ingest", click.Command("ingest", callback=fail))
    ended = run("ingest")
    assert (ended.code, ended.errors) == (1, "error: no Java\nhint: install one\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert logging.root.manager.disable == logging.NOTSET


def test_every_next_step_belongs_to_a_command() -> None:
    """None is left of a command that there is no longer."""
    assert set(NEXT_STEPS) <= set(MODULES)
