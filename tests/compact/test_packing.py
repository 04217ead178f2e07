"""Packing: bins that keep the order, are not too large, and leave outputs of a good size."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from neve.compact.plan import InputFile
from neve.compact.planning.candidates import (
    Candidate,
    FileKind,
    drop_giants,
    is_worth_it,
    output_sizes,
    pack_candidates,
)
from neve.lake.read.partition_stats import TargetSizes

SIZES = TargetSizes(1000)


def candidate(size: int, kinds: FileKind = FileKind.REST, expected: int | None = None) -> Candidate:
    """A file of a size."""
    return Candidate(InputFile(f"f{size}", size, 1, 1), kinds, size if expected is None else expected)


@pytest.mark.parametrize(
    ("size", "files"),
    [(0, 1), (999, 1), (1000, 1), (1099, 1), (1100, 2), (1750, 2), (1760, 2), (2199, 2), (2200, 3), (3299, 3)],
)
def test_outputs_are_near_the_target(size: int, files: int) -> None:
    """A rest of more than three quarters is a file; otherwise outputs may be a tenth larger, but not more."""
    assert SIZES.outputs(size) == files


@seed(1)
@given(st.integers(2300, 1_000_000))
def test_large_sums_give_good_outputs(total: int) -> None:
    """From two and a third targets on, outputs are neither undersized nor much too large."""
    assert SIZES.small < total / SIZES.outputs(total) <= SIZES.max_output


@seed(2)
@given(st.lists(st.integers(1, 3000), max_size=200), st.integers(1000, 9000), st.integers(2, 50))
def test_bins_hold_all_in_order(sizes: list[int], group_bytes: int, group_files: int) -> None:
    """No file is lost, none comes twice, none out of its order; and no bin has too many."""
    bins = pack_candidates([candidate(size) for size in sizes], SIZES, group_bytes, group_files)
    assert [file.bytes for files in bins for file in files] == sizes
    assert all(0 < len(files) <= group_files for files in bins)


@seed(3)
@given(st.lists(st.integers(1, 750), min_size=1, max_size=300), st.integers(1000, 9000))
def test_only_one_bin_may_be_too_little(sizes: list[int], group_bytes: int) -> None:
    """Where the number of files does not matter, outputs of all bins are good, or there is one bin only."""
    bins = pack_candidates([candidate(size) for size in sizes], SIZES, group_bytes, 10_000)
    good = [all(size > SIZES.small for size in output_sizes(files, SIZES)) for files in bins]
    assert all(good) or len(bins) == 1
    assert all(sum(file.bytes for file in files) <= group_bytes + 3 * 2500 for files in bins)


def test_bins_are_measured_by_what_comes_out() -> None:
    """Files that will be half as large are packed twice as many."""
    whole = pack_candidates([candidate(100) for _file in range(60)], SIZES, 1000, 100)
    halved = pack_candidates([candidate(100, expected=50) for _file in range(60)], SIZES, 1000, 100)
    assert [len(files) for files in whole] == [25, 35]
    assert [len(files) for files in halved] == [60]


def test_what_is_not_worth_a_rewrite() -> None:
    """As many outputs as inputs are nothing; a cause that was not asked for is none."""
    assert not is_worth_it([candidate(900)], FileKind.EVERYTHING, SIZES)
    assert not is_worth_it([candidate(600), candidate(600)], FileKind.SIZES, SIZES)
    assert not is_worth_it([candidate(900, FileKind.UNLAID)], FileKind.SIZES, SIZES)
    assert not is_worth_it([candidate(1900, FileKind.OVERSIZED, expected=900)], FileKind.SIZES, SIZES)


def test_what_is_worth_a_rewrite() -> None:
    """Fewer files, a split, deletes, or a layout."""
    assert is_worth_it([candidate(500), candidate(500)], FileKind.SIZES, SIZES)
    assert is_worth_it([candidate(1900, FileKind.OVERSIZED)], FileKind.SIZES, SIZES)
    assert is_worth_it([candidate(1900, FileKind.OVERSIZED), candidate(1)], FileKind.SIZES, SIZES)
    assert is_worth_it([candidate(900, FileKind.OVER_DELETES)], FileKind.DELETES, SIZES)
    assert is_worth_it([candidate(900, FileKind.UNLAID)], FileKind.UNLAID, SIZES)


def numbered(sizes: list[int]) -> list[Candidate]:
    """Files of some sizes, each with a name of its own."""
    return [Candidate(InputFile(f"f{place}", size, 1, 1), FileKind.FRAGMENTS, size) for place, size in enumerate(sizes)]


@seed(4)
@given(st.lists(st.integers(1, 10_000), max_size=60))
def test_no_file_that_is_taken_is_larger_than_the_smaller_ones_together(sizes: list[int]) -> None:
    """And none is left that is not: all that is smaller than one that is taken is taken, too, in its order."""
    files = numbered(sizes)
    taken = drop_giants(files)
    assert [file for file in files if file in taken] == taken
    if taken:
        largest = max(file.bytes for file in taken)
        assert 2 * largest <= sum(file.bytes for file in taken)
        assert sorted(sizes)[: len(taken)] == sorted(file.bytes for file in taken)


def test_rows_are_rewritten_as_often_as_their_file_doubles() -> None:
    """A hundred times a dozen little files: what is written is a few times what came, and a few files stay."""
    files, written = list[int](), 0
    for _time in range(100):
        files += [1] * 12
        taken = [one.bytes for one in drop_giants(numbered(files))]
        for size in taken:
            files.remove(size)
        files.append(sum(taken))
        written += sum(taken)
    assert len(files) < 10
    assert written < 8 * 1200
