"""The name of one `neve serve`, among all that share a lake."""

from __future__ import annotations

import os
import socket
from uuid import uuid4


def new_instance() -> str:
    """A name that says where it runs; containers share names and numbers of processes, so there is a bit of chance."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:4]}"
