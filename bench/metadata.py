"""Tables that are metadata only: as many data files as wanted in their manifests, and none on disk.

The files have the statistics that the spans table keeps, lie in 16 buckets of 30 days, and were committed 10,000 at a
time. Making a million of them takes minutes; they stay in the cache.
"""

from __future__ import annotations

import random
import shutil
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.spark.jars import find_cache_dir
from neve.lake.tables import init_tables
from neve.model.tables import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table

VERSION = 1  # raise it when what is made changes
START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS, BUCKETS = 30, 16
NOW = START + timedelta(days=DAYS + 2)
COMMIT_FILES = 10_000
MB = 1024 * 1024
MANY = "many"
WELL = "well"
LEAF_COLUMNS = 60


def lake_of(files: int, sizes: str = MANY) -> Lake:
    """A lake whose spans table has this many data files: of many sizes, or all of a good one."""
    folder = find_cache_dir() / "bench" / f"plan-v{VERSION}-{sizes}-{files}"
    lake, done = _lake(folder), folder.with_suffix(".done")
    if not done.exists():
        print(f"making the metadata of {files:,} files (once, into the cache)", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        init_tables(lake, (SPANS,))
        _fill(lake.table(SPANS.name), files, sizes)
        done.touch()
    return lake


def _lake(folder: Path) -> Lake:
    return Lake(LakeConfig(warehouse=str(folder / "warehouse")), CatalogConfig(path=str(folder / "catalog.db")))


def _fill(table: Table, files: int, sizes: str) -> None:
    source = random.Random(files)
    for start in range(0, files, COMMIT_FILES):
        _append(table, _files(table, source, range(start, min(start + COMMIT_FILES, files)), sizes))


def append_files(table: Table, numbers: range, sizes: str) -> None:
    """Commit some more files."""
    _append(table, _files(table, random.Random(1), numbers, sizes))


def _append(table: Table, files: Iterator[DataFile]) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(file)


def _files(table: Table, source: random.Random, numbers: range, sizes: str) -> Iterator[DataFile]:
    ids = {name: table.schema().find_field(name).field_id for name in SPANS.bounded}
    for number in numbers:
        day, bucket = number // BUCKETS % DAYS, number % BUCKETS
        date = START + timedelta(days=day)
        low = date + timedelta(seconds=source.uniform(0, 86_000))
        size, rows = _size(source, sizes), source.randrange(100, 100_000)
        place = f"organization_id=default/timestamp_day={date:%Y-%m-%d}/trace_id_bucket={bucket}"
        yield DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{table.location()}/data/{place}/{source.getrandbits(128):032x}.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record("default", (date - datetime(1970, 1, 1, tzinfo=UTC)).days, bucket),
            record_count=rows,
            file_size_in_bytes=size,
            column_sizes=dict.fromkeys(range(1, LEAF_COLUMNS), size // LEAF_COLUMNS),
            value_counts=dict.fromkeys(ids.values(), rows),
            null_value_counts=dict.fromkeys(ids.values(), 0),
            nan_value_counts={},
            lower_bounds=_bounds(ids, low, source),
            upper_bounds=_bounds(ids, low + timedelta(seconds=60), source),
            key_metadata=None,
            split_offsets=[4],
            equality_ids=None,
            sort_order_id=table.metadata.default_sort_order_id,
            spec_id=table.metadata.default_spec_id,
        )


def _size(source: random.Random, sizes: str) -> int:
    """Mostly what a stream writes, some that an earlier compaction left, a few as large as they should be."""
    if sizes == WELL:
        return source.randrange(450 * MB, 560 * MB)
    kind = source.random()
    if kind < 0.9:
        return source.randrange(32 * 1024, 8 * MB)
    return source.randrange(64 * MB, 384 * MB) if kind < 0.98 else source.randrange(400 * MB, 600 * MB)


def _bounds(ids: dict[str, int], time: datetime, source: random.Random) -> dict[int, bytes]:
    micros = struct.pack("<q", int(time.timestamp() * 1_000_000))
    return {
        ids["organization_id"]: b"default",
        ids["timestamp"]: micros,
        ids["trace_id"]: source.randbytes(16),
        ids["service_name"]: b"shipping",
        ids["operation_name"]: b"shop.Recommendat",
        ids["span_kind"]: struct.pack("<i", 3),
        ids["status_code"]: struct.pack("<i", 2),
        ids["duration_ms"]: struct.pack("<d", 12.5),
        ids["ingested_at"]: micros,
    }
