"""`neve top`: the status, again and again, until someone has seen enough."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from neve.app.control import open_control
from neve.app.settings import load_settings
from neve.app.wiring import build_lake
from neve.cli import status_view
from neve.cli.status import follow_status, top
from neve.errors import QueryError
from tests.cli.direct import tell
from tests.cli.terminals import in_terminal

if TYPE_CHECKING:
    from neve.app.reports import StatusReport

RUN = """
import sys
from neve.cli.context import Context
from neve.cli.status import top
top(["--every", "0.1"], obj=Context(sys.argv[1]), standalone_mode=False)
"""


def test_without_a_terminal_it_is_printed_once(config: str) -> None:
    """As it is with --once."""
    for arguments in ([], ["--once"]):
        told = tell(top, *arguments, config=config)
        assert (told.code, told.errors) == (0, "")
        assert "0 parts, 0 queued, 0 running, 0 dead" in told.text
        assert "\x1b" not in told.text


@pytest.mark.long
def test_the_key_q_ends_it(config: str) -> None:
    """In a terminal it has the screen for itself, and gives it back."""
    shown = "\n".join(in_terminal([sys.executable, "-c", RUN, config], "q"))
    assert "0 parts, 0 queued" in shown
    assert shown.index("\x1b[?1049h") < shown.index("\x1b[?1049l")


def test_a_look_that_fails_is_said_and_tried_again(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is away for a moment ends nothing."""
    settings = load_settings(config, {})
    with open_control(settings, build_lake(settings)) as control:
        looks, waited = 0, []

        def look() -> StatusReport:
            nonlocal looks
            looks += 1
            if looks == 2:
                raise QueryError("can't reach it")
            return control.status()

        def wait(seconds: float) -> str:
            waited.append(seconds)
            return "q" if len(waited) == 3 else "x"

        monkeypatch.setattr(status_view, "keys", lambda: nullcontext(wait))
        follow_status(look, 0.5)
    assert (looks, waited) == (3, [0.5, 0.5, 0.5])
