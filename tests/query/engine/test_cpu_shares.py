"""Organizations that query at the same time share the processor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neve.query.engine.cpu_shares import HALF_LIFE_SECONDS, MOST_NICENESS, CpuShares


class Clock:
    """A clock that is set."""

    now = 1000.0

    def __call__(self) -> float:
        """What it was set to."""
        return self.now


def test_an_organization_alone_keeps_its_priority() -> None:
    """However much it uses."""
    shares = CpuShares(Clock())
    shares.charge("acme", 1000.0)
    assert shares.niceness("acme") == 0
    assert shares.niceness("umbrella") == 0


def test_the_organization_that_used_more_gives_way() -> None:
    """By five steps for twice the usage; the other keeps its priority."""
    shares = CpuShares(Clock())
    shares.charge("hostile", 4.0)
    shares.charge("honest", 2.0)
    assert (shares.niceness("hostile"), shares.niceness("honest")) == (5, 0)
    shares.charge("hostile", 1000.0)
    assert (shares.niceness("hostile"), shares.niceness("honest")) == (MOST_NICENESS, 0)


def test_usage_is_forgotten() -> None:
    """By half in each half-life, and in the end altogether."""
    clock = Clock()
    shares = CpuShares(clock)
    shares.charge("hostile", 8.0)
    clock.now += HALF_LIFE_SECONDS
    shares.charge("honest", 2.0)
    assert shares.niceness("hostile") == 5
    clock.now += 100 * HALF_LIFE_SECONDS
    shares.charge("honest", 2.0)
    assert shares.niceness("hostile") == 0


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0.0, 100.0), min_size=1))
def test_somebody_always_has_full_priority(used: dict[str, float]) -> None:
    """The one that used least; and nobody who used less is nicer than who used more."""
    shares = CpuShares(Clock())
    for organization, seconds in used.items():
        shares.charge(organization, seconds)
    by_usage = sorted(used, key=lambda organization: used[organization])
    found = [shares.niceness(organization) for organization in by_usage]
    assert found[0] == 0
    assert found == sorted(found)
