"""The incident is plain to see in its window, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.demo.generate import ground_truth
from neve.demo.incident import make_exhausted_failure, plan_incident
from neve.demo.order_services import PAYMENT_POOL
from neve.demo.spans import MINUTE, SECOND, SERVER
from neve.errors import ConfigError

if TYPE_CHECKING:
    from neve.demo.simulation import Simulation

START = 1_770_026_400_000_000_000


def test_it_lies_around_minute_37_of_an_hour() -> None:
    """By default the window is minutes 34 to 40, and the release goes out a minute before."""
    incident = plan_incident(START, 60)
    assert incident.window == (START + 34 * MINUTE, START + 40 * MINUTE)
    assert incident.deployed == START + 33 * MINUTE


def test_it_scales_with_the_run() -> None:
    """In a shorter run it lies as far in, and takes as large a part."""
    incident = plan_incident(START, 30)
    assert incident.window == (START + 17 * MINUTE, START + 20 * MINUTE)


def test_it_must_lie_in_the_run() -> None:
    """A window that leaves the run is refused, with the numbers."""
    with pytest.raises(ConfigError, match="incident of 2 minutes around minute 9 is not within the run of 6 minutes"):
        plan_incident(START, 6, minute=9, length=2)


def test_connections_leak_from_the_release_to_the_rollback() -> None:
    """Nothing has leaked before the release, all in the window, nothing after the rollback."""
    incident = plan_incident(START, 60)
    assert incident.leaked_share(incident.deployed - 1) == 0.0
    assert incident.leaked_share(incident.deployed + MINUTE // 2) == 0.5
    assert incident.leaked_share(incident.window.start) == 1.0
    assert incident.leaked_share(incident.window.end - 1) == 1.0
    assert incident.leaked_share(incident.window.end) == 0.0


def test_the_pool_says_why() -> None:
    """The failure names the pool, the timeout and the state that it is in."""
    message = make_exhausted_failure(PAYMENT_POOL, waiting=2).message
    assert message == (
        "HikariPool-1 - Connection is not available, request timed out after 1500ms "
        "(total=10, active=10, idle=0, waiting=2)"
    )


def test_payment_is_slow_and_fails_only_in_the_window(simulation: Simulation) -> None:
    """In the window payment takes about 20 times as long and about 35 % fail; outside it hardly any do."""
    truth = ground_truth(simulation.spans, simulation.incident)
    inside, outside = truth.payment_in_window, truth.payment_outside
    assert inside.requests > 40
    assert 0.2 < inside.error_rate < 0.5
    assert outside.error_rate < 0.03
    assert 12 < inside.median_ms / outside.median_ms < 35
    assert inside.p95_ms > 1000
    assert outside.p95_ms < 200


def test_the_callers_suffer_in_the_window(simulation: Simulation) -> None:
    """Checkouts fail and drag in the window; calls time out and are tried again."""
    truth = ground_truth(simulation.spans, simulation.incident)
    assert truth.checkout_in_window.failed > 0
    assert truth.checkout_in_window.median_ms > 4 * truth.checkout_outside.median_ms
    assert truth.payment_timeouts > 0
    assert truth.payment_retries > 0
    assert {"payment", "checkout", "frontend"} <= set(truth.errors_by_service)


def test_checkouts_fail_for_want_of_a_connection_only_in_the_window(simulation: Simulation) -> None:
    """A checkout that no payment was to be had for has begun in the window, or moments before it."""
    window = simulation.incident.window
    checkouts = [span for span in simulation.spans if span.operation == "POST /checkout" and span.kind == SERVER]
    starved = [span for span in checkouts if span.failure is not None and span.failure.code == "UNAVAILABLE"]
    assert starved
    assert all(window.start - SECOND <= span.start < window.end for span in starved)


def test_only_the_bad_release_serves_in_the_window(simulation: Simulation) -> None:
    """Every payment span that starts in the window comes from the bad version; after it, none does."""
    incident = simulation.incident
    payments = [span for span in simulation.spans if span.service == "payment" and span.kind == SERVER]
    inside = {span.instance.version for span in payments if incident.window.contains(span.start)}
    after = {span.instance.version for span in payments if span.start >= incident.window.end}
    assert inside == {incident.bad_version}
    assert after == {incident.good_version}


def test_the_example_trace_tells_the_whole_story(simulation: Simulation) -> None:
    """The failed checkout that is named as an example has a starved wait for a connection in it."""
    truth = ground_truth(simulation.spans, simulation.incident)
    spans = [span for span in simulation.spans if span.trace_id.hex() == truth.failed_checkout_trace_id]
    starved = [span for span in spans if span.name == "HikariPool-1.getConnection" and span.failure is not None]
    assert starved
    assert {span.service for span in spans} >= {"frontend", "checkout", "payment", "fraud"}
