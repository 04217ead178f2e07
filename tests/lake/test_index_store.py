"""Indexes that a process keeps from one plan to the next: the same answers as an index that is made anew."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

import pytest
from pyiceberg.manifest import DataFileContent

from neve.lake.config import S3Config
from neve.lake.duckdb import connect
from neve.lake.read.file_index import FileIndex, IndexStore
from neve.lake.read.partition_stats import FileCriteria, TargetSizes
from tests.lake.manifests import Entry, Listed, Manifests, file_of
from tests.lake.test_file_index import BY_P, SCHEMA, TIME, bounds, table

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["table"]
CRITERIA = FileCriteria(TargetSizes(1000))


def duck() -> duckdb.DuckDBPyConnection:
    """A connection as the index is given."""
    return connect(S3Config(), on_s3=False, memory_limit="512MB")


def open_writer(table: Table, folder: Path) -> Manifests:
    """Return a writer of manifests."""
    return Manifests(f"file://{folder}", table.io, SCHEMA)


def read(
    table: Table, manifests: list[ManifestFile], store: IndexStore | None, time: object = TIME
) -> tuple[object, object, int]:
    """Return the counts, the files of all partitions, and the number of manifests that were read."""
    snapshot = cast("Snapshot", Listed(manifests))
    with FileIndex(table, duck, snapshot=snapshot, time=time, store=store) as index:  # type: ignore[arg-type]
        stats = index.stats(CRITERIA)
        files = index.candidates(CRITERIA, dict.fromkeys(index.partition_ids(), True), 1000)
        return stats, files, index.manifests_read


def write(writer: Manifests, chance: random.Random, number: int) -> ManifestFile:
    """Write a manifest of some files."""
    entries = [
        Entry(
            file_of(
                f"/data/{number}-{place}.parquet",
                chance.randrange(1, 3000),
                [chance.choice(["a", "b", None])],
                lower_bounds=bounds(chance.randrange(10**6)),
                upper_bounds=bounds(10**6 + number),
            )
        )
        for place in range(chance.randrange(1, 6))
    ]
    return writer.write(BY_P, entries, sequence=number + 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_kept_indexes_give_the_answers_of_new_ones(table: Table, tmp_path: Path, seed: int) -> None:
    """Manifests are added, removed and replaced at random; only new ones are read."""
    chance, writer, store = (
        random.Random(seed),
        open_writer(table, tmp_path),
        IndexStore(least_files=0),
    )
    manifests: list[ManifestFile] = []
    known: set[str] = set()
    for number in range(8):
        chance.shuffle(manifests)
        manifests = manifests[chance.randrange(2) * chance.randrange(3) :]
        manifests += [write(writer, chance, number * 10 + more) for more in range(chance.randrange(3))]
        *answers, count = read(table, manifests, store)
        assert answers == list(read(table, manifests, None)[:2])
        assert count == len({one.manifest_path for one in manifests} - known)
        known = {one.manifest_path for one in manifests}
    store.clear()


@pytest.mark.slow
def test_indexes_with_deletes_and_of_small_tables_are_not_kept(table: Table, tmp_path: Path) -> None:
    """Which deletes apply depends on all files. A small table is read at once."""
    writer, store = open_writer(table, tmp_path), IndexStore(least_files=3)
    chance = random.Random(1)
    small = writer.write(BY_P, [Entry(file_of("/data/one.parquet", 5, ["a"]))], sequence=1)
    assert read(table, [small], store)[2] == read(table, [small], store)[2] == 1
    manifests = [write(writer, chance, number) for number in range(4)]
    assert read(table, manifests, store)[2] == 4
    assert read(table, manifests, store)[2] == 0
    delete = file_of("/data/delete.parquet", 5, ["a"], content=DataFileContent.POSITION_DELETES)
    marked = [*manifests, writer.write(BY_P, [Entry(delete)], sequence=9, deletes=True)]
    assert read(table, marked, store)[:2] == read(table, marked, None)[:2]
    assert read(table, manifests, store)[2] == 4
    store.clear()


@pytest.mark.slow
def test_an_index_belongs_to_its_time_column_and_is_dropped_after_an_error(table: Table, tmp_path: Path) -> None:
    """Times are in the index. After an error nobody knows what it has."""
    writer, store, chance = (
        open_writer(table, tmp_path),
        IndexStore(least_files=0),
        random.Random(2),
    )
    manifests = [write(writer, chance, number) for number in range(3)]
    assert read(table, manifests, store)[2] == 3
    assert read(table, manifests, store, None)[2] == 3
    with (
        pytest.raises(RuntimeError),
        FileIndex(table, duck, snapshot=cast("Snapshot", Listed(manifests)), time=TIME, store=store),
    ):
        raise RuntimeError
    assert read(table, manifests, store)[2] == 3
    store.clear()


@pytest.mark.slow
def test_files_without_a_time_follow_only_known_snapshots(table: Table, tmp_path: Path) -> None:
    """Such a file is as old as its snapshot, and that may have expired."""
    writer, store = open_writer(table, tmp_path), IndexStore(least_files=0)
    timeless = [writer.write(BY_P, [Entry(file_of("/data/one.parquet", 5, ["a"]))], sequence=1)]
    read(table, timeless, store)
    [key] = store._stored
    stored = store._stored[key]
    assert not stored.is_timed
    assert stored.can_follow(stored.snapshots | {5})
    assert not type(stored)(stored.folder, stored.manifests, frozenset({7}), is_timed=False).can_follow([8])
    assert type(stored)(stored.folder, stored.manifests, frozenset({7}), is_timed=True).can_follow([8])
    store.clear()


def test_few_indexes_are_kept(table: Table, tmp_path: Path) -> None:
    """The one that was kept first goes, with its folder."""
    writer, store, chance = (
        open_writer(table, tmp_path),
        IndexStore(most=1, least_files=0),
        random.Random(3),
    )
    manifests = [write(writer, chance, 1)]
    read(table, manifests, store)
    [first] = store._stored.values()
    read(table, manifests, store, None)
    [second] = store._stored.values()
    assert first.folder.name != second.folder.name
    folders = [tmp_path.parent.joinpath(one.folder.name).exists() for one in (first, second)]
    assert folders == [False, True]
    store.clear()
