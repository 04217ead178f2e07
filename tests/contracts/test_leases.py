"""What leases do, whichever store keeps them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from neve.errors import LakeError, LeaseLost, LeaseTaken
from neve.state.leases import SPACE, find_lease_holder, hold_worker_lease
from tests.contracts.stores import OPENED, argument, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from neve.state.config import StateConfig
    from neve.state.documents import Documents

NAME = "compact:telemetry.spans"
LONG = 600.0  # longer than any test
SHORT = 1.5
KEPT = 6.0  # a machine that stands still for two thirds of it would lose the lease
PATIENCE = 600.0
HOLD = """
import time
from neve.state.leases import hold_worker_lease
with hold_worker_lease(documents, sys.argv[2], owner="doomed", seconds=float(sys.argv[3]), what="a rewrite"):
    print("held", flush=True)
    time.sleep(600)
"""


@dataclass
class Watched:
    """A store whose clock can be put forward, and that can be made to fail."""

    documents: Documents
    ahead: timedelta = timedelta(0)
    fails: threading.Event = field(default_factory=threading.Event)

    def put(self, space: str, key: str, value: Mapping[str, object]) -> None:
        """As the store does."""
        self._answer().put(space, key, value)

    def get(self, space: str, key: str) -> dict[str, object] | None:
        """As the store does."""
        return self._answer().get(space, key)

    def entries(self, space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
        """As the store does."""
        return self._answer().entries(space, prefix)

    def delete(self, space: str, key: str) -> None:
        """As the store does."""
        self._answer().delete(space, key)

    def swap(
        self, space: str, key: str, expected: Mapping[str, object] | None, value: Mapping[str, object] | None
    ) -> bool:
        """As the store does."""
        return self._answer().swap(space, key, expected, value)

    def now(self) -> datetime:
        """The store's clock, put forward."""
        return self._answer().now() + self.ahead

    def close(self) -> None:
        """As the store does."""
        self.documents.close()

    def _answer(self) -> Documents:
        if self.fails.is_set():
            raise LakeError("the store is away", hint="call it back")
        return self.documents


@pytest.fixture
def watched(documents: Documents) -> Watched:
    """The store, as someone else sees it."""
    return Watched(documents)


def attempt(documents: Documents, owner: str) -> bool:
    """Whether someone gets the lease, which is given back at once."""
    try:
        with hold_worker_lease(documents, NAME, owner=owner, seconds=LONG):
            return True
    except LeaseTaken:
        return False


def test_one_holds_and_the_other_is_told(documents: Documents) -> None:
    """By whom, for what, since when and until when, and what can be done."""
    with hold_worker_lease(documents, NAME, owner="a", seconds=LONG, what="a rewrite") as lease:
        holder = find_lease_holder(documents, NAME)
        assert holder == lease.holder
        with pytest.raises(LeaseTaken) as caught, hold_worker_lease(documents, NAME, owner="b", seconds=LONG):
            pass
        with hold_worker_lease(documents, "another", owner="b", seconds=LONG):
            lease.check()
    assert caught.value.message.startswith(f"the lease {NAME!r} is held by a for a rewrite since 2")
    for moment in (lease.holder.since, holder.until):
        assert moment.strftime("%Y-%m-%d %H:%M:%S UTC") in caught.value.message
    assert "--steal" in str(caught.value.hint)


def test_a_lease_is_free_at_its_end(documents: Documents) -> None:
    """Of work that failed, too; each taking has a larger epoch, and one that never was is free."""
    assert find_lease_holder(documents, NAME) is None
    epochs = []
    for owner in ("a", "b", "a"):
        with suppress(ZeroDivisionError), hold_worker_lease(documents, NAME, owner=owner, seconds=LONG) as lease:
            epochs.append(lease.epoch)
            raise ZeroDivisionError
        assert find_lease_holder(documents, NAME) is None
    assert epochs == sorted(set(epochs))


def test_one_of_many_at_once_wins(store: StateConfig) -> None:
    """Each with connections of its own; the others are told who it was."""
    start, done = threading.Barrier(6), threading.Barrier(6)

    def run(number: int) -> str:
        documents = opened(store)
        start.wait()
        try:
            with hold_worker_lease(documents, NAME, owner=f"owner {number}", seconds=LONG) as lease:
                done.wait()
                lease.check()
                return f"owner {number} won"
        except LeaseTaken as error:
            done.wait()
            return error.message
        finally:
            documents.close()

    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(run, range(6)))
    winners = [words for words in said if words.endswith(" won")]
    assert len(winners) == 1
    winner = winners[0].removesuffix(" won")
    assert sum(f"is held by {winner} since" in words for words in said) == 5


