"""A real receiver for Neve's own telemetry, and logs as a server has them."""

from __future__ import annotations

import io
import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from neve.api.log_config import configure_logs
from neve.app.telemetry.config import TelemetryConfig
from neve.app.telemetry.sdk import TelemetrySession
from tests.api.running import LoopThread, Running, settings_for
from tests.own_logs import own_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., TelemetrySession]


@pytest.fixture(scope="module")
def loop_thread() -> Iterator[LoopThread]:
    """A loop for receivers without gRPC, which wants one loop for all."""
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def receiver(loop_thread: LoopThread, tmp_path: Path) -> Iterator[Running]:
    """A receiver with an empty zone."""
    with loop_thread.receiver(tmp_path, settings_for(tmp_path, grpc=False)) as running:
        yield running


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Logs as `neve serve` configures them, and what it would write to standard error; all is as it was at the end."""
    with own_logs():
        configure_logs()
        written = io.StringIO()
        for handler in logging.getLogger().handlers:
            assert isinstance(handler, logging.StreamHandler)
            handler.setStream(written)
        yield written


@pytest.fixture
def start(lines: io.StringIO) -> Iterator[Start]:
    """Telemetry that is on until the test ends."""
    with ExitStack() as stack:

        def begin(address: str | None, process: str = "tend", **config: object) -> TelemetrySession:
            settings = {"endpoint": "self", "interval_seconds": 0.05, **config}
            sending = TelemetrySession(TelemetryConfig.model_validate(settings), process, address)
            stack.callback(sending.close)
            return sending

        yield begin
