"""The household: the parts of one process, each in its thread; one that fails takes no other down."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from neve.app.serve.herald import Herald
from neve.app.serve.keeper import Keeper
from neve.app.serve.part import PartState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.part import Part
    from neve.work.board import Board, PartStatus

log = structlog.get_logger("neve.serve")


class Household:
    """Parts that are kept running until it is stopped; told of on a board, where there is one."""

    def __init__(self, parts: Sequence[Part], config: ServeConfig, board: Board | None = None) -> None:
        self.config = config
        self._herald = Herald(board, self.statuses) if board else None
        self._keepers = [Keeper(part, config, self._changed) for part in parts]

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

    def stop(self, first: Collection[str] = (), within_seconds: float | None = None) -> bool:
        """Tell every part to stop, and wait until they have; whether all ended well, and in time.

        Those that are named first end before the others are told, unless that takes half of the time: what they still
        hand over is then there for the others to finish.
        """
        began, seconds = time.monotonic(), self.config.drain_seconds if within_seconds is None else within_seconds
        early = [keeper for keeper in self._keepers if keeper.status.name in first]
        for wave, until in ((early, began + seconds / 2), (self._keepers, began + seconds)):
            for keeper in wave:
                keeper.drain()
            left = [keeper for keeper in wave if not keeper.has_ended(until - time.monotonic())]
        for keeper in left:
            log.error("part did not end in time", part=keeper.status.name, seconds=seconds)
        if self._herald:
            self._herald.close()
        return all(status.state == PartState.STOPPED for status in self.statuses())

    def _changed(self) -> None:
        if self._herald:
            self._herald.wake()
