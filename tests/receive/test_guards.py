"""Who is let in, and how much at a time."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog

from neve.errors import ConfigError, LakeError, RawZoneError
from neve.lake.config import S3Config
from neve.raw.frame import MAGIC
from neve.raw.zone import RawZone
from neve.receive.authentication import (
    MAX_KNOWN,
    NEW_BURST_SECONDS,
    NEW_PER_SECOND,
    PEER_SHARE,
    KeyGuard,
    OpenGuard,
    extract_key,
)
from neve.receive.backpressure import Backpressure
from neve.receive.budget import Budget
from neve.receive.config import ReceiverConfig, check_receiver
from neve.receive.refusal import Refusal, Verdict
from neve.state.scopes import ALL_SCOPES, Caller, Scope


class Book:
    """Keys in a dictionary, and how often it was opened."""

    def __init__(self, **keys: str) -> None:
        self.keys = keys
        self.looks = 0
        self.broken = False

    def verify(self, text: str) -> Caller | None:
        """Look a key up; its first letter is its id, and one that begins with `w` may only write."""
        self.looks += 1
        if self.broken:
            raise LakeError("can't reach postgresql://db-prod:5432")
        scopes = (Scope.WRITE,) if text.startswith("w") else ALL_SCOPES
        return Caller(self.keys[text], text[0], scopes) if text in self.keys else None


def ask(door: KeyGuard | OpenGuard, key: str | None, peer: str = "") -> str | Verdict:
    """Who a key speaks for, or why it speaks for nobody."""
    try:
        return asyncio.run(door.caller(key, Scope.WRITE, peer)).organization
    except Refusal as refusal:
        return refusal.verdict


def test_a_key_speaks_for_its_organization() -> None:
    """No key, a wrong one and a right one have answers of their own."""
    door = KeyGuard(Book(good="acme"), 5.0)
    assert [ask(door, key) for key in (None, "", "bad", "good")] == [
        Verdict.NO_KEY,
        Verdict.NO_KEY,
        Verdict.WRONG_KEY,
        "acme",
    ]


def test_a_key_does_what_its_scopes_say() -> None:
    """One look serves both; who may not is told what the key may."""
    book = Book(good="acme", weak="acme")
    door = KeyGuard(book, 5.0)
    assert asyncio.run(door.caller("good", Scope.READ)) == Caller("acme", "g")
    assert [ask(door, "good"), ask(door, "weak")] == ["acme", "acme"]
    with pytest.raises(Refusal, match=r"this key lacks the scope `read` \(it has: write\)") as caught:
        asyncio.run(door.caller("weak", Scope.READ))
    assert (caught.value.verdict, caught.value.reason) == (Verdict.WRONG_KEY, "wrong_scope")
    assert book.looks == 2


def test_an_answer_is_kept_for_a_while() -> None:
    """A second request does not ask again; when the time is over, a revoked key is found out."""
    book = Book(good="acme")
    door = KeyGuard(book, 5.0)
    assert [ask(door, "good"), ask(door, "good"), ask(door, "bad"), ask(door, "bad")][1::2] == [
        "acme",
        Verdict.WRONG_KEY,
    ]
    assert book.looks == 2
    forgetful = KeyGuard(book, 0.0)
    assert ask(forgetful, "good") == "acme"
    book.keys.clear()
    assert ask(forgetful, "good") is Verdict.WRONG_KEY


def test_keys_that_are_tried_out_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many answers are kept."""
    monkeypatch.setattr("neve.receive.authentication.MAX_KNOWN", 3)
    door = KeyGuard(Book(), 60.0)
    for number in range(10):
        ask(door, f"guess-{number}")
    assert (len(door._known), len(door._unknown)) == (0, 3)
    assert MAX_KNOWN > 1000


