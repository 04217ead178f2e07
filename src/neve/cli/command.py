"""What `neve` is called where it was called."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def command_name() -> str:
    """The command as this shell finds it: `make` runs it from the environment that it made."""
    if shutil.which("neve"):
        return "neve"
    called, here = Path(sys.argv[0]), Path.cwd()
    return str(called.relative_to(here)) if called.is_relative_to(here) else str(called)