@pytest.mark.slow
def test_a_killed_holder_is_followed_after_its_time(store: StateConfig, documents: Documents) -> None:
    """And not before, by the store's clock."""
    command = [sys.executable, "-c", OPENED + HOLD, argument(store), NAME, str(SHORT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.kill()
    dead = find_lease_holder(documents, NAME)
    assert dead is not None
    assert (dead.owner, dead.what) == ("doomed", "a rewrite")
    taken = None
    while taken is None:
        began = documents.now()
        try:
            with hold_worker_lease(documents, NAME, owner="b", seconds=LONG) as lease:
                taken = lease.holder
        except LeaseTaken:
            assert began < dead.until  # the first attempt after that gets it
            time.sleep(0.02)
    assert taken.since >= dead.until
    assert taken.epoch > dead.epoch


def test_a_holder_is_safe_until_its_time_is_over(documents: Documents, watched: Watched) -> None:
    """Someone whose clock says so takes over; the holder finds that out, and leaves the other one's lease alone."""
    with hold_worker_lease(documents, NAME, owner="a", seconds=LONG) as lease:
        watched.ahead = timedelta(seconds=LONG - 60)
        assert not attempt(watched, "b")
        watched.ahead = timedelta(seconds=LONG + 60)
        expired = find_lease_holder(watched, NAME)
        assert expired is not None
        assert expired.expired
        with hold_worker_lease(watched, NAME, owner="b", seconds=LONG) as other:
            assert other.epoch > lease.epoch
            with pytest.raises(LeaseLost, match=f"a lost the lease {NAME!r}, .*: b holds it since"):
                lease.check()
            other.check()
    assert find_lease_holder(documents, NAME) is None


def test_a_lost_lease_is_not_released(documents: Documents) -> None:
    """It is another one's."""
    with hold_worker_lease(documents, NAME, owner="a", seconds=LONG):
        other = hold_worker_lease(documents, NAME, owner="b", seconds=LONG, steal=True)
        other.__enter__()
    holder = find_lease_holder(documents, NAME)
    assert holder is not None
    assert holder.owner == "b"
    other.__exit__(None, None, None)
    assert find_lease_holder(documents, NAME) is None


def test_renewing_keeps_a_lease(documents: Documents) -> None:
    """Well beyond its time, while another one keeps trying."""
    with hold_worker_lease(documents, NAME, owner="a", seconds=KEPT) as lease:
        first = lease.holder
        while documents.now() < first.until + timedelta(seconds=0.3):
            assert not attempt(documents, "b")
            time.sleep(0.05)
        lease.check()
        assert lease.holder.until > first.until
        assert (lease.holder.since, lease.epoch) == (first.since, first.epoch)


def test_a_check_gives_the_whole_time_again(documents: Documents, watched: Watched) -> None:
    """Even of a lease that has expired, while nobody has taken it."""
    with hold_worker_lease(watched, NAME, owner="a", seconds=LONG) as lease:
        watched.ahead = timedelta(seconds=2 * LONG)
        lease.check()
        assert not attempt(watched, "b")
        assert lease.holder.until >= documents.now() + timedelta(seconds=2.9 * LONG)


def test_a_store_that_is_away_makes_a_lease_doubtful(documents: Documents, watched: Watched) -> None:
    """Whoever can't tell must not publish; when the store is back in time, the lease is still held."""
    with hold_worker_lease(watched, NAME, owner="a", seconds=LONG) as lease:
        watched.fails.set()
        with pytest.raises(LeaseLost, match=f"can't verify that a still holds .*{NAME}.*: the store is away"):
            lease.check()
        watched.fails.clear()
        lease.check()
        watched.fails.set()
    holder = find_lease_holder(documents, NAME)
    assert holder is not None
    assert holder.owner == "a"


def test_renewals_that_fail_are_tried_again(documents: Documents, watched: Watched) -> None:
    """The background outlives a store that was away for a while."""
    with hold_worker_lease(watched, NAME, owner="a", seconds=SHORT) as lease:
        first = lease.holder
        watched.fails.set()
        time.sleep(SHORT / 2)
        watched.fails.clear()
        until = time.monotonic() + PATIENCE
        while lease.holder.until == first.until and time.monotonic() < until:
            time.sleep(0.02)
        assert lease.holder.until > first.until


def test_the_background_notices_a_loss(documents: Documents) -> None:
    """It stops, and does not take the lease back."""
    with hold_worker_lease(documents, NAME, owner="a", seconds=SHORT):
        with hold_worker_lease(documents, NAME, owner="b", seconds=LONG, steal=True) as other:
            time.sleep(SHORT)
            other.check()
        assert find_lease_holder(documents, NAME) is None
        while [thread for thread in threading.enumerate() if thread.name == f"lease {NAME}"]:
            time.sleep(0.02)
        assert find_lease_holder(documents, NAME) is None


def test_a_stolen_lease_is_lost_after_its_release(documents: Documents) -> None:
    """A holder that was alive finds it lost, and the next acquisition has a larger epoch."""
    with hold_worker_lease(documents, NAME, owner="a", seconds=LONG) as lease:
        lease.check()
        with hold_worker_lease(documents, NAME, owner="c", seconds=LONG, steal=True):
            pass
        assert find_lease_holder(documents, NAME) is None
        with pytest.raises(LeaseLost, match="it was released by another one"):
            lease.check()
        with hold_worker_lease(documents, NAME, owner="b", seconds=LONG) as other:
            assert other.epoch > lease.epoch


def test_an_owner_that_was_started_anew_goes_on(documents: Documents) -> None:
    """It need not wait for itself; what it held before is lost."""
    older, newer = (hold_worker_lease(documents, NAME, owner="a", seconds=LONG) for _ in range(2))
    with older as first, newer as second:
        assert second.epoch > first.epoch
        with pytest.raises(LeaseLost):
            first.check()
        second.check()


def test_a_lease_whose_document_was_lost_is_lost(documents: Documents) -> None:
    """A store that forgets does not let two go on."""
    with hold_worker_lease(documents, NAME, owner="a", seconds=LONG) as lease:
        documents.delete(SPACE, NAME)
        with pytest.raises(LeaseLost):
            lease.check()


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_lease_without_a_duration_is_rejected(documents: Documents, seconds: float) -> None:
    """It would expire at once."""
    with pytest.raises(ValueError, match="expected more than 0"), hold_worker_lease(documents, NAME, seconds=seconds):
        pass


def test_owners_without_a_name_are_distinct(documents: Documents) -> None:
    """Two workers of one process exclude each other."""
    with (
        hold_worker_lease(documents, NAME, seconds=LONG),
        pytest.raises(LeaseTaken),
        hold_worker_lease(documents, NAME, seconds=LONG),
    ):
        pass