def test_unknown_keys_push_no_good_one_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are tried, the good one is not looked up again before its time."""
    monkeypatch.setattr("neve.receive.authentication.MAX_KNOWN", 3)
    book = Book(good="acme")
    door = KeyGuard(book, 60.0, clock=lambda: 0.0)
    assert ask(door, "good") == "acme"
    for number in range(20):
        ask(door, f"guess-{number}")
    looks = book.looks
    assert (ask(door, "good"), book.looks) == ("acme", looks)


@pytest.mark.slow
def test_unknown_keys_are_looked_up_only_so_often() -> None:
    """Then they wait; a key that was good before is looked up all the same, and a new one when its turn comes."""
    book, now = Book(good="acme", new="umbrella"), [0.0]
    door = KeyGuard(book, 5.0, clock=lambda: now[0])
    assert ask(door, "good") == "acme"
    told = [ask(door, f"guess-{number}") for number in range(1000)]
    assert set(told) == {Verdict.WRONG_KEY, Verdict.BUSY}
    assert book.looks == 1 + NEW_PER_SECOND * NEW_BURST_SECONDS
    assert ask(door, "new") is Verdict.BUSY
    now[0] = 6.0  # the answer about the good one is old by now, and the guesses go on
    for number in range(1000, 3000):
        ask(door, f"guess-{number}")
    assert ask(door, "good") == "acme"
    now[0] = 7.0
    assert ask(door, "new") == "umbrella"


@pytest.mark.slow
def test_who_tries_out_keys_keeps_out_itself() -> None:
    """A good key that was never seen is looked up while another address tries out as many as it may, from the start."""
    book, now = Book(good="acme"), [0.0]
    door = KeyGuard(book, 5.0, clock=lambda: now[0])
    for number in range(2000):
        now[0] += 0.01
        ask(door, f"guess-{number}", f"2001:db8::{number:x}")
    assert book.looks <= (NEW_BURST_SECONDS + 20) * NEW_PER_SECOND * PEER_SHARE + 1
    assert ask(door, "good", "2001:db8::7") is Verdict.BUSY
    assert ask(door, "good", "192.0.2.7") == "acme"


@pytest.mark.slow
def test_many_addresses_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all of them together may try out; and only so many are remembered."""
    monkeypatch.setattr("neve.receive.authentication.MAX_PEERS", 10)
    book = Book()
    door = KeyGuard(book, 5.0, clock=lambda: 0.0)
    for number in range(1000):
        ask(door, f"guess-{number}", f"192.0.{number // 250}.{number % 250}")
    assert (book.looks, len(door._new_of)) == (NEW_PER_SECOND * NEW_BURST_SECONDS, 10)


@pytest.mark.slow
def test_good_keys_cost_nothing() -> None:
    """A receiver that was just started learns a thousand of them at once."""
    names = {f"key-{number}": "acme" for number in range(1000)}
    door = KeyGuard(Book(**names), 5.0, clock=lambda: 0.0)
    assert {ask(door, name, "192.0.2.7") for name in names} == {"acme"}


def test_a_store_that_fails_is_no_verdict_on_a_key() -> None:
    """The sender is told to come back, not to go away."""
    book = Book(good="acme")
    book.broken = True
    assert ask(KeyGuard(book, 5.0), "good") is Verdict.UNAVAILABLE


def test_strangers_hear_nothing_of_the_store() -> None:
    """Its words name hosts and users: they are in the log, by the id that the answer has."""
    book = Book()
    book.broken = True
    with structlog.testing.capture_logs() as logged, pytest.raises(Refusal) as caught:
        asyncio.run(KeyGuard(book, 5.0).caller("guess", Scope.WRITE))
    assert "db-prod" not in caught.value.message
    assert caught.value.message.startswith("authentication is unavailable, try again (incident ")
    [line] = logged
    assert line["reason"] == "can't reach postgresql://db-prod:5432"
    assert line["incident"] in caught.value.message


def test_an_expired_key_is_refused_with_the_reason() -> None:
    """To the second, also while the answer about it is kept."""
    end = datetime(2026, 1, 31, 12, tzinfo=UTC)
    clock = [end - timedelta(seconds=1)]

    class Ending:
        def verify(self, text: str) -> Caller | None:
            return Caller("acme", text, expires_at=end)

    door = KeyGuard(Ending(), 3600, now=lambda: clock[0])
    assert ask(door, "k") == "acme"
    clock[0] = end
    with pytest.raises(
        Refusal, match="expired at 2026-01-31T12:00:00Z: create another with `neve keys create`"
    ) as caught:
        asyncio.run(door.caller("k", Scope.WRITE))
    assert (caught.value.verdict, caught.value.reason) == (Verdict.WRONG_KEY, "expired_key")


def test_the_open_door_operates_only_where_that_was_said() -> None:
    """Writing and reading are free; to operate the lake is a setting."""
    caller = asyncio.run(OpenGuard("default").caller(None, Scope.ADMIN))
    assert (caller.may(Scope.READ), caller.may(Scope.ADMIN)) == (True, False)
    assert asyncio.run(OpenGuard("default", admin=True).caller(None, Scope.ADMIN)).may(Scope.ADMIN)


def test_the_open_door_asks_nothing() -> None:
    """Everyone is the configured organization."""
    assert ask(OpenGuard("default"), None) == "default"
    assert asyncio.run(OpenGuard("default").caller(None, Scope.READ)) == Caller("default")


