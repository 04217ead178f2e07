"""The bytes that queries of a day may read, counted by all servers together."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.errors import LakeError, LimitExceeded
from neve.query.config import LimitRule, QueryConfig
from neve.query.daily_usage import DailyUsage, bytes_of_day
from neve.query.limits import Limits, limits_for
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HUNDRED = Limits(daily_bytes=100)


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[SqlDocuments]:
    """A state store."""
    made = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    yield made
    made.close()


def test_a_day_is_used_up_by_all_keys_together_and_begins_anew() -> None:
    """What is refused is not counted, and another organization has a day of its own."""
    now = [NOON]
    usage = DailyUsage(None, lambda: now[0])
    usage.charge(("acme", "a"), 60, HUNDRED)
    with pytest.raises(LimitExceeded, match="60 of the 100 bytes that this organization may read") as caught:
        usage.charge(("acme", "b"), 41, HUNDRED)
    assert caught.value.limit == "daily_bytes"
    usage.charge(("acme", "b"), 40, HUNDRED)
    usage.charge(("globex", "c"), 100, HUNDRED)
    now[0] += timedelta(hours=12)
    usage.charge(("acme", "a"), 100, HUNDRED)


def test_a_key_has_a_day_of_its_own_beside_that_of_its_organization() -> None:
    """A rule for a key does not replace the one for its organization."""
    rules = (LimitRule(organization="acme", daily_bytes=100), LimitRule(key="a", daily_bytes=10))
    config = QueryConfig(limits=rules)
    usage = DailyUsage(None, lambda: NOON)
    with pytest.raises(LimitExceeded, match="bytes that this key may read"):
        usage.charge(("acme", "a"), 11, limits_for(config, "acme", "a"))
    usage.charge(("acme", "b"), 95, limits_for(config, "acme", "b"))
    with pytest.raises(LimitExceeded, match="bytes that this organization may read"):
        usage.charge(("acme", "a"), 6, limits_for(config, "acme", "a"))


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 50)), max_size=12))
def test_servers_count_together(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]]) -> None:
    """However their queries are mixed, the store has the sum in the end, and a new server begins with it."""
    store = SqlDocuments(StateStore(StateConfig(path=str(tmp_path_factory.mktemp("state") / "state.db"))))
    servers = [DailyUsage(store, lambda: NOON) for _ in range(3)]
    for server, organization, size in steps:
        servers[server].charge((organization, "k"), size, Limits())
    for one in servers:
        one.flush()
    for organization in {step[1] for step in steps}:
        total = sum(size for _, owner, size in steps if owner == organization)
        assert dict(bytes_of_day(store, NOON)).get(organization, 0) == total
        with pytest.raises(LimitExceeded):
            DailyUsage(store, lambda: NOON).charge((organization, "k"), 101 - min(total, 100), HUNDRED)
    store.close()


def test_a_store_that_is_away_stops_no_query(documents: SqlDocuments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a server counts for itself, and tells the others later."""
    usage = DailyUsage(documents, lambda: NOON)

    def fail(*_: object) -> None:
        raise LakeError("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(documents, "get", fail)
        usage.charge(("acme", "a"), 60, HUNDRED)
        with pytest.raises(LimitExceeded):
            usage.charge(("acme", "a"), 60, HUNDRED)
    usage.flush()
    assert bytes_of_day(documents, NOON) == [("acme", 60)]


def test_days_that_are_over_are_forgotten(documents: SqlDocuments) -> None:
    """The store does not grow by a document a day and organization."""
    now = [NOON]
    usage = DailyUsage(documents, lambda: now[0])
    usage.charge(("acme", "a"), 60, Limits())
    usage.flush()
    assert bytes_of_day(documents, NOON) == [("acme", 60)]
    now[0] += timedelta(days=1)
    usage.charge(("acme", "a"), 7, Limits())
    usage.flush()
    while bytes_of_day(documents, NOON):
        time.sleep(0.001)
    assert bytes_of_day(documents, now[0]) == [("acme", 7)]
