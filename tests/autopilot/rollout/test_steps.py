"""Steps: every file once, of one spec each, and no larger than asked unless one file is."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from neve.autopilot.rollout.stage_files import StageFile, pack_steps

FILES = st.lists(
    st.builds(
        StageFile,
        spec_id=st.integers(0, 2),
        partition=st.sampled_from("abc"),
        path=st.text("xyz", min_size=8, max_size=8),
        bytes=st.integers(1, 100),
        rows=st.integers(0, 10),
    ),
    unique_by=lambda file: file.path,
    max_size=30,
)


@given(FILES, st.integers(1, 250))
def test_steps_hold_every_file_once(files: list[StageFile], step_bytes: int) -> None:
    """Nothing is lost, mixed or larger than it has to be, whatever the order files come in."""
    steps = pack_steps(files, step_bytes)
    assert sorted(file for step in steps for file in step.files) == sorted(files)
    assert all(len({file.spec_id for file in step.files}) == 1 for step in steps)
    assert all(step.bytes <= step_bytes or len(step.files) == 1 for step in steps)
    assert sum(step.rows for step in steps) == sum(file.rows for file in files)
    assert steps == pack_steps(reversed(files), step_bytes)


@given(FILES)
def test_a_partition_that_fits_is_not_torn_apart(files: list[StageFile]) -> None:
    """Rows of one partition are laid out together while a step has room for all of them."""
    step_bytes = max(
        (
            sum(file.bytes for file in alike)
            for _, alike in groupby(sorted(files), lambda file: (file.spec_id, file.partition))
        ),
        default=1,
    )
    for step in pack_steps(files, step_bytes):
        for file in step.files:
            alike = {one for one in files if (one.spec_id, one.partition) == (file.spec_id, file.partition)}
            assert alike <= set(step.files)
