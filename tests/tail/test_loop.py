"""Tail sampling that goes on: what comes while it runs is exported, and a part that fails is tried again."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from structlog.testing import capture_logs

from neve.app import tail
from neve.app.tail import backoff_seconds, run_forever
from neve.errors import LeaseTaken, NeveError
from tests.tail.lakes import ERRORS, START, Span, policies, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.tail.export.exporter import Exporter
    from neve.tail.selector import TailSelector
    from tests.tail.lakes import Desk

PATIENCE = 600.0


def test_what_comes_while_it_runs_is_exported(desk: Desk) -> None:
    """Begun before anything was decided; every later decision reaches the destination."""
    desk.policies = policies(ERRORS)
    desk.set(interval_seconds=0.1, export={"destinations": [{"name": "kept", "kind": "iceberg"}]})
    with Running(_in_a_hurry(desk)) as running:
        for number in (1, 2):
            put(desk.lake, [Span(number, 1, error=True), Span(number, 2), Span(number + 10, 1)])
            running.until(partial(_has, desk, 2 * number))
    assert running.failures == []


def test_a_part_that_fails_is_told_and_tried_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it fails with: here an error of the engine, first of the export and then of the cycle."""
    desk.policies = policies(ERRORS)
    desk.set(interval_seconds=0.05, export={"destinations": [{"name": "kept", "kind": "iceberg"}]})
    selector = _in_a_hurry(desk)
    put(desk.lake, [Span(1, 1, error=True)])
    _break(monkeypatch, "neve.tail.export.exporter.Exporter.run", duckdb.OutOfMemoryException("no memory\nhelp"))
    _break(monkeypatch, "neve.tail.selector.TailSelector.run", OSError("no space"))
    with Running(selector) as running:
        running.until(partial(_has, desk, 1))
    assert sorted(error.message for error in running.failures) == sorted(
        ["OutOfMemoryException: no memory"] * 2 + ["OSError: no space"] * 2
    )


@pytest.mark.parametrize(("error", "waits"), [(ValueError("x"), [1, 2, 4]), (LeaseTaken("x"), [1, 1, 1])])
def test_the_next_turn_comes_later_with_each_failure(error: Exception, waits: list[float]) -> None:
    """Unless another process just has its turn."""
    waited: list[float] = []

    class Event(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0)
            return len(waited) == len(waits)

    def work() -> None:
        raise error

    tail._repeat(1, Event(), lambda _error: None, work)
    assert waited == waits
    assert backoff_seconds(1, 100) == tail.MOST_SECONDS


class Running:
    """A loop in a thread."""

    def __init__(self, selector: TailSelector) -> None:
        self.failures: list[NeveError] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(selector,))

    def _run(self, selector: TailSelector) -> None:
        run_forever(
            selector,
            export=True,
            tell=lambda _result: None,
            exported=lambda _results: None,
            failed=self.failures.append,
            stop=self._stop,
        )

    def until(self, done: Callable[[], bool]) -> None:
        """Wait for something."""
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, [str(error) for error in self.failures]
            time.sleep(0.1)

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def _in_a_hurry(desk: Desk) -> TailSelector:
    """A selector for which ten minutes pass whenever it looks at its clock."""
    moments = (START + timedelta(minutes=10 * number) for number in itertools.count(1))
    return replace(desk.selector(at=0), clock=lambda: next(moments))


def _has(desk: Desk, spans: int) -> bool:
    """Whether so many were exported."""
    return bool(desk.lake.table("sampled_spans").scan().to_arrow().num_rows == spans)


def _break(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, times: int = 2) -> None:
    """Let something fail a few times before it does what it should."""
    module, _, method = name.rpartition(".")
    package, _, owner = module.rpartition(".")
    kind = getattr(__import__(package, fromlist=[owner]), owner)
    real, left = getattr(kind, method), iter([error] * times)

    def run(self: Exporter | TailSelector) -> Any:
        failure = next(left, None)
        if failure is not None:
            raise failure
        return real(self)

    monkeypatch.setattr(kind, method, run)


def test_a_lease_is_stolen_once(desk: Desk) -> None:
    """Whoever took the selector over later is not robbed of it in every turn."""
    turns = tail._steal_once(replace(desk.selector(at=0), steal=True))
    assert [next(turns).steal for _turn in range(3)] == [True, False, False]


def test_deliveries_that_do_not_end_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one after the other; how many are left is said."""
    now = [0.0]
    waited: list[float] = []

    class Endless(threading.Thread):
        """A delivery that never ends: whoever waits for it waits for all of the time that it has for that."""

        def join(self, timeout: float | None = None) -> None:
            assert timeout is not None
            waited.append(timeout)
            now[0] += timeout

        def is_alive(self) -> bool:
            return True

    monkeypatch.setattr(tail, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with capture_logs() as said:
        tail._join_deliveries([Endless() for _number in range(5)], 20)
    assert waited == [20, 0, 0, 0, 0]
    assert [(line["event"], line["destinations"]) for line in said] == [("deliveries did not end in time", 5)]
    ending = threading.Thread(target=lambda: None)
    ending.start()
    with capture_logs() as said:
        tail._join_deliveries([ending], PATIENCE)
    assert said == []
