"""Parts in threads: restarted when they fail, drained at the end, and told of on the board."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from neve.app.serve import supervisor as household_module
from neve.app.serve import supervisor as keeper_module
from neve.app.serve.part import PartState
from neve.app.serve.status_reporter import report_part
from neve.app.serve.supervisor import PartRunner, Supervisor
from neve.errors import ConfigError, LakeError, TableMissing
from neve.jobs.status_board import StatusBoard
from neve.lake.calendar import now_utc
from neve.state.config import StateConfig
from tests.app.serve.little import QUICK, Deaf, Failing, Steady, wait_until
from tests.contracts.stores import opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.app.serve.part import ReportDetails
    from neve.state.documents import Documents


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Documents]:
    """A store of its own."""
    found = opened(StateConfig(path=str(tmp_path / "state.db")))
    yield found
    found.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Names of the parts that a household waits for, each with the seconds that it may take.

    The household's clock stands still. A deaf part is given up at once, and all others are waited for until they end.
    """
    waited: list[tuple[str, float]] = []
    join = PartRunner.has_ended

    def has_ended(keeper: PartRunner, within_seconds: float = 0.0) -> bool:
        waited.append((keeper.status.name, within_seconds))
        return not isinstance(keeper._part, Deaf) and join(keeper, 600)

    monkeypatch.setattr(PartRunner, "has_ended", has_ended)
    monkeypatch.setattr(household_module, "time", SimpleNamespace(monotonic=lambda: 0.0))
    return waited


def test_a_part_that_fails_is_started_again_and_leaves_the_others_alone() -> None:
    """With a pause that grows, counted and reported; the others run on without noticing."""
    failing, steady = Failing(LakeError("the catalog is away"), times=3), Steady()
    household = Supervisor([failing, steady], QUICK)
    with capture_logs() as said:
        household.start()
        wait_until(lambda: household.is_running)
    bad, good = household.statuses()
    assert (bad.restarts, bad.error, bad.details) == (3, "the catalog is away", {"attempt": 4})
    assert (good.restarts, good.error, good.details) == (0, "", {"calm": True})
    assert [line["pause_seconds"] for line in said if line["event"] == "part failed"] == [0.02, 0.04, 0.08]
    pauses = [later - earlier for earlier, later in zip(failing.starts, failing.starts[1:], strict=False)]
    assert all(pause >= wanted for pause, wanted in zip(pauses, [0.02, 0.04, 0.08], strict=True))
    assert household.stop()
    assert [status.state for status in household.statuses()] == [PartState.STOPPED] * 2
    assert household.is_empty


@pytest.mark.parametrize("error", [ConfigError("tail.policies is missing"), TableMissing("there is no table")])
def test_what_another_attempt_does_not_mend_waits_longest(error: Exception) -> None:
    """It is tried all the same, for someone may have mended it meanwhile."""
    failing = Failing(error, times=1)
    household = Supervisor([failing], QUICK)
    household.start()
    wait_until(lambda: household.is_running)
    assert failing.starts[1] - failing.starts[0] >= QUICK.restart_most_seconds
    assert household.stop()


def test_a_part_that_ends_by_itself_has_failed() -> None:
    """Nobody told it to."""

    class Short:
        name = "short"

        def run(self, *_given: object) -> None:
            return

    household = Supervisor([Short()], QUICK)
    household.start()
    wait_until(lambda: household.statuses()[0].restarts > 1)
    assert household.statuses()[0].error == "the part short ended by itself"
    assert household.stop()


@pytest.mark.parametrize("turned", [False, True])
def test_start_order_does_not_matter(turned: bool) -> None:
    """A part that needs another one tries until it is there."""
    steady = Steady("catalog")
    seen = threading.Event()

    class Needy:
        name = "needy"

        def run(self, stop: threading.Event, say: ReportDetails) -> None:
            if not seen.is_set():
                seen.set()
                raise LakeError("the catalog is not there yet")
            say({})
            stop.wait()

    household = Supervisor([Needy(), steady] if turned else [steady, Needy()], QUICK)
    household.start()
    wait_until(lambda: household.is_running)
    assert household.stop()


def test_draining_finishes_what_was_begun() -> None:
    """Parts are told at once, and waited for."""
    parts = [Steady(name) for name in ("one", "two", "three")]
    for part in parts:
        part.may_finish.clear()
    household = Supervisor(parts, QUICK)
    household.start()
    wait_until(lambda: household.is_running)
    ended: list[bool] = []
    ending = threading.Thread(target=lambda: ended.append(household.stop()))
    ending.start()
    wait_until(lambda: all(status.state == PartState.DRAINING for status in household.statuses()))
    assert not any(part.finished for part in parts)
    for part in parts:
        assert not ended
        part.may_finish.set()
    ending.join()
    assert ended == [True]
    assert all(part.finished for part in parts)


