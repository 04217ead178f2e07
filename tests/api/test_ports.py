"""Ports of a process group that follows another one."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from neve.api.ports import await_ports
from neve.app.settings import Settings
from neve.errors import EnvironmentFault
from tests.api.running import until

HOST = "127.0.0.1"


def held() -> socket.socket:
    """A port that someone listens on."""
    return socket.create_server((HOST, 0))


def settings_at(port: int) -> Settings:
    """Settings whose API is to listen on a port."""
    plain = Settings()
    return plain.model_copy(update={"query": plain.query.model_copy(update={"port": port})})


def test_a_port_that_is_left_soon_is_waited_for() -> None:
    """The processes of a service that was killed let go of theirs a little later."""
    former = held()
    port = former.getsockname()[1]
    with capture_logs() as said:

        def leave() -> None:
            until(lambda: said)
            former.close()

        threading.Thread(target=leave, daemon=True).start()
        claimed = await_ports(settings_at(port), ["api"], within_seconds=600)
    assert claimed["NEVE_QUERY__PORT"] == str(port)
    assert [line["event"] for line in said] == ["waiting for a port in use"]


def test_a_port_that_stays_taken_is_an_error() -> None:
    """With the setting that says which it is."""
    with closing(held()) as former, pytest.raises(EnvironmentFault) as raised:
        await_ports(settings_at(former.getsockname()[1]), ["api"], within_seconds=0.1)
    assert "query.port" in str(raised.value.hint)
