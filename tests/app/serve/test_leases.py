"""Leases of those who do jobs."""

from __future__ import annotations

from neve.app.autopilot import autopilot_config
from neve.app.serve.parts.worker import MAX_LEASE_SECONDS, with_short_leases
from neve.app.settings import Settings
from neve.jobs.worker import BEAT_SECONDS, Worker


def held(settings: Settings) -> dict[str, float]:
    """How long each room that does jobs holds what it works at."""
    return {
        "compact": settings.compact.lease_seconds,
        "maintain": settings.maintain.lease_seconds,
        "rollup": settings.rollup.lease_seconds,
        "search": settings.search.lease_seconds,
        "series": settings.series.lease_seconds,
        "traces": settings.traces.lease_seconds,
        "autopilot": settings.autopilot.lease_seconds,
        "stage": settings.autopilot.stage.lease_seconds,
    }


def test_what_a_killed_worker_held_is_free_when_its_job_is() -> None:
    """However late before its end the one was renewed, and however early the other."""
    assert set(held(with_short_leases(Settings())).values()) == {MAX_LEASE_SECONDS}
    assert Worker.lease_seconds - BEAT_SECONDS >= MAX_LEASE_SECONDS


def test_what_the_user_wants_even_shorter_stays() -> None:
    """Each room for itself, and nothing else is another."""
    plain = Settings.model_validate({"rollup": {"lease_seconds": 2}, "maintain": {"lease_seconds": 10}})
    short = with_short_leases(plain)
    assert held(short) == dict.fromkeys(held(plain), MAX_LEASE_SECONDS) | {"rollup": 2, "maintain": 10}
    assert short.model_dump() | dict.fromkeys(held(plain)) == plain.model_dump() | dict.fromkeys(held(plain))


def test_old_variables_are_heard_all_the_same() -> None:
    """What is not set is filled from them, and the lease is as short as before."""
    found = autopilot_config(with_short_leases(Settings()), {"TRINO_HOST": "there", "LAKEFS_ENDPOINT": "http://fs"})
    assert (found.logs.trino.host, found.stage.lakefs.endpoint) == ("there", "http://fs")
    assert found.lease_seconds == found.stage.lease_seconds == MAX_LEASE_SECONDS
