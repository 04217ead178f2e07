"""One event loop for all receivers, and one receiver for all tests that want nothing special."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.api.running import LoopThread, Running, settings_for


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
