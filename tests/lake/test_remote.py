"""A Spark Connect server that is not there."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from neve.errors import LakeError
from neve.lake.spark.session import check_reachable, open_remote_session


def test_a_server_that_listens_is_reachable() -> None:
    """By the address that users write, with parameters or without."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        check_reachable(f"sc://127.0.0.1:{port}")
        check_reachable(f"sc://127.0.0.1:{port}/;user_id=neve")


def test_a_server_that_is_away_is_told_at_once() -> None:
    """With its place, and not after minutes of attempts."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    with pytest.raises(LakeError, match=f"127.0.0.1:{port} does not respond"):
        open_remote_session(f"sc://127.0.0.1:{port}", {})
