"""Which files a run takes in and how the work is cut: values in, values out."""

from itertools import chain

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.ingest.files.ledger import Ledger, Skipped, estimate_weight, select_new, split_by_weight
from neve.ingest.files.source_files import HashedFile, SourceFile

QUICK = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOTHING = Ledger(None, frozenset(), frozenset(), {})


def file(path: str, content: str = "", size: int = 1) -> HashedFile:
    """A file; its content is told by a word."""
    return HashedFile(SourceFile(path, size, 0), content or path)


contents = st.sampled_from("abcdefghij")
files = st.lists(
    st.builds(file, st.sampled_from(["a.json", "b.json.gz", "c.zst"]), contents, st.integers(0, 10**12)),
    max_size=30,
)


def test_new_files_are_taken_in_their_order() -> None:
    """Nothing is known, so everything is new."""
    some = [file("b"), file("a"), file("c")]
    assert select_new(some, NOTHING).new == tuple(some)


def test_each_reason_to_leave_a_file_alone() -> None:
    """Content that is in the lake, that another batch has claimed, or that another file of the run has."""
    ledger = Ledger(7, frozenset({"old"}), frozenset(), {"batch": (file("elsewhere", "claimed"),)})
    some = [file("a", "old"), file("b", "claimed"), file("c", "new"), file("d", "new")]
    selection = select_new(some, ledger)
    assert selection.new == (some[2],)
    assert selection.skipped == (
        Skipped("a", "its content was ingested before"),
        Skipped("b", "its content belongs to a batch in progress"),
        Skipped("d", "it has the same content as c"),
    )


@QUICK
@given(files, st.frozensets(contents), st.frozensets(contents))
def test_every_content_is_taken_once_or_skipped(
    some: list[HashedFile], done: frozenset[str], claimed: frozenset[str]
) -> None:
    """No file is forgotten, no content is taken twice, and nothing that is known is taken."""
    ledger = Ledger(1, done, frozenset(), {"b": tuple(file("x", content) for content in claimed)})
    selection = select_new(some, ledger)
    taken = [item.content_hash for item in selection.new]
    assert len(selection.new) + len(selection.skipped) == len(some)
    assert len(set(taken)) == len(taken)
    assert set(taken) == {item.content_hash for item in some} - done - claimed


def test_a_packed_file_weighs_more() -> None:
    """What is decoded is what is inside; even an empty file weighs something."""
    assert estimate_weight(file("a.json", size=10)) == 10
    assert estimate_weight(file("a.json.gz", size=10)) == estimate_weight(file("a.json.zst", size=10)) == 80
    assert estimate_weight(file("a.json", size=0)) == 1


@QUICK
@given(files, st.integers(1, 10**12), st.integers(1, 8))
def test_every_file_is_in_exactly_one_piece_and_in_order(some: list[HashedFile], most: int, least: int) -> None:
    """Pieces put together are the files as they were, and no piece is empty."""
    pieces = split_by_weight(some, most, at_least=least)
    assert list(chain.from_iterable(pieces)) == some
    assert all(pieces)


@QUICK
@given(files, st.integers(1, 10**12), st.integers(1, 8))
def test_the_number_of_pieces_follows_the_weight(some: list[HashedFile], most: int, least: int) -> None:
    """There are no more than the weight asks for, and a piece is over the limit by one file at most."""
    pieces = split_by_weight(some, most, at_least=least)
    total = sum(map(estimate_weight, some))
    assert len(pieces) <= min(len(some), max(least, -(-total // most)))
    for piece in pieces:
        assert sum(map(estimate_weight, piece)) <= most + max(map(estimate_weight, piece)) or len(piece) == 1


@QUICK
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 1000))
def test_equal_files_are_shared_out_evenly(count: int, least: int, size: int) -> None:
    """As many pieces as were asked for, where there are so many files, and none twice as large as another."""
    pieces = split_by_weight([file(str(number), size=size) for number in range(count)], 10**15, at_least=least)
    lengths = [len(piece) for piece in pieces]
    assert len(pieces) == min(count, least)
    assert max(lengths) - min(lengths) <= 1


def test_no_files_make_no_pieces() -> None:
    """However many were asked for."""
    assert split_by_weight([], 10, at_least=4) == []
