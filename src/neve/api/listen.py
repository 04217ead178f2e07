"""Sockets to listen on, with words for what goes wrong."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from neve.errors import EnvironmentFault

if TYPE_CHECKING:
    from grpc import aio  # type: ignore[import-untyped]

BACKLOG = 1024


def listen(host: str, port: int, setting: str) -> socket.socket:
    """A socket that listens; raises `EnvironmentFault` with the port's setting when that is not possible."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise _refused(host, port, setting, error.strerror or str(error)) from None


def listen_grpc(server: aio.Server, host: str, port: int) -> int:
    """Make a gRPC server listen; the port that it got."""
    listen(
        host, port, "receiver.grpc_port"
    ).close()  # gRPC would say what is wrong in a log line of its own, and us nothing
    try:
        bound: int = server.add_insecure_port(address(host, port))
    except RuntimeError as error:
        raise _refused(host, port, "receiver.grpc_port", str(error)) from None
    return bound


def address(host: str, port: int) -> str:
    """Host and port as addresses are written.

    >>> address("::1", 4317), address("127.0.0.1", 4317)
    ('[::1]:4317', '127.0.0.1:4317')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refused(host: str, port: int, setting: str, words: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"can't listen on {address(host, port)}: {words[:1].lower()}{words[1:]}",
        hint=f"set {setting}, or end the process that listens there",
    )
