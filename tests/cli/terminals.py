"""Commands in a terminal of their own, as a person sees them."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS, COLUMNS = 12, 80
SECONDS = 600


def in_terminal(command: Sequence[str], typed: str = "", **variables: str) -> list[str]:
    """Run a command in a terminal of twelve rows, and the lines that it showed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in {"PAGER", "LESS", "LINES", "COLUMNS"}}
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**kept, "TERM": "xterm", "NO_COLOR": "1", **variables},
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b"".join(iter(lambda: _some(ours), b""))
    os.close(ours)
    assert process.wait(SECONDS) == 0, shown
    return shown.decode().replace("\r", "").splitlines()


def _some(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end was closed
        return b""
