"""The mark `lake`: tests that create Iceberg tables or commit to them, which `make test-fast` leaves out.

A commit takes 40 ms of CPU time, and most of these tests make several. A test is marked if it uses the fixture
`iceberg`, also through others: fixtures that make a lake ask for it. Those of the session don't, because a lake that
many tests read costs little. In a run without marked tests, others that change a table fail: quick tests stay quick.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests import empty_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

LAKE = "lake"
FIXTURE = "iceberg"
# Tests with one of the others don't run with the quick ones either.
APART = frozenset({LAKE, "spark", "parts", "e2e", "kills", "long", "outside"})
ADVICE = "a test that changes Iceberg tables asks for the fixture `iceberg` or has the mark `lake`"

_may_change = [True]


@pytest.fixture(scope="session")
def iceberg() -> None:
    """Mark the tests that use it, also through other fixtures, as those of a lake."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the fixture."""
    for item in items:
        if FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker(LAKE)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Remember whether the test that runs may change tables."""
    _may_change.append(any(mark.name in APART for mark in item.iter_markers()))
    try:
        return (yield)
    finally:
        _may_change.pop()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Let fixtures of the session fill a lake, whichever test is the first to use it."""
    _may_change.append(_may_change[-1] or fixturedef.scope == "session")
    try:
        return (yield)
    finally:
        _may_change.pop()


@pytest.fixture(scope="session", autouse=True)
def guarded_tables(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail tests that change tables and are not marked, in a run that leaves marked ones out."""
    with guard_tables() if f"not {LAKE}" in pytestconfig.option.markexpr else nullcontext():
        yield


@contextmanager
def guard_tables() -> Iterator[None]:
    """Check the mark of the running test before each change of a table."""
    with pytest.MonkeyPatch.context() as patched:
        for owner, name in (
            (SqlCatalog, "create_table"),
            (SqlCatalog, "commit_table"),
            (empty_tables, "write_metadata"),
        ):
            patched.setattr(owner, name, _guard(getattr(owner, name)))
        yield


def _guard(change: Callable[..., Any]) -> Callable[..., Any]:
    def check_and_change(*arguments: Any, **options: Any) -> Any:
        check_mark()
        return change(*arguments, **options)

    return check_and_change


def check_mark() -> None:
    """Fail the running test if it stands among the quick ones.

    What this raises is no `Exception`: nothing that handles errors of a lake takes it for one.
    """
    if not _may_change[-1]:
        pytest.fail(ADVICE)
