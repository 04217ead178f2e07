"""Manifests of one schema share a reader, and read as pyiceberg reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, DataFile, ManifestEntry

from neve.lake.read import avro_reader_patch
from neve.lake.read.avro_reader_patch import SCHEMA_KEY, find_reader, find_schema
from neve.lake.read.snapshot_files import list_manifests, read_entries
from tests.autopilot.recommend.made import catalog_in

if TYPE_CHECKING:
    from pathlib import Path

TEXT = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long", "field-id": %d}]}'


def make_header(number: int) -> AvroFileHeader:
    """Return the header of a file whose schema has one field of this id."""
    return AvroFileHeader(b"Obj\x01", {SCHEMA_KEY: TEXT % number}, b"0" * 16)


def test_files_of_one_schema_share_its_objects() -> None:
    """Another schema has others, and a reader equals the one that pyiceberg builds."""
    first, again, other = (find_schema(make_header(number)) for number in (1, 1, 2))
    assert first is again
    assert first != other
    assert find_reader(first, first, {}, {}) is find_reader(again, first, {}, {})
    assert find_reader(first, first, {}, {}) is not find_reader(other, other, {}, {})
    assert find_reader(first, first, {}, {}) == resolve_reader(first, first)


def test_readers_of_other_types_are_other_readers() -> None:
    """The classes of the result belong to the key."""
    schema = MANIFEST_ENTRY_SCHEMAS[2]
    whole = find_reader(schema, schema, {-1: ManifestEntry, 2: DataFile}, {})
    assert find_reader(schema, schema, {-1: ManifestEntry}, {}) is not whole
    assert find_reader(schema, schema, {-1: ManifestEntry, 2: DataFile}, {}) is whole


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many schemas replace older ones, which can be read again."""
    monkeypatch.setattr(avro_reader_patch, "MAX_READERS", 3)
    monkeypatch.setattr(avro_reader_patch, "_schemas", {})
    monkeypatch.setattr(avro_reader_patch, "_readers", {})
    schemas = [find_schema(make_header(number)) for number in range(10)]
    readers = [find_reader(schema, schema, {}, {}) for schema in schemas]
    assert len(avro_reader_patch._schemas) <= 3
    assert len(avro_reader_patch._readers) <= 3
    assert find_reader(schemas[0], schemas[0], {}, {}) == readers[0]


@pytest.mark.lake
def test_each_manifest_has_its_own_entries(tmp_path: Path) -> None:
    """A shared reader mixes no values of files."""
    table = catalog_in(tmp_path).create_table("t.numbers", pa.schema([("n", pa.int64())]))
    for number in range(1, 4):
        table.append(pa.table({"n": pa.array(range(number), pa.int64())}))
    table = table.refresh()
    rows = [[entry.data_file.record_count for entry in read_entries(table, one)] for one in list_manifests(table)]
    assert sorted(rows) == [[1], [2], [3]]
