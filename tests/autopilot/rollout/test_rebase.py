"""What of a staged layout can be replayed on a main that moved, and what is staged again."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from neve.autopilot.rollout.rebase import plan_rebase
from neve.autopilot.rollout.stage_files import StageFile
from neve.lake.commit.branch_files import FileSwap

PATHS = [f"f{number}" for number in range(8)]


def swap(number: int, paths: list[str]) -> FileSwap:
    """A step of a branch that was the last to need a delete file."""
    return FileSwap(number, (), tuple({"file-path": path} for path in paths), ({"file-path": "d"},), pinned=True)


def file(path: str) -> StageFile:
    """A file of main."""
    return StageFile(0, "", path, 1, 1)


@given(
    st.sets(st.sampled_from(PATHS)),
    st.dictionaries(st.sampled_from(PATHS), st.frozensets(st.sampled_from("xy"), max_size=2)),
    st.sets(st.sampled_from(["new1", "new2"])),
)
def test_touched_steps_alone_are_staged_again(
    gone: set[str], deleted: dict[str, frozenset[str]], new: set[str]
) -> None:
    """Untouched ones are replayed whole; of the others what main still has comes again; nothing else does."""
    swaps = [swap(number, PATHS[2 * number : 2 * number + 2]) for number in range(4)]
    then: dict[str, frozenset[str]] = dict.fromkeys(PATHS, frozenset())
    now = {path: deleted.get(path, frozenset()) for path in PATHS if path not in gone} | dict.fromkeys(new, frozenset())
    found = plan_rebase(swaps, then, now, {path: file(path) for path in now}, sorted(new))
    clean = {path for one in found.clean for path in one.paths}
    again = {one.path for one in found.again}
    assert all(now.get(path) == frozenset() for path in clean)
    assert not clean & again
    assert again <= set(now)
    assert clean | again | gone | new == set(PATHS) | new
    assert new <= again
    for one in swaps:
        touched = any(now.get(path) != frozenset() for path in one.paths)
        assert touched == (one.snapshot_id not in {kept.snapshot_id for kept in found.clean})
    # A delete file may go only where nothing that needs it comes again.
    assert all(bool(one.removed_deletes) == (len(found.clean) == len(swaps)) for one in found.clean)


def test_deletes_by_values_need_no_step_again() -> None:
    """They reach new files that count as old ones, and not those that count as new."""
    then = {"f0": frozenset[str]()}
    now = {"f0": frozenset({"EQUALITY_DELETES:e#None"})}
    pinned = swap(1, ["f0"])
    assert plan_rebase([pinned], then, now, {"f0": file("f0")}).clean == (pinned,)
    assert plan_rebase([replace(pinned, pinned=False)], then, now, {"f0": file("f0")}).again == (file("f0"),)
