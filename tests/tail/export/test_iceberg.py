"""Kept spans in a table of the lake: a batch that comes twice is there once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.lake.tables import init_tables
from neve.lake.write.table_writer import write_files
from neve.model.commits import BATCH_ID, OPERATION
from neve.model.tables import SPANS
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from neve.tail.export.cursor import ExportCursors, Position
from neve.tail.export.destination import DestinationUnavailable, export_batches
from neve.tail.export.storage_destinations import IcebergDestination
from tests.tail.export.batches import kept_traces, rows
from tests.tail.export.configs import config

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake


@pytest.fixture
def lake(make_lake: Callable[..., Lake]) -> Lake:
    """A lake with the table of kept spans."""
    lake = make_lake(init=False)
    init_tables(lake, [replace(SPANS, name="sampled_spans")])
    return lake


def stored(lake: Lake) -> list[dict[str, object]]:
    """The rows of the table."""
    table = lake.table("sampled_spans").scan().to_arrow().cast(SPANS.schema)
    return rows(table.combine_chunks().to_batches()[0]) if table.num_rows else []


def test_a_batch_that_comes_again_is_there_once(lake: Lake) -> None:
    """The snapshot carries its id; a process that died after the commit changes nothing."""
    batch = kept_traces(3, 4)
    there = IcebergDestination(config("iceberg"), lake)
    first, second = there.deliver(batch, "b1"), there.deliver(batch, "b1")
    assert (first.accepted, second.accepted) == (12, 12)
    assert first.bytes_sent > 0 == second.bytes_sent
    assert stored(lake) == rows(batch)
    [snapshot] = lake.table("sampled_spans").metadata.snapshots
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties[BATCH_ID] == "b1"
    assert snapshot.summary.additional_properties[OPERATION] == "tail-export"
    there.deliver(batch, "b2")
    assert len(stored(lake)) == 24


class Killed(BaseException):
    """The end of a process."""


def test_whoever_dies_between_commit_and_cursor_changes_nothing(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process brings the batch again, and every span is there once."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    outbox = ExportCursors(SqlDocuments(state), "main")
    batch = kept_traces(4, 3)
    batches = [(Position(1, "a"), batch.slice(0, 6)), (Position(1, "b"), batch.slice(6))]
    there, cursor = IcebergDestination(config("iceberg"), lake), outbox.cursor("there")

    def die(_until: Position) -> None:
        raise Killed

    monkeypatch.setattr(cursor, "move", die)
    with pytest.raises(Killed):
        export_batches(there, cursor, batches)
    assert len(stored(lake)) == 6
    result = export_batches(there, outbox.cursor("there"), batches)
    assert (result.batches, result.delivery.accepted) == (2, 12)
    assert stored(lake) == rows(batch)
    state.close()


def test_two_who_bring_the_same_batch_add_it_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower one finds it there, and takes its own files away."""
    batch = kept_traces(3, 4)
    written: list[bool] = []

    def write_late(target: object, table: pa.Table) -> object:
        if not written:
            written.append(True)
            IcebergDestination(config("iceberg"), lake).deliver(batch, "b1")
        return write_files(target, table)  # type: ignore[arg-type]

    monkeypatch.setattr("neve.tail.export.storage_destinations.write_files", write_late)
    assert IcebergDestination(config("iceberg"), lake).deliver(batch, "b1").accepted == 12
    assert stored(lake) == rows(batch)
    location = Path(lake.table("sampled_spans").location().removeprefix("file://"))
    in_table = lake.table("sampled_spans").inspect.files()["file_path"].to_pylist()
    assert len(list(location.rglob("*.parquet"))) == len(in_table)


def test_a_table_that_is_missing_is_away(make_lake: Callable[..., Lake], tmp_path: Path) -> None:
    """The batch waits for `neve init`."""
    there = IcebergDestination(config("iceberg", table="elsewhere.kept"), make_lake(tmp_path / "other"))
    with pytest.raises(DestinationUnavailable, match=r"TableMissing: there is no table elsewhere\.kept"):
        there.deliver(kept_traces(1, 1), "b1")


@pytest.mark.parametrize(
    ("column", "values"),
    [("duration_ms", pa.array(["long", "short"])), ("organization_id", pa.array(["acme", None]))],
)
def test_rows_that_do_not_fit_are_refused_by_name(lake: Lake, column: str, values: pa.Array) -> None:
    """They would not fit tomorrow either."""
    batch = kept_traces(1, 2)
    wrong = batch.set_column(batch.schema.get_field_index(column), column, values)
    delivery = IcebergDestination(config("iceberg"), lake).deliver(wrong, "b1")
    assert (delivery.accepted, delivery.rejected) == (0, 2)
    assert "the spans don't fit the table sampled_spans" in delivery.messages[0]


def test_an_empty_batch_makes_no_snapshot(lake: Lake) -> None:
    """Nothing is nothing."""
    IcebergDestination(config("iceberg"), lake).deliver(kept_traces(1, 1).slice(1), "b1")
    assert lake.table("sampled_spans").metadata.snapshots == []
