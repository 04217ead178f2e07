"""The account that a process runs under, for programs that refuse to run as root."""

import os
import pwd
from contextlib import suppress

UNPRIVILEGED = ("postgres", "nobody")


def unprivileged() -> str | None:
    """Return whom to become where this process is root; None where it is not, or where there is nobody to become."""
    if os.geteuid():
        return None
    for name in UNPRIVILEGED:
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return None


def group_of(user: str | None) -> int | None:
    """Return the group that goes with a user, so that a process that gives up root gives up root's group as well."""
    return pwd.getpwnam(user).pw_gid if user else None
