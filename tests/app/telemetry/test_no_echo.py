"""Neve's own telemetry, taken in by the same Neve, does not grow: nothing is said of the message, one span a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import structlog

from neve.api.application import build_application
from neve.app.telemetry.requests import Traced
from neve.app.telemetry.traces import span
from neve.model.signals import Signal
from tests.api.running import LoopThread, Running, settings_for
from tests.app.telemetry.landed import address, eventually, landed
from tests.telemetry import traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.app.telemetry.conftest import Start

ROUNDS = 6


@pytest.fixture
def traced_receiver(loop_thread: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A receiver whose requests have spans."""
    monkeypatch.setattr("neve.api.server.build_application", lambda *parts: Traced(build_application(*parts)))
    with loop_thread.receiver(tmp_path, settings_for(tmp_path, grpc=False)) as running:
        yield running


def commit(number: int) -> None:
    """What ingestion says of a batch: a span and a line, however many records it holds."""
    with span("ingest", batch=number):
        structlog.get_logger("neve.ingest").info("batch committed", batch=number)


def test_each_commit_of_own_telemetry_makes_as_much_as_the_last(traced_receiver: Running, start: Start) -> None:
    """A span and a line come out of every round, which are all that the next one takes in."""
    start(address(traced_receiver))
    for number in range(ROUNDS):
        commit(number)
        eventually(lambda: len(landed(traced_receiver, Signal.TRACES)) == number + 1)  # noqa: B023 - asked at once
        eventually(lambda: len(landed(traced_receiver, Signal.LOGS)) == number + 1)  # noqa: B023
    assert {row["operation_name"] for row in landed(traced_receiver, Signal.TRACES)} == {"ingest"}


def test_what_others_send_has_a_span_which_has_none(traced_receiver: Running, start: Start) -> None:
    """A request of someone else's is one span more, and there it ends."""
    sending = start(address(traced_receiver), process="receiver")
    assert traced_receiver.post("/v1/traces", traces(2, service="cart")).status == 200
    eventually(lambda: len(landed(traced_receiver, Signal.TRACES)) == 3)
    sending.close()
    rows = landed(traced_receiver, Signal.TRACES)
    assert [row["operation_name"] for row in rows if row["service_name"] == "neve"] == ["POST /v1/traces"]
    assert len(rows) == 3
