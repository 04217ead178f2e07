"""Cursors: every batch at least once, none passed over, whoever dies when."""

from __future__ import annotations

from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.errors import LakeError
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from neve.tail.export.cursor import CursorMoved, ExportCursors, Position, build_batch_id
from neve.tail.export.destination import Delivery, DestinationUnavailable, export_batches
from tests.tail.export.batches import kept_traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.state.documents import Documents

Batches = list[tuple[Position, pa.RecordBatch]]

positions = st.builds(Position, st.integers(0, 3), st.sampled_from(["", "0a", "ff"]), st.integers(0, 1))


class Killed(BaseException):
    """The end of a process."""


class Memory:
    """A destination that remembers what it was brought, and that fails as it is told."""

    name = "there"

    def __init__(self) -> None:
        self.got: list[str] = []
        self.fails: Exception | BaseException | None = None
        self.refuses = 0

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Take the batch, or fail."""
        if isinstance(self.fails, DestinationUnavailable):
            raise self.fails
        self.got.append(batch_id)
        if self.fails is not None:
            raise self.fails
        return Delivery(batch.num_rows - self.refuses, self.refuses, ("no",) if self.refuses else (), attempts=1)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Documents]:
    """A state store in a file."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    yield SqlDocuments(state)
    state.close()


def log_of(count: int) -> Batches:
    """A log of kept traces: two in each snapshot, each in a batch of its own."""
    batch = kept_traces(1, 2)
    return [(Position(1 + number // 2, f"{number % 2:02x}"), batch) for number in range(count)]


def test_a_cursor_moves_with_each_batch(documents: Documents) -> None:
    """And is there for the next process, which goes on behind it."""
    there, batches = Memory(), log_of(4)
    outbox = ExportCursors(documents, "main")
    first = export_batches(there, outbox.cursor("there"), batches[:3])
    assert (first.batches, first.delivery.accepted, first.position, first.error) == (3, 6, batches[2][0], None)
    assert ExportCursors(documents, "main").positions() == {"there": batches[2][0]}
    second = export_batches(there, ExportCursors(documents, "main").cursor("there"), batches)
    assert (second.batches, second.position) == (1, batches[3][0])
    assert len(there.got) == len(set(there.got)) == 4


def test_whoever_dies_between_delivery_and_cursor_delivers_again(documents: Documents) -> None:
    """Under the same id, by which a destination that can knows the batch."""
    there, batches = Memory(), log_of(3)
    outbox = ExportCursors(documents, "main")
    export_batches(there, outbox.cursor("there"), batches[:1])
    there.fails = Killed()
    with pytest.raises(Killed):
        export_batches(there, outbox.cursor("there"), batches)
    assert outbox.positions()["there"] == batches[0][0]
    there.fails = None
    assert export_batches(there, outbox.cursor("there"), batches).batches == 2
    assert there.got[1] == there.got[2]
    assert len(there.got) == 4
    assert len(set(there.got)) == 3


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.sampled_from(["take", "die", "away"]), max_size=12), st.integers(1, 6))
def test_nothing_is_lost_however_often_it_fails(fates: list[str], count: int) -> None:
    """Each attempt takes one batch, dies after it was taken, or finds nobody there; in the end all were brought."""
    with TemporaryDirectory() as folder:
        state = StateStore(StateConfig(path=f"{folder}/state.db"))
        outbox, there, batches = ExportCursors(SqlDocuments(state), "main"), Memory(), log_of(count)
        for fate in fates:
            there.fails = {"take": None, "die": Killed(), "away": DestinationUnavailable("not now")}[fate]
            cursor = outbox.cursor("there")
            left = [item for item in batches if cursor.position is None or item[0] > cursor.position]
            try:
                export_batches(there, cursor, left[:1])
            except Killed:
                assert fate == "die"
        there.fails = None
        assert export_batches(there, outbox.cursor("there"), batches).position == batches[-1][0]
        state.close()
    assert list(dict.fromkeys(there.got)) == _ids(batches)


def _ids(batches: Batches) -> list[str]:
    """The ids of batches that are brought one by one."""
    ends = [None, *(until for until, _batch in batches)]
    return [build_batch_id("main", after, until) for after, until in pairwise(ends) if until]


def test_a_destination_that_is_away_holds_up_no_other(documents: Documents) -> None:
    """It keeps its place, and the turn ends with the reason."""
    away, well, batches = Memory(), Memory(), log_of(3)
    away.name, away.fails = "away", DestinationUnavailable("nobody there", after_seconds=7)
    outbox = ExportCursors(documents, "main")
    result = export_batches(away, outbox.cursor("away"), batches)
    assert result.error is not None
    assert (result.batches, result.position, result.error.after_seconds) == (0, None, 7)
    assert export_batches(well, outbox.cursor("there"), batches).batches == 3
    assert outbox.positions() == {"there": batches[-1][0]}


def test_what_is_refused_for_good_is_passed(documents: Documents) -> None:
    """Counted, with what was said; the cursor goes on."""
    there = Memory()
    there.refuses = 2
    result = export_batches(there, ExportCursors(documents, "main").cursor("there"), log_of(2))
    assert (result.batches, result.delivery.accepted, result.delivery.rejected) == (2, 0, 4)
    assert result.delivery.messages == ("no",)


def test_two_who_export_to_one_destination_are_told(documents: Documents) -> None:
    """The second finds the cursor elsewhere, and stops."""
    outbox = ExportCursors(documents, "main")
    one, other = outbox.cursor("there"), outbox.cursor("there")
    export_batches(Memory(), one, log_of(2))
    with pytest.raises(CursorMoved, match="two processes export"):
        export_batches(Memory(), other, log_of(1))


def test_a_cursor_does_not_go_back(documents: Documents) -> None:
    """What is delivered stays delivered; selectors have cursors of their own, and one can be forgotten."""
    outbox = ExportCursors(documents, "main")
    cursor = outbox.cursor("there")
    cursor.move(Position(5))
    with pytest.raises(ValueError, match="can't go back"):
        cursor.move(Position(4, "ff"))
    assert ExportCursors(documents, "other").cursor("there").position is None
    outbox.delete("there")
    assert outbox.cursor("there").position is None


def test_a_store_that_fails_is_an_error_and_not_a_delivery(documents: Documents) -> None:
    """The batch is brought again when the store is back."""

    class Away:
        def __getattr__(self, name: str) -> object:
            return getattr(documents, name)

        def swap(self, *_args: object) -> bool:
            raise LakeError("the state store failed")

    there = Memory()
    with pytest.raises(LakeError, match="the state store failed"):
        export_batches(there, ExportCursors(Away(), "main").cursor("there"), log_of(1))  # type: ignore[arg-type]
    export_batches(there, ExportCursors(documents, "main").cursor("there"), log_of(1))
    assert there.got[0] == there.got[1]


@given(st.none() | positions, positions, st.none() | positions, positions)
def test_an_id_stands_for_one_stretch_of_the_log(
    after: Position | None, until: Position, other_after: Position | None, other_until: Position
) -> None:
    """Two have the same id when, and only when, they begin and end at the same places."""
    same = (after, until) == (other_after, other_until)
    assert (build_batch_id("s", after, until) == build_batch_id("s", other_after, other_until)) == same
    assert build_batch_id("s", after, until) != build_batch_id("t", after, until)


@given(positions)
def test_a_position_is_kept_as_it_is(position: Position) -> None:
    """Through the store and back."""
    assert Position.of(position.document) == position
