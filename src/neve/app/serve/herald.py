"""Who tells the board how parts are: a thread of its own, so that a store that is slow or away holds up no part."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from neve.app.serve.part import PartState
from neve.app.serve.words import words_of
from neve.lake.calendar import now_utc
from neve.work.board import PartStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neve.work.board import Board

BEAT_SECONDS = 5.0
LAST_SECONDS = 5.0  # that the last words may take

log = structlog.get_logger("neve.serve")


class Herald:
    """Tells how parts are, every few seconds and whenever one of them has changed."""

    def __init__(self, board: Board, statuses: Callable[[], Sequence[PartStatus]]) -> None:
        self._board = board
        self._statuses = statuses
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._is_heard = True
        self._thread = threading.Thread(target=self._tell_on, name="herald", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Have it told soon that something has changed."""
        self._changed.set()

    def close(self) -> None:
        """Tell how all has ended."""
        self._ended.set()
        self._changed.set()
        self._thread.join(LAST_SECONDS)

    def _tell_on(self) -> None:
        self._try(self._board.forget_old)
        while not self._ended.is_set():
            self._try(self._tell)
            self._changed.wait(BEAT_SECONDS)
            self._changed.clear()
        self._try(self._tell)

    def _tell(self) -> None:
        for status in self._statuses():
            self._board.report(status)

    def _try(self, speak: Callable[[], object]) -> None:
        try:
            speak()
            self._is_heard = True
        except Exception as error:
            # Whatever it is, the parts are as well as before, and the next time is soon. Said once, until it is over.
            if self._is_heard:
                log.warning("parts can't be reported", error=str(error))
            self._is_heard = False


@contextmanager
def telling(
    board: Board, name: str, details: Callable[[], Mapping[str, object]] = dict
) -> Iterator[Callable[[PartState], None]]:
    """Tell of the one part of this process, while the block runs; it is called with each state of the part.

    `details` are what the part has to say whenever it is told of: as with others, it is ill while it says an `error`.
    """
    now = PartStatus(name=name, state=PartState.STARTED, since=now_utc())
    herald = Herald(board, lambda: [replace(now, details=details())])

    def tell(state: PartState, error: str = "") -> None:
        nonlocal now
        now = PartStatus(name=name, state=state, since=now_utc(), error=error)
        herald.wake()

    herald.start()
    try:
        yield tell
        tell(PartState.STOPPED)
    except BaseException as error:
        tell(PartState.FAILED, words_of(error))
        raise
    finally:
        herald.close()