@pytest.mark.parametrize(
    ("authorization", "api_key", "expected"),
    [
        ("Bearer abc", None, "abc"),
        ("bearer  abc ", "other", "abc"),
        (None, " abc ", "abc"),
        ("Basic !!!", None, None),
        ("Basic bmV2ZQ==", None, None),
        ("Digest x", "abc", "abc"),
        ("Bearer", None, None),
        (None, None, None),
        ("", "", None),
    ],
)
def test_the_key_is_found_in_the_headers(authorization: str | None, api_key: str | None, expected: str | None) -> None:
    """In any of the ways that senders know."""
    assert extract_key(authorization, api_key) == expected


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "example.com"])  # noqa: S104 - they are refused
def test_an_open_receiver_stays_on_loopback(host: str) -> None:
    """The whole network could write otherwise; with keys it may."""
    with pytest.raises(ConfigError, match=r"receiver\.auth is 'open'"):
        check_receiver(ReceiverConfig(host=host))
    check_receiver(ReceiverConfig(host=host, auth="keys"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_may_be_open(host: str) -> None:
    """For development."""
    check_receiver(ReceiverConfig(host=host))


def test_a_message_must_fit_into_the_budget() -> None:
    """Its sender would be told to come back for ever."""
    with pytest.raises(ConfigError, match=r"receiver\.max_inflight_bytes is 1048576, expected at least twice"):
        check_receiver(ReceiverConfig(max_inflight_bytes=1024 * 1024))


def test_a_budget_is_shared() -> None:
    """What one request holds another can't have, until it is given back."""
    budget = Budget(100)
    with budget.hold() as first, budget.hold() as second:
        first.grow(60)
        second.grow(40)
        with pytest.raises(Refusal) as caught:
            second.grow(1)
        assert (caught.value.verdict, caught.value.reason) == (Verdict.BUSY, "over_budget")
        first.shrink(10)
        second.grow(10)
        assert budget.used == 100
    assert budget.used == 0


def test_a_backlog_becomes_pressure_and_goes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be ingested is measured; above its limit nothing more is taken. A failure is soon tried again."""
    pressure = Backpressure(RawZone.of(str(tmp_path), S3Config(), "otlp"), 100)
    segment = tmp_path / "otlp" / "20260101T000000-00000000" / "000000000000.raw"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(MAGIC + bytes(93))
    asyncio.run(pressure.measure())
    with pytest.raises(Refusal) as caught:
        pressure.check()
    assert (caught.value.verdict, caught.value.reason) == (Verdict.UNAVAILABLE, "backlog")
    assert "101 bytes wait" in (pressure.problem or "")
    segment.write_bytes(MAGIC)
    asyncio.run(pressure.measure())
    pressure.check()
    assert not pressure.problem
    pressure.record_failure(RawZoneError("the disk is full"))
    assert str(pressure.problem) == "the disk is full"
    pressure.check()
    monkeypatch.setattr("neve.receive.backpressure.FAILURE_SECONDS", 0.0)
    assert not pressure.problem
    pressure.draining = True
    with pytest.raises(Refusal, match="stopping"):
        pressure.check()


def test_a_known_key_is_verified_again_before_its_time_is_over() -> None:
    """No request waits for the store; a revoked key is refused from its next verification on."""
    book, now, free = Book(good="acme"), [0.0], threading.Event()
    guard = KeyGuard(book, 5.0, clock=lambda: now[0])
    verify = book.verify

    def wait_and_verify(text: str) -> Caller | None:
        free.wait()
        return verify(text)

    async def ask_twice() -> list[str]:
        return [(await guard.caller("good", Scope.WRITE)).organization for _ in range(2)]

    async def refresh() -> None:
        assert await ask_twice() == ["acme", "acme"]  # while the store does not answer
        free.set()
        await asyncio.gather(*guard._refreshing.values())

    asyncio.run(ask_twice())
    assert book.looks == 1
    book.verify = wait_and_verify  # type: ignore[method-assign]
    now[0] = 3.0
    asyncio.run(refresh())
    assert book.looks == 2
    now[0] = 7.0  # the first answer is over, the second is not
    book.keys.clear()
    asyncio.run(refresh())
    assert ask(guard, "good") is Verdict.WRONG_KEY


def test_a_store_that_is_away_ends_no_known_key_early() -> None:
    """Its answer is good until its time."""
    book, now = Book(good="acme"), [0.0]
    guard = KeyGuard(book, 5.0, clock=lambda: now[0])

    async def ask_and_refresh() -> str:
        organization = (await guard.caller("good", Scope.WRITE)).organization
        await asyncio.gather(*guard._refreshing.values())
        return organization

    assert asyncio.run(ask_and_refresh()) == "acme"
    book.broken, now[0] = True, 4.0
    assert asyncio.run(ask_and_refresh()) == "acme"
    now[0] = 5.0
    assert ask(guard, "good") is Verdict.UNAVAILABLE
