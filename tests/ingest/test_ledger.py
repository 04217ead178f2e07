"""The ledger folded: which contents are in the lake, which batches were begun and never ended."""

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.ingest.files.ledger import DONE, LOST, PLANNED, READ, Ledger, fold_ledger
from neve.ingest.files.source_files import HashedFile, SourceFile
from neve.model.tables import INGESTED_FILES

QUICK = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Line = tuple[str, str, str]
SCHEMA = pa.schema([INGESTED_FILES.schema.field(name) for name in READ])


def fold(*lines: Line, snapshot_id: int | None = 1) -> Ledger:
    """The ledger of lines that say batch, state and content; a content lies in a file of the same name."""
    rows = [
        {
            "batch_id": batch,
            "state": state,
            "content_hash": content,
            "path": f"/{content}",
            "size_bytes": len(content),
            "modified_at": 1_700_000_000_123_456,
        }
        for batch, state, content in lines
    ]
    return fold_ledger(pa.Table.from_pylist(rows, schema=SCHEMA), snapshot_id)


def source(content: str) -> SourceFile:
    """The file of a content."""
    return SourceFile(f"/{content}", len(content), 1_700_000_000_123_456)


def test_an_empty_ledger_knows_nothing() -> None:
    """Not even a snapshot."""
    assert fold(snapshot_id=None) == Ledger(None, frozenset(), frozenset(), {})


def test_a_planned_batch_is_pending() -> None:
    """Its files are given back whole, so that whoever finds it can finish it; nothing of it is done."""
    ledger = fold(("b1", PLANNED, "x"), ("b1", PLANNED, "y"), ("b2", PLANNED, "z"))
    assert ledger.pending == {
        "b1": (HashedFile(source("x"), "x"), HashedFile(source("y"), "y")),
        "b2": (HashedFile(source("z"), "z"),),
    }
    assert (ledger.done, ledger.seen) == (frozenset(), frozenset())


def test_a_done_batch_is_known_by_content_and_by_file() -> None:
    """The file is recognised without reading it as long as path, size and time are the same."""
    ledger = fold(("b", PLANNED, "x"), ("b", DONE, "x"))
    assert ledger.pending == {}
    assert ledger.done == {"x"}
    assert ledger.seen == {source("x").seen_as}


def test_a_lost_file_ends_its_batch_and_may_come_back() -> None:
    """Its content is not in the lake, so a later run that finds it takes it."""
    ledger = fold(("b", PLANNED, "x"), ("b", PLANNED, "y"), ("b", LOST, "x"), ("b", DONE, "y"))
    assert ledger.pending == {}
    assert ledger.done == {"y"}
    assert ledger.seen == {source("y").seen_as}


def test_a_lost_content_that_was_found_again_is_done() -> None:
    """Another batch brought it."""
    ledger = fold(("b1", PLANNED, "x"), ("b1", LOST, "x"), ("b2", PLANNED, "x"), ("b2", DONE, "x"))
    assert ledger.done == {"x"}
    assert ledger.pending == {}


def test_the_snapshot_is_remembered() -> None:
    """A claim is only good against the ledger as it was read."""
    assert fold(("b", PLANNED, "x"), snapshot_id=42).snapshot_id == 42


lines = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([PLANNED, DONE, LOST]), st.sampled_from("wxyz")), max_size=12
)


@QUICK
@given(lines, st.data())
def test_the_order_of_lines_does_not_matter(given_lines: list[Line], data: st.DataObject) -> None:
    """A table has no order: any order of the same lines says the same."""
    shuffled = data.draw(st.permutations(given_lines))
    one, other = fold(*given_lines), fold(*shuffled)
    assert (one.done, one.seen) == (other.done, other.seen)
    assert {batch: set(files) for batch, files in one.pending.items()} == {
        batch: set(files) for batch, files in other.pending.items()
    }


@QUICK
@given(lines)
def test_a_batch_is_pending_exactly_while_it_has_planned_lines_only(given_lines: list[Line]) -> None:
    """And a content is done exactly where a line says so."""
    ledger = fold(*given_lines)
    states = {batch: {state for other, state, _ in given_lines if other == batch} for batch, _, _ in given_lines}
    assert set(ledger.pending) == {batch for batch, seen in states.items() if seen == {PLANNED}}
    assert ledger.done == {content for _, state, content in given_lines if state == DONE}
