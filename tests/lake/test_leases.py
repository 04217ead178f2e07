"""Who may take a lease, and who may not: the rule alone, without a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from neve.state.documents import dump_document, load_document
from neve.state.leases import LeaseGranted, LeaseHolder, LeaseRefused, decide_lease

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
FLOOR = int(NOON.timestamp() * 1000)
MINUTE = timedelta(minutes=1)
HELD = LeaseHolder("a", FLOOR + 7, NOON - MINUTE, NOON + MINUTE, "a rewrite")

moments = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - see timezones
owners = st.sampled_from(["a", "b", "host:1"])


@st.composite
def holders(draw: st.DrawFn) -> LeaseHolder:
    """Anyone who has held a lease."""
    since = draw(moments)
    until = since + draw(st.timedeltas(timedelta(0), timedelta(days=1)))
    return LeaseHolder(draw(owners), draw(st.integers(1, 2**53)), since, until, draw(st.text(max_size=5)))


def test_a_lease_that_nobody_has_held_is_taken() -> None:
    """Under an epoch that the clock gives."""
    assert decide_lease(None, "a", NOON) == LeaseGranted(FLOOR)


def test_a_lease_that_was_released_is_taken() -> None:
    """Under a larger epoch than before, from nobody."""
    assert decide_lease(HELD.release().document, "b", NOON) == LeaseGranted(FLOOR + 8)


def test_a_lease_that_another_one_holds_is_refused() -> None:
    """Until the moment that it says, and not at it."""
    assert decide_lease(HELD.document, "b", NOON) == LeaseRefused(HELD)
    assert isinstance(decide_lease(HELD.document, "b", HELD.until - timedelta(microseconds=1)), LeaseRefused)
    taken = decide_lease(HELD.document, "b", HELD.until)
    assert isinstance(taken, LeaseGranted)
    assert taken.before is not None
    assert (taken.before.owner, taken.before.expired) == ("a", True)


def test_an_owner_takes_its_own_again() -> None:
    """As another taking."""
    assert decide_lease(HELD.document, "a", NOON) == LeaseGranted(HELD.epoch + 1, HELD)


def test_someone_who_knows_better_takes_it() -> None:
    """From a holder whose time is not over."""
    assert decide_lease(HELD.document, "b", NOON, steal=True) == LeaseGranted(HELD.epoch + 1, HELD)


def test_a_store_that_forgot_does_not_lower_the_epoch() -> None:
    """The clock has gone on since the last taking."""
    earlier = decide_lease(None, "a", NOON)
    later = decide_lease(None, "b", NOON + MINUTE)
    assert isinstance(earlier, LeaseGranted)
    assert isinstance(later, LeaseGranted)
    assert later.epoch > earlier.epoch


@given(holders(), owners, moments, st.booleans())
def test_a_taking_is_never_of_what_another_one_holds(
    holder: LeaseHolder, owner: str, now: datetime, steal: bool
) -> None:
    """It is refused exactly when another owner's time is not over; an epoch only grows."""
    verdict = decide_lease(holder.document, owner, now, steal=steal)
    is_anothers = holder.owner != owner and now < holder.until
    assert isinstance(verdict, LeaseRefused) == (is_anothers and not steal)
    if isinstance(verdict, LeaseGranted):
        assert verdict.epoch > holder.epoch
    else:
        assert verdict.holder.is_of(holder)


@given(holders(), moments, st.floats(0.001, 1e6))
def test_a_holder_is_what_its_document_says(holder: LeaseHolder, now: datetime, seconds: float) -> None:
    """To the microsecond, through the store's text; renewed it is the same taking, released it is nobody."""
    read = LeaseHolder.of(load_document(dump_document(holder.document)), holder.since - MINUTE)
    assert read == holder
    renewed = LeaseHolder.of(holder.renew(now, seconds).document, now)
    assert renewed is not None
    assert renewed.is_of(holder)
    assert not renewed.expired
    assert renewed.until - now == timedelta(seconds=seconds)
    assert LeaseHolder.of(holder.release().document, now) is None
