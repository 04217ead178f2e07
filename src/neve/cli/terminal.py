"""A terminal that things are drawn on, and that keys are read from."""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

WIDTH = 160  # where nobody says how wide it is


def console() -> Console:
    """Standard output; as wide as the terminal, or wide enough where there is none."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def draw(view: RenderableType) -> None:
    """Print it once."""
    console().print(view)


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Waits so many seconds for a key of the terminal, as it is pressed; nothing where none was, or nobody is there."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # what was pressed already counts
    try:
        yield _wait
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _wait(seconds: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""


def _sleep(seconds: float) -> str:
    time.sleep(seconds)
    return ""
