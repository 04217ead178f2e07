"""Profiles of property tests: all examples, a quarter of them, or new ones.

`make test` and `make test-fast` use the profile `quick`, `make test-long` runs all examples. The option
`--hypothesis-profile` selects one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

T = TypeVar("T")
QUICK = "quick"
QUICK_SHARE, QUICK_MINIMUM = 4, 5

# Other load on the machine is no failure. Each run has the same examples, so that a failure belongs to the change.
settings.register_profile("neve", deadline=None, derandomize=True)
settings.register_profile(QUICK, deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile("neve")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reduce the examples of the tests that state their number, which no profile can do."""
    if config.getoption("--hypothesis-profile") != QUICK:
        return
    tests = {id(test): test for test in (_property_of(item) for item in items) if test is not None}
    for test in tests.values():
        reduce_examples(test)


def _property_of(item: pytest.Item) -> Any:
    """Return the function, or the class of a state machine's test, that has the settings of a property test."""
    machine = getattr(item, "cls", None)
    if isinstance(getattr(machine, "settings", None), settings):
        return machine
    test = getattr(item, "obj", None)
    return getattr(test, "__func__", test) if getattr(test, "is_hypothesis_test", False) else None


def reduce_examples(test: Any) -> None:
    """Let a property test run a quarter of its examples, the first ones, but no fewer than five if it has so many."""
    name = "settings" if isinstance(test, type) else "_hypothesis_internal_use_settings"
    stated: settings = getattr(test, name, settings())
    quick = max(stated.max_examples // QUICK_SHARE, min(stated.max_examples, QUICK_MINIMUM))
    setattr(test, name, settings(stated, max_examples=quick))


def sample(cases: Sequence[T]) -> Sequence[T]:
    """Return all cases of an expensive list, or every fourth of them in the profile `quick`."""
    return cases[::QUICK_SHARE] if settings.get_current_profile_name() == QUICK else cases
