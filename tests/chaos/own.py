"""A run with a sender of our own, which knows what was acknowledged."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.chaos import Chaos, Tell
from tests.chaos.house import House
from tests.chaos.outcome import Outcome
from tests.chaos.sender import Sender
from tests.chaos.service import ServiceError
from tests.chaos.tables import duplicates_dropped, judge_numbers, quarantined

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.chaos.exports import Export
    from tests.chaos.kills import Kill

FINISH_SECONDS = 120.0


@dataclass(frozen=True)
class Plan:
    """How much is sent and killed."""

    exports: Sequence[Export]
    kills: Sequence[Kill]
    exports_per_second: float


def run(plan: Plan, folder: Path, tell: Tell = lambda _line: None) -> Outcome:
    """Send, kill, catch up, judge."""
    started, house = time.monotonic(), House(folder)
    chaos = Chaos(house, tell)
    sender = Sender(plan.exports, house.http_port, house.grpc_port, plan.exports_per_second)
    outcome = Outcome(kills=chaos.kills)
    try:
        with chaos.running():
            sender.start()
            chaos.kill_all(plan.kills, sender.allow)
            if not sender.finish(FINISH_SECONDS):
                outcome.troubles.append(f"not everything was acknowledged in {FINISH_SECONDS} seconds")
            chaos.end()
    except ServiceError as error:
        outcome.troubles.append(str(error))
    finally:
        sender.abandon()
    _judge(outcome, house, sender)
    outcome.seconds = time.monotonic() - started
    return outcome


def _judge(outcome: Outcome, house: House, sender: Sender) -> None:
    record, lake = sender.record, house.lake
    outcome.troubles += [*record.refused, *quarantined(lake)]
    outcome.verdicts = judge_numbers(lake, record.numbers)
    outcome.records, outcome.exports = record.records, record.exports
    outcome.retried, outcome.deaf = record.retried, record.deaf
    outcome.duplicates = duplicates_dropped(lake)
