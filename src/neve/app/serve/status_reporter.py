"""The status reporter: writes the state of parts to the status board, in a thread of its own.

A state store that is slow or unavailable then delays no part.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from neve.app.serve.part import PartState
from neve.errors import NeveError
from neve.jobs.status_board import PartStatus
from neve.lake.calendar import now_utc
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neve.jobs.status_board import StatusBoard


def describe_error(error: BaseException) -> str:
    """Return the error on one line.

    >>> describe_error(OSError("no space")), describe_error(NeveError("the catalog is away"))
    ('OSError: no space', 'the catalog is away')
    """
    if isinstance(error, NeveError):
        return error.message
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


BEAT_SECONDS = 5.0
LAST_SECONDS = 5.0  # time limit of the last report

log = get_logger("neve.serve")


class StatusReporter:
    """Thread that reports the state of parts every few seconds, and whenever a state changes."""

    def __init__(self, board: StatusBoard, statuses: Callable[[], Sequence[PartStatus]]) -> None:
        self._board = board
        self._statuses = statuses
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._is_heard = True
        self._thread = threading.Thread(target=self._report_regularly, name="reporter", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Request a report soon, because something has changed."""
        self._changed.set()

    def close(self) -> None:
        """Report the final states."""
        self._ended.set()
        self._changed.set()
        self._thread.join(LAST_SECONDS)

    def _report_regularly(self) -> None:
        self._try(self._board.forget_old)
        while not self._ended.is_set():
            self._try(self._report)
            self._changed.wait(BEAT_SECONDS)
            self._changed.clear()
        self._try(self._report)

    def _report(self) -> None:
        for status in self._statuses():
            self._board.report(status)

    def _try(self, speak: Callable[[], object]) -> None:
        try:
            speak()
            self._is_heard = True
        except Exception as error:
            # Any error: the parts are not affected, and the next report is soon. It is logged once until reports
            # succeed again.
            if self._is_heard:
                log.warning("status of the parts can't be stored", error=str(error))
            self._is_heard = False


@contextmanager
def report_part(
    board: StatusBoard, name: str, details: Callable[[], Mapping[str, object]] = dict
) -> Iterator[Callable[[PartState], None]]:
    """Report the single part of this process while the block runs; the yielded function sets its state.

    `details` are included in each report. As with other parts, it is unhealthy while they contain an `error`.
    """
    now = PartStatus(name=name, state=PartState.STARTED, since=now_utc())
    reporter = StatusReporter(board, lambda: [replace(now, details=details())])

    def report(state: PartState, error: str = "") -> None:
        nonlocal now
        now = PartStatus(name=name, state=state, since=now_utc(), error=error)
        reporter.wake()

    reporter.start()
    try:
        yield report
        report(PartState.STOPPED)
    except BaseException as error:
        report(PartState.FAILED, describe_error(error))
        raise
    finally:
        reporter.close()
