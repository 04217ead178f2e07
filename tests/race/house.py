"""Where a race is run: a lake in a folder, a state store, and a compactor that has much to do with little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.compact import Compactor
from neve.compact.config import CompactConfig
from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig
from neve.lake.lake import Lake
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.chaos.house import QUICK_JVM

if TYPE_CHECKING:
    from pathlib import Path

    from neve.state.documents import Documents

TABLE = "race.events"
LEASE_SECONDS = 3.0
MB = 1024 * 1024
# Every file is a fragment, a group has few of them, and a commit one or two groups: many places to be killed at.
EAGER = CompactConfig(
    fragments=2,
    minor_seconds=0,
    undersized_files=2,
    hot_seconds=0,
    deduplicate=False,
    group_bytes=MB,
    group_files=3,
    groups_per_commit=2,
    concurrency=2,
    delete_files=1,
    delete_ratio=0.01,
    verify="full",
    lease_seconds=LEASE_SECONDS,
)


def lake_at(folder: Path, spark_log: str = "spark.log") -> Lake:
    """The lake of a race."""
    return Lake(
        LakeConfig(warehouse=str(folder / "warehouse"), exchange=str(folder / "exchange")),
        CatalogConfig(name="races", path=str(folder / "catalog.db")),
        spark_config=SparkConfig(
            master="local[2]",
            driver_memory="1g",
            log_file=str(folder / spark_log),
            conf={"spark.driver.extraJavaOptions": QUICK_JVM, "spark.sql.shuffle.partitions": "1"},
        ),
    )


def documents_at(folder: Path) -> Documents:
    """Where the processes of a race meet."""
    return SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))


def compactor_of(lake: Lake, folder: Path) -> Compactor:
    """The compactor that is raced against."""
    return Compactor(lake, documents=documents_at(folder), config=EAGER)
