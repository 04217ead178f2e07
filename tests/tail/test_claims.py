"""Selectors that see the same traces: one of them keeps each, and Redis that is away stops nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.tail.claims import RedisClaims
from tests.parts.process import free_port
from tests.tail.lakes import Span, put

if TYPE_CHECKING:
    from tests.parts.redis import Redis
    from tests.tail.lakes import Desk

SOME = [Span(number, 1, error=number % 2 == 0) for number in range(10)]


def test_one_of_two_selectors_keeps_a_trace(desk: Desk, redis: Redis) -> None:
    """One of two selectors keeps a trace."""
    put(desk.lake, SOME)
    results = []
    for name in ("north", "south"):
        desk.set(name=name)
        selector = replace(desk.selector(at=1000), claims=RedisClaims(redis.uri, name, 7200))
        results.append(selector.run())

    assert [one.sampled.traces for one in results] == [5, 5]
    assert [one.taken.traces for one in results] == [0, 5]
    taken = {row["selector"]: row["taken_by"] for row in desk.decisions() if row["decision"] == "sampled"}
    assert taken == {"north": None, "south": "north"}
    assert all(one.remarks == () for one in results)


def test_one_that_claims_again_still_has_it(redis: Redis) -> None:
    """One that claims again still has it."""
    claims = RedisClaims(redis.uri, "again", 60)
    ids = [Span(number).trace_id for number in range(100, 103)]
    assert claims.claim("acme", ids) == ["again"] * 3
    assert claims.claim("acme", ids) == ["again"] * 3
    assert RedisClaims(redis.uri, "other", 60).claim("acme", ids) == ["again"] * 3
    assert RedisClaims(redis.uri, "other", 60).claim("globex", ids) == ["other"] * 3


def test_without_redis_decisions_go_on_and_it_is_said(desk: Desk) -> None:
    """Without redis decisions go on and it is said."""
    put(desk.lake, SOME)
    claims = RedisClaims(f"redis://127.0.0.1:{free_port()}/0", "tail", 7200)
    result = replace(desk.selector(at=1000), claims=claims).run()

    assert (result.decided.traces, result.sampled.traces, result.taken.traces) == (10, 5, 0)
    assert len(result.remarks) == 1
    assert result.remarks[0].startswith("Redis is unavailable")
