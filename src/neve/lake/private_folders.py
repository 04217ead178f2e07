"""Folders that only the user of this process may write to or look into.

Rows of every organization lie in temporary files while a batch runs, and jars in a cache become code. So such a folder
is used only after a look at it: a real folder, not a link to one, owned by the user of this process, writable for
nobody else. A parent folder that others may write to (such as /tmp) must be sticky, or they could rename what is in it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from neve.errors import ConfigError

PRIVATE = 0o700
GROUP_WRITES, OTHERS_WRITE = stat.S_IWGRP, stat.S_IWOTH


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for the user of this process alone.

    One that exists keeps the mode that its owner gave it.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with suppress(FileExistsError):  # somebody else was quicker
            path.mkdir(mode=PRIVATE)


def find_fault(folder: Path, *, group_may_write: bool = False) -> str:
    """Say why a folder can't be trusted; empty where it can."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return "it does not exist"
    if not stat.S_ISDIR(found.st_mode):
        return "it is a link" if stat.S_ISLNK(found.st_mode) else "it is no folder"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, and this process runs as user {os.geteuid()}"
    if found.st_mode & (OTHERS_WRITE if group_may_write else GROUP_WRITES | OTHERS_WRITE):
        return f"others may write to it (mode {stat.S_IMODE(found.st_mode):04o})"
    around = folder.parent.stat().st_mode
    if around & OTHERS_WRITE and not around & stat.S_ISVTX:
        return f"others may rename it: {folder.parent} has mode {stat.S_IMODE(around):04o} and is not sticky"
    return ""


def check_private(folder: Path, key: str, *, group_may_write: bool = False) -> None:
    """Raise `ConfigError` for a folder that others could have filled or could fill; `key` is the setting to change."""
    fault = find_fault(folder, group_may_write=group_may_write)
    if fault:
        raise ConfigError(
            f"{key} is {str(folder)!r}: {fault}; expected a folder of user {os.geteuid()} "
            "that nobody else may write to",
            hint=f"`chown` and `chmod go-w` it, remove it, or set {key} to a folder of your own",
        )


@cache
def user_folder(name: str) -> str:
    """A private folder of the user among the temporary ones, the same for all processes of the user.

    Its name can be guessed, so another user may have taken it before. Then this process gets one with a random name.
    """
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.geteuid()}"
    make_private(folder)
    return tempfile.mkdtemp(prefix=f"{folder.name}-") if find_fault(folder) else str(folder)
