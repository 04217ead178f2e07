"""Ports of the process group: known before its processes start, and the same when they are started again."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import structlog
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from neve.api.listen import listen
from neve.app.serve.choice import API, RECEIVER
from neve.app.serve.lifeline import ORPHAN_SECONDS
from neve.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tenacity import RetryCallState

    from neve.app.settings import Settings

LOOPBACK = "127.0.0.1"
WAIT_SECONDS = ORPHAN_SECONDS + 2.0  # for ports that the processes of a group that was killed still hold
LOOK_SECONDS = 0.5
Door = tuple[str, str, int]  # the setting of its port, its address, its port

log = structlog.get_logger("neve.serve")


def await_ports(settings: Settings, processes: Collection[str], within_seconds: float = WAIT_SECONDS) -> dict[str, str]:
    """The ports of a group, as `claim_ports` has them, once those who leave have left."""

    def taken(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            log.warning("waiting for a port to be left", reason=str(state.outcome.exception()), seconds=within_seconds)

    attempts = Retrying(
        retry=retry_if_exception_type(EnvironmentFault),
        stop=stop_after_delay(within_seconds),
        wait=wait_fixed(LOOK_SECONDS),
        before_sleep=taken,
        reraise=True,
    )
    claimed: dict[str, str] = attempts(claim_ports, settings, processes)
    return claimed


def claim_ports(settings: Settings, processes: Collection[str]) -> dict[str, str]:
    """Settings, as variables, that say to every process where each of them listens, with a free port for each 0.

    Raises `EnvironmentFault` for a port that is taken: better now than by a process that is started again and again.
    """
    with ExitStack() as held:
        bound = {
            setting: held.enter_context(listen(host, port, setting)).getsockname()[1]
            for setting, host, port in _doors(settings, processes)
        }
    hosts = {"receiver.host": settings.receiver.host, "query.host": settings.query.host, "serve.host": LOOPBACK}
    return {variable(setting): str(value) for setting, value in {**hosts, **bound}.items()}


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with listen(LOOPBACK, 0, "a free port") as found:
        port: int = found.getsockname()[1]
        return port


def _doors(settings: Settings, processes: Collection[str]) -> Iterator[Door]:
    receiver, query = settings.receiver, settings.query
    if RECEIVER in processes and receiver.http:
        yield "receiver.http_port", receiver.host, receiver.http_port
    if RECEIVER in processes and receiver.grpc:
        yield "receiver.grpc_port", receiver.host, receiver.grpc_port
    if API in processes:
        yield "query.port", query.host, query.port
    yield "serve.port", LOOPBACK, 0  # the group has taken the one that the settings say


def variable(setting: str) -> str:
    """The variable that sets a key.

    >>> variable("receiver.http_port")
    'NEVE_RECEIVER__HTTP_PORT'
    """
    return f"NEVE_{setting.replace('.', '__').upper()}"