def test_what_does_not_end_in_time_is_named(waits: list[tuple[str, float]]) -> None:
    """The others have ended; nobody waits for longer than was said."""
    deaf, steady = Deaf(), Steady()
    household = Supervisor([deaf, steady], QUICK.model_copy(update={"drain_seconds": 60.0}))
    household.start()
    wait_until(lambda: household.is_running)
    with capture_logs() as said:
        assert not household.stop()
    assert waits == [("deaf", 60), ("steady", 60)]
    assert [(line["event"], line["part"]) for line in said] == [("part did not end in time", "deaf")]
    assert [status.state for status in household.statuses()] == [PartState.DRAINING, PartState.STOPPED]
    assert not household.is_empty
    deaf.wakes.set()


def test_a_keeper_waits_for_as_long_as_it_is_told() -> None:
    """And no longer, while its part runs on."""
    deaf = Deaf()
    keeper = PartRunner(deaf, QUICK, lambda: None)
    keeper.start()
    keeper.drain()
    assert not keeper.has_ended()
    assert not keeper.has_ended(within_seconds=0.05)
    deaf.wakes.set()
    assert keeper.has_ended(within_seconds=600)


def test_a_part_that_fails_at_the_end_did_not_end_well() -> None:
    """It stays to be seen, and is not started again."""
    failing = Failing(LakeError("not committed"), times=0, late=True)
    household = Supervisor([failing], QUICK)
    household.start()
    wait_until(lambda: household.is_running)
    assert not household.stop()
    assert household.is_empty
    assert (household.statuses()[0].state, len(failing.starts)) == (PartState.FAILED, 1)


def test_a_part_that_waits_for_its_turn_is_not_started_again() -> None:
    """When it is told to stop meanwhile, it ends at once, and well: it has nothing to finish."""
    failing = Failing(ConfigError("wrong"), times=9)
    household = Supervisor([failing], QUICK.model_copy(update={"restart_most_seconds": 3600.0}))
    household.start()
    wait_until(lambda: household.statuses()[0].state == PartState.FAILED)
    assert household.stop()
    assert len(failing.starts) == 1


def test_a_part_that_is_told_to_stop_just_before_it_is_started_ends_well() -> None:
    """It runs for a moment, and its thread ends without an error."""
    steady = Steady()
    keeper = PartRunner(steady, QUICK, lambda: None)

    class JustThen(threading.Event):
        asked = 0

        def is_set(self) -> bool:
            before, self.asked = super().is_set(), self.asked + 1
            if self.asked == 1:
                keeper.drain()
            return before

    keeper._stop = JustThen()
    keeper.start()
    assert keeper.has_ended(within_seconds=600)
    assert (steady.finished, keeper.status.state) == (True, PartState.STOPPED)


def test_the_board_hears_of_every_part(documents: Documents) -> None:
    """While they run and after they have ended, by the name of their instance and process."""
    board = StatusBoard(documents, "host-1", "tend")
    household = Supervisor([Steady("ingest"), Failing(LakeError("away"), times=1, name="tail")], QUICK, board)
    household.start()
    wait_until(lambda: [part.state for part in board.all()] == ["running", "running"])
    ingest, tail = board.all()
    assert (ingest.instance, ingest.process, ingest.name, ingest.pid) == ("host-1", "tend", "ingest", os.getpid())
    assert (tail.restarts, tail.error, tail.details) == (1, "away", {"attempt": 2})
    household.stop()
    assert [part.state for part in board.all()] == ["stopped", "stopped"]


def test_a_store_that_is_away_fails_no_part(documents: Documents) -> None:
    """It is said once; when it is there again, the board hears of the parts."""

    class Away(StatusBoard):
        def report(self, status: object) -> None:
            raise LakeError("the state store does not answer")

    with capture_logs() as said:
        household = Supervisor([Steady(), Steady("other")], QUICK, Away(documents, "host-1", "tend"))
        household.start()
        wait_until(lambda: household.is_running)
        assert household.stop()
    assert [(line["event"], line["error"]) for line in said] == [
        ("status of the parts can't be stored", "the state store does not answer")
    ]


