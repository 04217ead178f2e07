"""A child process answers, or costs one request."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from neve.lake.child import Child, ChildFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = "tests.lake.obedient"
MB = 1024 * 1024


@pytest.fixture
def child() -> Iterator[Child]:
    """A child that does what it is told."""
    made = Child(MODULE, 200 * MB)
    made.wait_ready(60)
    yield made
    made.close()


def test_requests_are_answered_one_after_the_other(child: Child) -> None:
    """Whatever their size, and whatever is printed beside them."""
    for size in (0, 1, 5 * MB):
        answer, data = child.ask({"do": "echo"}, os.urandom(size), 60)
        assert (answer["pid"], len(data)) == (child.pid, size)
    assert child.is_fit


def test_memory_is_limited(child: Child) -> None:
    """More than the limit is told as such, and no other process notices."""
    assert child.ask({"do": "allocate", "bytes": 100 * MB}, b"", 60)[0]["bytes"] == 100 * MB
    with pytest.raises(ChildFailed, match=f"more than {200 * MB} bytes of memory") as caught:
        child.ask({"do": "allocate", "bytes": 400 * MB}, b"", 60)
    assert caught.value.by_limit
    assert not child.is_fit


def test_a_child_that_dies_is_told_from_one_that_answers(child: Child) -> None:
    """With how it ended."""
    with pytest.raises(ChildFailed, match="ended by SIGSEGV") as caught:
        child.ask({"do": "die", "signal": signal.SIGSEGV}, b"", 60)
    assert not caught.value.by_limit
    with pytest.raises(ChildFailed):
        child.ask({"do": "echo"}, b"", 60)


def test_a_child_that_does_not_answer_is_ended(child: Child) -> None:
    """When its time is over."""
    with pytest.raises(ChildFailed, match=r"took more than 0\.1 s") as caught:
        child.ask({"do": "hang"}, b"", 0.1)
    assert caught.value.by_limit
    assert not child.is_fit


def test_a_child_that_keeps_memory_is_replaced(child: Child) -> None:
    """Later requests must not pay for it."""
    child.ask({"do": "keep", "bytes": 150 * MB}, b"", 60)
    assert not child.is_fit
