"""The household: the parts of one process, each in its thread; one that fails takes no other down."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from neve.app.serve.herald import Herald
from neve.app.serve.keeper import Keeper
from neve.app.serve.part import PartState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.part import Part
    from neve.work.board import Board, PartStatus

log = structlog.get_logger("neve.serve")


class Household:
    """Parts that are kept running until it is stopped; told of on a board, where there is one."""

    def __init__(self, parts: Sequence[Part], config: ServeConfig, board: Board | None = None) -> None:
        self.config = config
        self._stop = threading.Event()
        self._herald = Herald(board, self.statuses) if board else None
        self._keepers = [Keeper(part, config, self._stop, self._changed) for part in parts]

    def start(self) -> None:
        """Start every part, in no order that any of them may count on."""
        if self._herald:
            self._herald.start()
        for keeper in self._keepers:
            keeper.start()

    def statuses(self) -> list[PartStatus]:
        """How each part is."""
        return [keeper.status for keeper in self._keepers]

    @property
    def is_running(self) -> bool:
        """Whether every part is."""
        return all(status.state == PartState.RUNNING for status in self.statuses())

    @property
    def is_empty(self) -> bool:
        """Whether no part is at work any more."""
        return all(keeper.has_ended() for keeper in self._keepers)

    def stop(self) -> bool:
        """Tell every part to stop, and wait until they have; whether all ended well, and in time."""
        self._stop.set()
        for keeper in self._keepers:
            keeper.drain()
        deadline = time.monotonic() + self.config.drain_seconds
        left = [keeper for keeper in self._keepers if not keeper.has_ended(deadline - time.monotonic())]
        for keeper in left:
            log.error("part did not end in time", part=keeper.status.name, seconds=self.config.drain_seconds)
        if self._herald:
            self._herald.close()
        return all(status.state == PartState.STOPPED for status in self.statuses())

    def _changed(self) -> None:
        if self._herald:
            self._herald.wake()
