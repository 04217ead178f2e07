"""How parts look to those who watch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neve.app.serve.part import PartsHealth, PartState, part_document
from neve.jobs.status_board import LOST, PartStatus
from neve.lake.calendar import now_utc

words = st.text("abc ", max_size=5)


@given(st.sampled_from([*PartState, LOST]), words, words)
def test_a_part_is_ill_by_its_state_or_by_what_it_says(state: str, failed_of: str, said: str) -> None:
    """What it says counts while it runs, and does not keep it from being ready; what it failed of before is over."""
    status = PartStatus(name="tail", state=state, since=now_utc(), error=failed_of, details={"error": said})
    sight = PartsHealth([part_document("tend", status)])
    says_so = state == PartState.RUNNING and said != ""
    assert bool(sight.problems) == (says_so or state in {PartState.FAILED, LOST})
    assert bool(sight.unready) == (state != PartState.RUNNING)
    if says_so:
        assert sight.problems == [f"tail (running, degraded): {said}"]
