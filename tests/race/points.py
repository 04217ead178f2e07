"""Points in a run at which a compactor kills itself: the product's own functions, wrapped in the child alone."""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

from neve.compact import journal, recovery
from neve.compact.journal import Entry, Journal, Stage
from neve.lake.commit.java_commit import replace_files
from tests.race.deaths import Death, Point

if TYPE_CHECKING:
    from collections.abc import Callable

NOTES = {
    Stage.WRITTEN: (Point.WRITTEN,),
    Stage.PUBLISHING: (Point.PUBLISHING, Point.STALLED),
    Stage.COMMITTED: (Point.NOTED,),
}


def arm(death: Death, say: Callable[..., None]) -> None:
    """From now on, whoever passes the death's point the right time dies there."""
    passed = _trap(death, say)
    _wrap_journal(passed)
    _wrap(replace_files, passed, (Point.COMMITTING, Point.ORPHANED), (Point.COMMITTED,))
    _wrap(recovery.remove_leftovers, passed, (Point.SWEEPING,), (Point.SWEPT,))


def _trap(death: Death, say: Callable[..., None]) -> Callable[[Point], None]:
    numbers = count(1)

    def die() -> None:
        say("dies", point=str(death))
        if death.point is Point.STALLED:
            os.killpg(0, signal.SIGSTOP)
            return
        if death.point is Point.ORPHANED:
            os.kill(os.getpid(), signal.SIGKILL)
        os.killpg(0, signal.SIGKILL)

    def passed(point: Point) -> None:
        if point is not death.point or next(numbers) != death.number:
            return
        if point in (Point.COMMITTING, Point.ORPHANED):
            threading.Timer(death.seconds, die).start()
        else:
            die()

    return passed


def _wrap_journal(passed: Callable[[Point], None]) -> None:
    begin, note = Journal.begin, Journal.note

    def begin_and_pass(self: Journal, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        passed(Point.NOTED_RUN)

    def note_and_pass(self: Journal, run_id: str, entry: Entry) -> None:
        if entry.stage is Stage.WRITTEN:
            passed(Point.UNNOTED)
        note(self, run_id, entry)
        for point in NOTES.get(entry.stage, ()):
            passed(point)

    Journal.begin = begin_and_pass  # type: ignore[method-assign]
    Journal.note = note_and_pass  # type: ignore[method-assign]
    Journal.end = _ending(passed)  # type: ignore[method-assign,assignment]


def _ending(passed: Callable[[Point], None]) -> Callable[[Journal, str], None]:
    """The end of a run in which dying leaves as little of it as can be: it is known, and its groups are not."""
    end = Journal.end

    class Last:
        """The store, in which the run itself is forgotten last."""

        def __init__(self, documents: Any) -> None:
            self._documents = documents

        def __getattr__(self, name: str) -> Any:
            return getattr(self._documents, name)

        def delete(self, space: str, key: str) -> None:
            if space == journal.RUNS:
                passed(Point.ENDING)
            self._documents.delete(space, key)

    def end_and_pass(self: Journal, run_id: str) -> None:
        end(Journal(Last(self._documents), self._table), run_id)

    return end_and_pass


def _wrap(
    function: Callable[..., Any], passed: Callable[[Point], None], before: tuple[Point, ...], after: tuple[Point, ...]
) -> None:
    """Put another function in the place of one, wherever the product imported it to."""

    def wrapped(*given: Any, **named: Any) -> Any:
        for point in before:
            passed(point)
        result = function(*given, **named)
        for point in after:
            passed(point)
        return result

    name = function.__name__
    for module in [module for key, module in sys.modules.items() if key.startswith("neve.")]:
        if getattr(module, name, None) is function:
            setattr(module, name, wrapped)
