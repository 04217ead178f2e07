"""Neve's own telemetry, taken in by the same Neve, does not grow: nothing is said of the message, one span a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import structlog

from neve.app.telemetry.tracing import span
from neve.model.signals import Signal
from tests.app.telemetry.landed import address, eventually, landed
from tests.telemetry import traces

if TYPE_CHECKING:
    from tests.api.running import Running
    from tests.app.telemetry.conftest import Start

ROUNDS = 6


def commit(number: int) -> None:
    """What ingestion says of a batch: a span and a line, however many records it holds."""
    with span("ingest", batch=number):
        structlog.get_logger("neve.ingest").info("batch committed", batch=number)


@pytest.mark.slow
def test_each_commit_of_own_telemetry_makes_as_much_as_the_last(receiver: Running, start: Start) -> None:
    """A span and a line come out of every round, which are all that the next one takes in."""
    start(address(receiver))
    for number in range(ROUNDS):
        commit(number)
        eventually(lambda: len(landed(receiver, Signal.TRACES)) == number + 1)  # noqa: B023 - asked at once
        eventually(lambda: len(landed(receiver, Signal.LOGS)) == number + 1)  # noqa: B023
    assert {row["operation_name"] for row in landed(receiver, Signal.TRACES)} == {"ingest"}


def test_what_others_send_has_a_span_which_has_none(receiver: Running, start: Start) -> None:
    """A request of someone else's is one span more, and there it ends."""
    sending = start(address(receiver), process="receiver")
    assert receiver.post("/v1/traces", traces(2, service="cart")).status == 200
    eventually(lambda: len(landed(receiver, Signal.TRACES)) == 3)
    sending.close()
    rows = landed(receiver, Signal.TRACES)
    assert [row["operation_name"] for row in rows if row["service_name"] == "neve"] == ["POST /v1/traces"]
    assert len(rows) == 3
