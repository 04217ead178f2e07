"""One event loop for all receivers, and one receiver for all tests that want nothing special."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from neve.api.control.routes import control_routes
from neve.app.control import Control
from neve.receive.authentication import OpenGuard
from tests.api.querying import Client, serving
from tests.api.running import LoopThread, Running, settings_for
from tests.app.control_lake import controlled
from tests.query.lakes import ACME


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    """The loop that receivers run in."""
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def open_receiver(loop_thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A receiver with the usual settings, for tests that look only at what is answered."""
    folder = tmp_path_factory.mktemp("receiver")
    with loop_thread.receiver(folder, settings_for(folder)) as running:
        yield running


@pytest.fixture
def start(loop_thread: LoopThread, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Receivers with settings of their own."""
    with ExitStack() as stack:

        def begin(raw: dict[str, Any] | None = None, **receiver: Any) -> Running:
            return stack.enter_context(loop_thread.receiver(tmp_path, settings_for(tmp_path, raw, **receiver)))

        yield begin


@pytest.fixture(scope="session")
def kept_control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    """The control of a small lake."""
    with controlled(tmp_path_factory.mktemp("controlled")) as found:
        yield found


@pytest.fixture
def control(kept_control: Control) -> Iterator[Control]:
    """The same for every test; what one wanted, paused or wrote is no other's concern."""
    yield kept_control
    for space in ("jobs", "pauses", "policies", "parts"):
        for key, _value in list(kept_control.documents.entries(space)):
            kept_control.documents.delete(space, key)


@pytest.fixture(scope="session")
def kept_operator(kept_control: Control) -> Iterator[Client]:
    """A server of that control with an open door."""
    guard = OpenGuard(ACME, admin=True)
    with serving(None, guard, first=control_routes(kept_control, guard)) as found:
        yield found


@pytest.fixture
def operator(control: Control, kept_operator: Client) -> Client:
    """Operates the lake through an open door."""
    return kept_operator
