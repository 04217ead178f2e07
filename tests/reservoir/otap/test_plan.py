"""Which windows are sampled, and why: files that come late, change or vanish, and runs that died."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.reservoir.otap.ledger import SampledWindow
from neve.reservoir.otap.root_files import RootFile
from neve.reservoir.otap.source import Plan, PlannedWindow, PlanScope, plan_windows
from neve.reservoir.windows import NANOS, UNIX_EPOCH, Window, nanos_of

SECONDS = 60
POLICY, OTHER = "this", "another"
LATE = PlanScope(SECONDS, now_ns=10**9 * NANOS)


def file_of(name: str, windows: dict[int, int], version: int = 0) -> RootFile:
    """A file with so many records of windows, these by number."""
    counts = tuple((number * SECONDS * NANOS, count) for number, count in sorted(windows.items()))
    return RootFile(name, "part", 100 + version, version, counts)


def carried_out(plan: Plan, policy: str = POLICY, *, done: bool = True) -> dict[int, SampledWindow]:
    """What is written down when a plan was carried out, or died at its last window."""
    return {
        planned.window.start_ns: SampledWindow(
            start_ns=planned.window.start_ns,
            seconds=SECONDS,
            policy=policy,
            how="",
            by=(),
            files=tuple(file.identity for file in planned.files),
            outputs=(),
            generation=planned.generation,
            records=planned.records,
            kept=planned.records,
            done=done,
        )
        for planned in plan.to_sample
    }


names = st.sampled_from("abcde")
held = st.dictionaries(st.integers(0, 4), st.integers(1, 9), max_size=3)
folders = st.dictionaries(names, st.tuples(held, st.integers(0, 1))).map(
    lambda found: [file_of(name, windows, version) for name, (windows, version) in sorted(found.items())]
)


def identities(files: list[RootFile], start_ns: int) -> set[tuple[str, int, int]]:
    """The files that hold records of a window."""
    return {file.identity for file in files if start_ns in dict(file.windows)}


@given(folders, folders, st.booleans(), st.sets(st.integers(0, 4)))
def test_windows_are_sampled_when_their_files_are_others(
    before: list[RootFile], after: list[RootFile], again: bool, died: set[int]
) -> None:
    """Then, or when a run died in them, and never else; carried out, nothing is left to do."""
    first = plan_windows(before, {}, POLICY, LATE)
    known = carried_out(first)
    known = {start: replace(one, done=start // (SECONDS * NANOS) not in died) for start, one in known.items()}
    plan = plan_windows(after, known, POLICY, replace(LATE, again=again))
    starts = {start for file in after for start, _count in file.windows}
    expected = {
        start
        for start in starts
        if again or start not in known or not known[start].done or identities(before, start) != identities(after, start)
    }
    assert {planned.window.start_ns for planned in plan.to_sample} == expected
    assert plan.current == len(starts - expected)
    assert plan.gone == len(known.keys() - starts)
    assert [planned.window for planned in plan.to_sample] == sorted(planned.window for planned in plan.to_sample)
    for planned in plan.to_sample:
        check_turn(planned, after, known.get(planned.window.start_ns))
    assert not plan_windows(after, {**known, **carried_out(plan)}, POLICY, LATE).to_sample


def check_turn(planned: PlannedWindow, files: list[RootFile], before: SampledWindow | None) -> None:
    """A turn has all files of its window in the order of their paths, and takes the place of what was."""
    assert [file.path for file in planned.files] == sorted(
        path for path, *_ in identities(files, planned.window.start_ns)
    )
    assert planned.records == sum(dict(file.windows).get(planned.window.start_ns, 0) for file in files)
    assert planned.replaces == before
    assert planned.reason
    # What a dead run wrote has the same names as what is written in its place.
    assert planned.generation == (0 if before is None else before.generation + before.done)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 200), st.integers(0, 600))
def test_the_windows_of_a_time(since: int, until: int, settle: int, now: int) -> None:
    """Those that end after the one moment and begin before the other; those that have not settled wait."""
    files = [file_of("a", dict.fromkeys(range(5), 1))]
    first, last = UNIX_EPOCH + timedelta(seconds=since), UNIX_EPOCH + timedelta(seconds=until, microseconds=1)
    plan = plan_windows(files, {}, POLICY, PlanScope(SECONDS, now * NANOS, settle, first, last))
    covered = [number for number in range(5) if (number + 1) * SECONDS > since and number * SECONDS <= until]
    settled = [number for number in covered if not settle or (number + 1) * SECONDS + settle <= now]
    assert [planned.window.start_ns // NANOS // SECONDS for planned in plan.to_sample] == settled
    assert plan.waiting == len(covered) - len(settled)


def test_another_policy_is_told_and_left() -> None:
    """Windows that were sampled in another way stay as they are until it is asked for."""
    files = [file_of("a", {0: 3, 1: 4})]
    known = carried_out(plan_windows(files, {}, OTHER, LATE), OTHER)
    plan = plan_windows(files, known, POLICY, LATE)
    assert (plan.to_sample, plan.current, plan.other_policy) == ((), 2, 2)
    again = plan_windows(files, known, POLICY, replace(LATE, again=True))
    assert [planned.reason for planned in again.to_sample] == ["resampling was requested"] * 2


def test_reasons_tell_what_happened() -> None:
    """In words, with numbers."""
    a, b, c = (file_of(name, {0: 1}) for name in "abc")
    known = carried_out(plan_windows([a], {}, POLICY, LATE))

    def reason(*files: RootFile, before: dict[int, SampledWindow] = known) -> str:
        (planned,) = plan_windows(files, before, POLICY, LATE).to_sample
        return planned.reason

    assert reason(a, before={}) == "not sampled yet"
    assert reason(a, b) == "1 late file"
    assert reason(a, b, c) == "2 late files"
    assert reason(file_of("a", {0: 1}, version=1)) == "1 of its files are new or changed, 1 were deleted"
    assert reason(a, before={0: replace(known[0], done=False)}) == "an earlier run was interrupted"


@given(st.integers(-(2**62), 2**62), st.integers(1, 86_400))
def test_a_moment_is_in_its_window(time_ns: int, seconds: int) -> None:
    """And in no other; windows are counted from 1970, before it too."""
    window = Window.at(time_ns, seconds)
    assert window.start_ns <= time_ns < window.end_ns
    assert window.start_ns % (seconds * NANOS) == 0
    assert Window.at(window.end_ns, seconds).start_ns == window.end_ns
    assert nanos_of(window.start) == window.start_ns


@pytest.mark.parametrize(
    ("since", "until", "inside"), [(0, 0, False), (60, 61, True), (59, 60, False), (120, 180, False)]
)
def test_bounds_of_a_window(since: int, until: int, inside: bool) -> None:
    """One from 60 to 120 s ends after the one bound and begins before the other."""
    moments = [datetime.fromtimestamp(second, UTC) for second in (since, until)]
    assert Window(60 * NANOS, 60).within(*moments) is inside
