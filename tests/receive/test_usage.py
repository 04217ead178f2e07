"""One organization fills its share of the backlog, not that of the others."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.receive.backpressure import Usage
from neve.receive.refusal import Refusal, Verdict


def test_a_share_is_refused_and_others_go_on() -> None:
    """Until what it sent was ingested."""
    usage = Usage(share_bytes=1000, block_bytes=100)
    for _ in range(11):
        usage.check("hostile")
        usage.count_stored("hostile", 400, 3, 100)
    usage.count_stored("honest", 50, 1, 100)
    with pytest.raises(Refusal, match="1100 bytes of hostile wait to be ingested, its share") as caught:
        usage.check("hostile")
    assert (caught.value.verdict, caught.value.reason) == (Verdict.BUSY, "backlog_share")
    usage.check("honest")
    usage.settle(1000)  # the two oldest messages are in the tables
    usage.check("hostile")
    assert (usage.waiting("hostile"), usage.waiting("honest"), usage.largest_waiting) == (900, 100, 900)
    usage.settle(0)
    assert (usage.waiting("hostile"), usage.waiting("honest"), usage.largest_waiting) == (0, 0, 0)


@given(
    steps=st.lists(
        st.one_of(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), st.floats(0, 1)),
        max_size=80,
    ),
    block=st.integers(1, 100),
)
def test_what_waits_is_never_less_than_there_is(steps: list[tuple[str, int] | float], block: int) -> None:
    """And more by one block at most; bytes are ingested in the order in which they were kept."""
    usage, waiting = Usage(block_bytes=block), []
    for step in steps:
        if isinstance(step, tuple):
            usage.count_stored(step[0], 1, 1, step[1])
            waiting.append(step)
            continue
        waiting = waiting[int(step * len(waiting)) :]
        left = sum(size for _owner, size in waiting)
        usage.settle(left)
        true = Counter[str]()
        for owner, size in waiting:
            true[owner] += size
        found = {owner: usage.waiting(owner) for owner in "abc"}
        assert all(found[owner] >= true[owner] for owner in "abc")
        assert sum(found.values()) <= left + block + 50


def test_the_report_names_those_who_send_most() -> None:
    """With what they sent, what was refused of it and what waits."""
    usage = Usage()
    usage.count_stored("small", 10, 1, 5)
    usage.count_stored("large", 1000, 20, 400)
    usage.count_refused("small")
    assert list(usage.report()) == [
        {"organization": "large", "bytes": 1000, "records": 20, "refused": 0, "backlog_bytes": 400},
        {"organization": "small", "bytes": 10, "records": 1, "refused": 1, "backlog_bytes": 5},
    ]


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who sent last."""
    monkeypatch.setattr("neve.receive.backpressure.MAX_KNOWN", 3)
    usage = Usage()
    for number in range(10):
        usage.count_stored(f"org-{number}", 1, 1, 1)
    assert {row["organization"] for row in usage.report()} == {"org-7", "org-8", "org-9"}
