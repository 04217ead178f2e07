"""Waiting for what takes long, such that Ctrl-C ends it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

END_SECONDS = 5  # that what was cancelled may take to end before it is left behind

Result = TypeVar("Result")


def wait_for(work: Callable[[], Result], cancel: Callable[[], None]) -> Result:
    """What `work` returns or raises, done in another thread; Ctrl-C calls `cancel` and is raised when that is over."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def do() -> None:
        try:
            results.append(work())
        except BaseException as error:  # it is raised where it is waited for
            errors.append(error)
        finally:
            ended.set()

    ended = threading.Event()  # a join that Ctrl-C ends would take the thread for one that has ended
    threading.Thread(target=do, daemon=True).start()
    try:
        ended.wait()
    except KeyboardInterrupt:
        cancel()
        ended.wait(END_SECONDS)
        raise
    if errors:
        raise errors[0]
    return results[0]
