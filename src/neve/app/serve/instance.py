"""The identity of one `neve serve`: its name among all that share a lake, and the token of its process group."""

from __future__ import annotations

import os
import secrets
import socket
from uuid import uuid4

GROUP_TOKEN = "_NEVE_GROUP_TOKEN"  # noqa: S105 - the variable that has it: command lines are for everyone to read
GROUP_HEADER = "x-neve-group"  # with the token, a process tells its group what it tells no stranger


def new_instance() -> str:
    """A name that says where it runs; containers share names and numbers of processes, so there is a bit of chance."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:4]}"


def new_group_token() -> str:
    """A token that only the processes of one group know."""
    return secrets.token_urlsafe(32)


def group_token() -> str:
    """The token of the group that this process belongs to; empty where it runs alone."""
    return os.environ.get(GROUP_TOKEN, "")
