"""Addresses, listening sockets, and the ports of a process group.

The ports of a group are known before its processes start, and stay the same when a process is restarted.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from neve.app.serve.config import API, RECEIVER
from neve.app.serve.process_group import ORPHAN_SECONDS
from neve.errors import EnvironmentFault
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from grpc import ServerCredentials, aio  # type: ignore[import-untyped]
    from tenacity import RetryCallState

    from neve.app.settings import Settings


@dataclass(frozen=True)
class Addresses:
    """The addresses of the ports; none for a closed one. `health` serves /healthz, /readyz, /livez and /metrics."""

    http: str | None = None
    grpc: str | None = None
    query: str | None = None
    health: str | None = None


BACKLOG = 1024


def listen(host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket; raises `EnvironmentFault` with the port's setting if that fails."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise _listen_error(host, port, setting, error.strerror or str(error)) from None


def listen_grpc(server: aio.Server, host: str, port: int, credentials: ServerCredentials | None = None) -> int:
    """Make a gRPC server listen, with TLS if it has credentials, and return its port."""
    listen(host, port, "receiver.grpc_port").close()  # gRPC would only log the error, and not return it
    try:
        address = format_address(host, port)
        bound: int = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except RuntimeError as error:
        raise _listen_error(host, port, "receiver.grpc_port", str(error)) from None
    return bound


def format_address(host: str, port: int) -> str:
    """Format a host and a port as an address.

    >>> format_address("::1", 4317), format_address("127.0.0.1", 4317)
    ('[::1]:4317', '127.0.0.1:4317')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen_error(host: str, port: int, setting: str, words: str) -> EnvironmentFault:
    owner = _describe_port_owner(port)
    reason = words.partition(" (while")[0]  # asyncio repeats the address there
    return EnvironmentFault(
        f"can't listen on {format_address(host, port)}: {reason[:1].lower()}{reason[1:]}",
        hint=f"set {setting}, or stop {owner or 'the process that listens there'}",
    )


LISTENING = "0A"  # state of a socket in the tables of Linux
SOCKET_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def _describe_port_owner(port: int) -> str:
    """Return the name and the pid of the process that listens on a port, or an empty text if it is not known.

    Linux shows it for processes of the same user.
    """
    try:
        sockets = {f"socket:[{inode}]" for table in SOCKET_TABLES for inode in _list_inodes(Path(table), port)}
        pid = next((process for process in _list_processes() if sockets and _holds(process, sockets)), None)
        if pid is None:
            return ""
        name = (pid / "comm").read_text(errors="replace").strip()  # arguments may have credentials
    except OSError:  # no /proc, or the process has ended
        return ""
    return f"{name} (pid {pid.name})"


def _list_inodes(table: Path, port: int) -> list[str]:
    if not table.exists():
        return []
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    return [row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port]


def _list_processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


def _holds(process: Path, sockets: set[str]) -> bool:
    """Return whether a process has one of some sockets open. Those of other users can't be read."""
    try:
        return any(str(link.readlink()) in sockets for link in (process / "fd").iterdir())
    except OSError:
        return False


LOOPBACK = "127.0.0.1"
WAIT_SECONDS = ORPHAN_SECONDS + 2.0  # for ports that the processes of a killed group still hold
LOOK_SECONDS = 0.5
Listener = tuple[str, str, int]  # the setting of its port, its address, its port

log = get_logger("neve.serve")


def await_ports(settings: Settings, processes: Collection[str], within_seconds: float = WAIT_SECONDS) -> dict[str, str]:
    """Return the result of `claim_ports` once the processes of a previous group have released their ports."""

    def log_wait(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            log.warning("waiting for a port in use", reason=str(state.outcome.exception()), seconds=within_seconds)

    attempts = Retrying(
        retry=retry_if_exception_type(EnvironmentFault),
        stop=stop_after_delay(within_seconds),
        wait=wait_fixed(LOOK_SECONDS),
        before_sleep=log_wait,
        reraise=True,
    )
    claimed: dict[str, str] = attempts(claim_ports, settings, processes)
    return claimed


def claim_ports(settings: Settings, processes: Collection[str]) -> dict[str, str]:
    """Return settings, as variables, with the ports of all processes, and a free port for each 0.

    Raises `EnvironmentFault` for a port that is in use: an error at the start is better than a process that is
    restarted again and again.
    """
    with ExitStack() as held:
        bound = {
            setting: held.enter_context(listen(host, port, setting)).getsockname()[1]
            for setting, host, port in _list_listeners(settings, processes)
        }
    hosts = {"receiver.host": settings.receiver.host, "query.host": settings.query.host, "serve.host": LOOPBACK}
    plain = {"serve.tls.enabled": "false"}  # the group reads the health of its processes over loopback
    return {setting_variable(setting): str(value) for setting, value in {**hosts, **plain, **bound}.items()}


def find_free_port() -> int:
    """Return an unused port of this machine."""
    with listen(LOOPBACK, 0, "a free port") as found:
        port: int = found.getsockname()[1]
        return port


def _list_listeners(settings: Settings, processes: Collection[str]) -> Iterator[Listener]:
    receiver, query = settings.receiver, settings.query
    if RECEIVER in processes and receiver.http:
        yield "receiver.http_port", receiver.host, receiver.http_port
    if RECEIVER in processes and receiver.grpc:
        yield "receiver.grpc_port", receiver.host, receiver.grpc_port
    if API in processes:
        yield "query.port", query.host, query.port
    yield "serve.port", LOOPBACK, 0  # the group itself listens on the configured one


def setting_variable(setting: str) -> str:
    """Return the environment variable of a setting.

    >>> setting_variable("receiver.http_port")
    'NEVE_RECEIVER__HTTP_PORT'
    """
    return f"NEVE_{setting.replace('.', '__').upper()}"
