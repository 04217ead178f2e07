"""The table that is raced for: made, read by two readers, and its story told."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from neve.lake.storage.paths import strip_scheme
from neve.model.commits import OPERATION
from tests.race.changes import NAP
from tests.race.house import TABLE
from tests.race.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.lake import Lake

COLUMNS = ("id", "bucket", "payload", "version")
GROUPS = "neve.groups"
COMPACT = "compact"
MODES = ("delete", "update", "merge")


class Mode(StrEnum):
    """How Spark writes down that rows are gone."""

    BY_FILE = "merge-on-read, a delete file for each data file"
    BY_PARTITION = "merge-on-read, a delete file for each partition"
    COPY = "copy-on-write"


def create(lake: Lake) -> None:
    """An empty table."""
    lake.create()
    spark, name = lake.spark, lake.spark_name(TABLE)
    spark.udf.register(NAP, _nap, "boolean")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, bucket INT, payload STRING, version INT) USING iceberg "
        f"PARTITIONED BY (bucket) TBLPROPERTIES ('format-version' = '2')"
    )


def set_mode(lake: Lake, mode: Mode) -> None:
    """From now on rows go this way."""
    how = "copy-on-write" if mode is Mode.COPY else "merge-on-read"
    granularity = "partition" if mode is Mode.BY_PARTITION else "file"
    properties = {f"write.{one}.mode": how for one in MODES} | {"write.delete.granularity": granularity}
    said = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    lake.spark.sql(f"ALTER TABLE {lake.spark_name(TABLE)} SET TBLPROPERTIES ({said})")


def rows_by_spark(lake: Lake) -> list[Row]:
    """All rows, by Spark."""
    return _rows(lake.spark.table(lake.spark_name(TABLE)).select(*COLUMNS).toArrow())


def rows_by_pyiceberg(lake: Lake) -> list[Row]:
    """All rows, by pyiceberg, which applies position deletes by itself."""
    return _rows(lake.table(TABLE).scan(selected_fields=COLUMNS).to_arrow())


def compactions(table: Table) -> list[Snapshot]:
    """The snapshots that compaction made."""
    return [snapshot for snapshot in table.metadata.snapshots if _said(snapshot).get(OPERATION) == COMPACT]


def groups_published(table: Table) -> int:
    """How many groups compaction has published, by whichever process, dead or not."""
    return sum(int(_said(snapshot)[GROUPS]) for snapshot in compactions(table))


def story(table: Table) -> list[str]:
    """The snapshots, one to a line."""
    lines = []
    for snapshot in table.metadata.snapshots:
        operation = snapshot.summary.operation.value if snapshot.summary else ""
        said = {
            key: value for key, value in _said(snapshot).items() if not key.startswith(("total-", "spark.", "app-"))
        }
        lines.append(f"{snapshot.sequence_number} {snapshot.snapshot_id} {operation} {said}")
    return lines


@dataclass(frozen=True)
class Files:
    """The files of all snapshots, and those on disk."""

    known: frozenset[str]
    there: frozenset[str]

    @property
    def lost(self) -> list[str]:
        """Files that a snapshot needs and that are gone."""
        return sorted(self.known - self.there)

    @property
    def orphans(self) -> list[str]:
        """Files of compaction that no snapshot knows."""
        return sorted(path for path in self.there - self.known if "/data/neve-" in path)


def files_of(table: Table) -> Files:
    """What the table should have on disk, and what it has."""
    data = Path(table.location().removeprefix("file://")) / "data"
    there = [path for path in data.rglob("*") if path.is_file() and path.suffix != ".crc"]
    return Files(frozenset(map(strip_scheme, _known(table))), frozenset(strip_scheme(str(path)) for path in there))


def delete_files(table: Table) -> int:
    """How many delete files the table has now."""
    return Counter(row["content"] for row in table.inspect.files().to_pylist())[1]


def _nap(_id: int, seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _known(table: Table) -> Iterator[str]:
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield entry.data_file.file_path


def _said(snapshot: Snapshot) -> dict[str, str]:
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}


def _rows(table: pa.Table) -> list[Row]:
    return [Row(*values) for values in zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True)]
