"""Statistics without pyiceberg are the same as with it, and whatever is unusual is left to it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.lake.catalog import sqlite_path
from neve.lake.commit.append import append_once
from neve.lake.read.local_statistics import read_local_statistics
from neve.lake.read.statistics import read_table_statistics
from neve.lake.write.table_writer import Target, write_files
from neve.model.commits import DUPLICATES
from tests.query.lakes import make_lake as make_filled_lake

if TYPE_CHECKING:
    from neve.lake.lake import Lake


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """A lake with rows of two organizations."""
    del iceberg  # marks the tests
    return make_filled_lake(tmp_path_factory.mktemp("filled"))


def append_log(lake: Lake, moment: int) -> None:
    """Add one log with a time in microseconds, and a count of duplicates."""
    table = lake.table("logs")
    row = {"organization_id": "acme", "timestamp": moment, "ingested_at": 0, "record_id": b"0" * 16}
    schema = table.schema().as_arrow()
    columns = {name: pa.array([row.get(name)]) for name in schema.names if name in row}
    times = {name: columns[name].cast(pa.timestamp("us", "UTC")) for name in ("timestamp", "ingested_at")}
    files = write_files(Target.of(table), pa.table({**columns, **times}))
    append_once(table, files, batch_id=str(moment), operation="test", summary={DUPLICATES: "3"})


def test_the_numbers_are_those_of_pyiceberg(filled: Lake) -> None:
    """Of tables with rows, with several commits, and of empty ones."""
    found = read_local_statistics(filled.catalog_config)
    assert found == [read_table_statistics(filled.table(name)) for name in filled.table_names()]
    assert any(one.rows for one in found)
    assert any(not one.snapshots for one in found)


def test_deleted_files_and_duplicates_count_as_with_pyiceberg(lake: Lake) -> None:
    """The bounds of a removed file don't count, nor does the time before 1970 matter."""
    for moment in (-5, 1_000_000, 7_000_000):
        append_log(lake, moment)
    lake.table("logs").delete("timestamp = '1970-01-01T00:00:07+00:00'")
    found = {one.name: one for one in read_local_statistics(lake.catalog_config) or ()}
    assert found["logs"] == read_table_statistics(lake.table("logs"))
    assert (found["logs"].rows, found["logs"].duplicates) == (2, 9)


@pytest.mark.parametrize("damage", ["truncated", "no avro", "missing"])
def test_a_damaged_manifest_is_left_to_pyiceberg(lake: Lake, damage: str) -> None:
    """Its error says which file it is."""
    append_log(lake, 1)
    snapshot = lake.table("logs").current_snapshot()
    assert snapshot is not None
    file = Path(snapshot.manifest_list.removeprefix("file://"))
    data = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(data[:-30] if damage == "truncated" else b"nonsense" * 20)
    assert read_local_statistics(lake.catalog_config) is None


@pytest.mark.parametrize(
    ("key", "value"), [("snapshots", [{"no": "id"}]), ("current-schema-id", 99), ("schemas", None), ("snapshots", 3)]
)
def test_unusual_metadata_is_left_to_pyiceberg(lake: Lake, key: str, value: object) -> None:
    """As of older formats."""
    append_log(lake, 1)
    file = Path(lake.table("logs").metadata_location.removeprefix("file://"))
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    assert read_local_statistics(lake.catalog_config) is None


def test_other_places_and_catalogs_are_left_to_pyiceberg(lake: Lake, tmp_path: Path) -> None:
    """Object storage, servers, other classes, a file that is missing or no catalog."""
    config = lake.catalog_config
    for change in ({"kind": "rest"}, {"properties": {"type": "sql"}}, {"path": str(tmp_path / "nothing.db")}):
        assert read_local_statistics(config.model_copy(update=change)) is None
    assert not (tmp_path / "nothing.db").exists()
    (tmp_path / "text.db").write_text("no database " * 100)
    assert read_local_statistics(config.model_copy(update={"path": str(tmp_path / "text.db")})) is None
    with closing(sqlite3.connect(sqlite_path(config))) as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = replace(metadata_location, 'file:', 's3:')")
        connection.commit()
    assert read_local_statistics(config) is None
