"""Commands that run to their end."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.parts.account import group_of

TAIL_LINES = 30


class CommandError(RuntimeError):
    """Raised when a command ends with an error; its message holds the end of what the command said."""


def run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, user: str | None = None
) -> None:
    """Run a command quietly in a folder, and raise with the end of its output when it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        user=user,
        group=group_of(user),
        extra_groups=[] if user else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = "\n".join(done.stdout.splitlines()[-TAIL_LINES:])
        raise CommandError(f"command failed: exit={done.returncode} command={' '.join(command)}\n{said}")
