"""A worker as a part, told to stop."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, cast

import pytest
from structlog.testing import capture_logs

from neve.app.serve.parts.worker import WorkerPart

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.jobs.worker import Worker


class Busy:
    """A worker whose job ends when it is let go, whatever it is told."""

    def __init__(self, run: Callable[[threading.Event], None]) -> None:
        self.handlers: dict[str, object] = {}
        self.released = 0
        self.run = run

    def release(self) -> None:
        """The job is given back."""
        self.released += 1


def part_of(busy: Busy, patience: float) -> WorkerPart:
    """The part of a worker."""
    return WorkerPart("worker-1", cast("Worker", busy), patience)


def test_a_job_that_does_not_end_is_given_back_and_the_part_ends_well() -> None:
    """Another one does it again; nobody waits for this one."""
    let_go, stop, over = threading.Event(), threading.Event(), threading.Event()

    def go_on(_stop: threading.Event) -> None:
        let_go.wait()
        over.set()

    busy = Busy(go_on)
    stop.set()
    with capture_logs() as said:
        part_of(busy, 0.1).run(stop, lambda _details: None)
    assert not over.is_set()
    assert busy.released == 1
    assert [line["event"] for line in said] == ["job returned to the queue, it did not end in time"]
    let_go.set()


def test_a_job_that_ends_in_time_is_not_given_back() -> None:
    """It is waited for."""
    stop = threading.Event()

    def finish(stopped: threading.Event) -> None:
        stopped.wait()
        time.sleep(0.2)

    busy = Busy(finish)
    threading.Timer(0.1, stop.set).start()
    part_of(busy, 600).run(stop, lambda _details: None)
    assert busy.released == 0


def test_a_worker_that_fails_is_a_part_that_fails() -> None:
    """With its own words."""

    def fail(_stop: threading.Event) -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        part_of(Busy(fail), 1).run(threading.Event(), lambda _details: None)