def test_a_door_tells_of_itself(documents: Documents) -> None:
    """From its start to its end, also when that is an error."""
    board = StatusBoard(documents, "host-1", "receiver")
    with report_part(board, "receiver") as tell:
        wait_until(lambda: [part.state for part in board.all()] == ["started"])
        tell(PartState.RUNNING)
        wait_until(lambda: [part.state for part in board.all()] == ["running"])
    assert [part.state for part in board.all()] == ["stopped"]
    before = now_utc()
    with pytest.raises(LakeError), report_part(board, "receiver"):
        raise LakeError("it broke")
    (report,) = board.all()
    assert (report.state, report.error) == ("failed", "it broke")
    assert before <= report.since <= now_utc()


def test_a_door_that_is_ill_says_so(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is, by what it says whenever it is told of."""
    monkeypatch.setattr("neve.app.serve.status_reporter.BEAT_SECONDS", 0.02)
    board, details = StatusBoard(documents, "host-1", "receiver"), {"error": "the disk is full"}
    with report_part(board, "receiver", lambda: details) as tell:
        tell(PartState.RUNNING)
        wait_until(lambda: [(part.state, part.details) for part in board.all()] == [("running", details)])
        details = {}
        wait_until(lambda: [(part.state, part.details) for part in board.all()] == [("running", {})])


def test_a_part_that_is_ill_and_recovers(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on; the board hears of both at once, without waiting for the next beat."""
    monkeypatch.setattr("neve.app.serve.status_reporter.BEAT_SECONDS", 3600)

    class Moody(Steady):
        def run(self, stop: threading.Event, say: ReportDetails) -> None:
            say({"batch": 1})
            wait_until(lambda: [part.state for part in board.all()] == ["running"])
            say({"error": "the store is away"})
            wait_until(lambda: board.all()[0].details == {"error": "the store is away"})
            say({"batch": 2})
            wait_until(lambda: board.all()[0].details == {"batch": 2})
            self.finished = True
            stop.wait()

    board, moody = StatusBoard(documents, "host-1", "tend"), Moody()
    household = Supervisor([moody], QUICK, board)
    household.start()
    wait_until(lambda: moody.finished)
    (status,) = household.statuses()
    assert (status.state, status.restarts) == (PartState.RUNNING, 0)
    assert household.stop()


@pytest.mark.parametrize(("is_ready_first", "pauses"), [(False, [0.02, 0.04]), (True, [0.02, 0.02])])
def test_the_time_that_a_part_takes_to_get_ready_is_no_sign_of_health(
    is_ready_first: bool, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that dies as soon as it is ready waits longer each time; one that was ready for long does not."""
    now = [0.0]
    monkeypatch.setattr(keeper_module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow(Steady):
        def run(self, _stop: threading.Event, say: ReportDetails) -> None:
            if is_ready_first:
                say({})
            now[0] += 1.5 * QUICK.restart_most_seconds
            say({})
            raise LakeError("it broke")

    household = Supervisor([Slow()], QUICK)
    with capture_logs() as said:
        household.start()
        wait_until(lambda: household.statuses()[0].restarts >= len(pauses))
    household.stop()
    assert [line["pause_seconds"] for line in said if line["event"] == "part failed"][: len(pauses)] == pauses


def test_doors_end_before_the_others_are_told() -> None:
    """What they hand over at their end is there for the others to finish."""
    seen: list[bool] = []
    door = Steady("door")
    door.may_finish.clear()

    class Tending(Steady):
        def run(self, stop: threading.Event, say: ReportDetails) -> None:
            super().run(stop, say)
            seen.append(door.finished)

    household = Supervisor([Tending("tend"), door], QUICK)
    household.start()
    wait_until(lambda: household.is_running)
    threading.Timer(0.2, door.may_finish.set).start()
    assert household.stop(first=["door"])
    assert seen == [True]


def test_a_door_that_does_not_end_takes_half_of_the_time(waits: list[tuple[str, float]]) -> None:
    """The others still end well."""
    tend, door = Steady("tend"), Deaf("door")
    household = Supervisor([tend, door], QUICK.model_copy(update={"drain_seconds": 60.0}))
    household.start()
    wait_until(lambda: household.is_running)
    assert not household.stop(first=["door"])
    assert waits == [("door", 30), ("tend", 60), ("door", 60)]
    assert tend.finished
    door.wakes.set()


def test_who_has_nothing_to_finish_ends_sooner(waits: list[tuple[str, float]]) -> None:
    """What is asked for counts, not what is configured."""
    deaf = Deaf()
    household = Supervisor([deaf], QUICK.model_copy(update={"drain_seconds": 60.0}))
    household.start()
    wait_until(lambda: household.is_running)
    assert not household.stop(within_seconds=0.1)
    assert waits == [("deaf", 0.1)]
    deaf.wakes.set()
