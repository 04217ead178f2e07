"""Maintenance on real tables, through Spark and Iceberg's procedures."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from neve.ingest.stream.writer import positions_summary, read_positions
from neve.lake.commit.append import append_once, find_batch
from neve.maintain.config import ExpireConfig, MaintainConfig, ManifestsConfig, RetentionRule, TagsConfig
from neve.maintain.job import Maintainer
from neve.maintain.procedures import format_timestamp, quote_text
from neve.maintain.step import Guards
from neve.model.commits import OPERATION
from neve.raw.frame import Kind
from tests.ingest.stream.frames import frame, raw_config, receive
from tests.ingest.stream.test_raw import run as run_stream
from tests.telemetry import logs, traces

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from neve.maintain.step import StepResult

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
NAME = "shop.orders"
CONFIG = MaintainConfig(
    expire=ExpireConfig(min_snapshots=1),
    manifests=ManifestsConfig(min_manifests=2),
    retention=(RetentionRule(table=NAME, organization="acme", days=3),),
    tags=TagsConfig(enabled=True),
)


class Orders:
    """A table that Neve did not make, of two organizations, partitioned by day."""

    def __init__(self, lake: Lake, mode: str = "copy-on-write") -> None:
        self.lake, self.name = lake, lake.spark_name(NAME)
        lake.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake.catalog_config.name}.shop")
        lake.spark.sql(
            f"CREATE TABLE {self.name} (organization_id STRING, timestamp TIMESTAMP, n INT) USING iceberg "
            "PARTITIONED BY (organization_id, days(timestamp)) "
            f"TBLPROPERTIES ('write.delete.mode' = '{mode}', 'write.delete.granularity' = 'partition')"
        )

    def insert(self, *rows: tuple[str, float]) -> None:
        """Rows of organizations, each so many days before noon."""
        values = ", ".join(
            f"({quote_text(owner)}, {format_timestamp(NOON - timedelta(days=age))}, {number})"
            for number, (owner, age) in enumerate(rows)
        )
        self.lake.spark.sql(f"INSERT INTO {self.name} VALUES {values}")

    def ages(self) -> list[tuple[str, float]]:
        """The rows that are there."""
        rows = self.lake.spark.sql(f"SELECT organization_id, timestamp FROM {self.name}").collect()
        return sorted((row[0], (NOON - row[1].replace(tzinfo=UTC)).total_seconds() / 86_400) for row in rows)

    def query(self, what: str, of: str = "") -> list[Any]:
        """Rows of one of the table's own tables."""
        return self.lake.spark.sql(f"SELECT {what} FROM {self.name}{of}").collect()

    def maintain(self, step: str, now: datetime = NOON) -> StepResult:
        """Run a step, first dry, then in earnest."""
        maintainer = Maintainer(self.lake, CONFIG, Guards(horizon=timedelta(0)), clock=lambda: now)
        [dry] = maintainer.run(NAME, [step], dry_run=True)
        [result] = maintainer.run(NAME, [step])
        assert (dry.error, result.error) == (None, None)
        assert not dry.outcome.changed
        return result


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_retention_is_exact_and_rewrites_only_the_boundary(spark_lake: Lake, mode: str) -> None:
    """Rows at or after the cutoff stay, others' rows too; whole days go without a file being written for them."""
    orders = Orders(spark_lake, mode)
    rows = [("acme", age) for age in (9, 8.5, 5, 3.2, 3.0, 2.9, 1)] + [("globex", 9), ("globex", 3.2)]
    orders.insert(*rows)
    before = {snapshot.snapshot_id for snapshot in spark_lake.table(NAME).metadata.snapshots}
    result = orders.maintain("retention")
    assert orders.ages() == sorted((owner, age) for owner, age in rows if owner == "globex" or age <= 3.0)
    assert (result.outcome.changed, result.outcome.gain.rows) == (True, 4)
    whole, boundary = [one for one in spark_lake.table(NAME).metadata.snapshots if one.snapshot_id not in before]
    assert whole.summary is not None
    assert boundary.summary is not None
    assert (whole.summary["deleted-data-files"], whole.summary.additional_properties.get("added-files-size")) == (
        "3",
        None,
    )
    assert boundary.summary.additional_properties["changed-partition-count"] == "1"
    assert boundary.summary.additional_properties[OPERATION] == "retention"
    assert not orders.maintain("retention").outcome.changed


def test_snapshots_expire_and_everything_still_reads(spark_lake: Lake) -> None:
    """Tags, branches and rows are as before; a stream that rests goes on where it was; batches in work are found."""
    orders = Orders(spark_lake)
    table = spark_lake.table(NAME)
    append_once(table, [], batch_id="kafka:1", operation="t", summary=positions_summary("kafka", {"topic:0": 7}))
    append_once(table, [], batch_id="raw:1", operation="t", summary=positions_summary("raw", {"w": 1}))
    for age in (1, 2, 3):
        orders.insert(("acme", age))
    ids = [snapshot.snapshot_id for snapshot in spark_lake.table(NAME).metadata.snapshots]
    spark_lake.spark.sql(f"ALTER TABLE {orders.name} CREATE TAG release AS OF VERSION {ids[2]}")
    spark_lake.spark.sql(f"ALTER TABLE {orders.name} CREATE BRANCH staged AS OF VERSION {ids[3]}")
    spark_lake.spark.sql(f"DELETE FROM {orders.name} WHERE timestamp < {format_timestamp(NOON - timedelta(days=2.5))}")
    rows = orders.ages()
    spark_lake.spark.sql(f"ALTER TABLE {orders.name} SET TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '1')")
    result = orders.maintain("expire", datetime.now(UTC))
    assert (result.outcome.gain.snapshots, result.outcome.gain.files) == (4, 1)
    assert {entry.action for entry in result.outcome.entries} == {"carry", "expire", "keep"}
    after = spark_lake.table(NAME)
    assert read_positions(after, "kafka") == {"topic:0": 7}
    assert read_positions(after, "raw") == {"w": 1}
    assert orders.ages() == rows
    counts = [len(orders.query("*", f" VERSION AS OF '{ref}'")) for ref in ("release", "staged", "main")]
    assert counts == [1, 2, 2]
    append_once(after, [], batch_id="kafka:2", operation="t", summary=positions_summary("kafka", {"topic:0": 8}))
    assert read_positions(spark_lake.table(NAME), "kafka") == {"topic:0": 8}
    assert find_batch(spark_lake.table(NAME), "kafka:1") is None


@pytest.mark.long
def test_a_stream_goes_on_after_everything_before_it_expired(spark_lake: Lake, tmp_path: Path) -> None:
    """Received, ingested, expired to the last snapshot, received again: each record is there once."""
    raw = raw_config(tmp_path)
    receive(raw, [frame(Kind.TRACES, traces(5)), frame(Kind.LOGS, logs(4))])
    run_stream(spark_lake, tmp_path, raw)
    append_once(
        spark_lake.table("spans"), [], batch_id="other", operation="t", summary=positions_summary("kafka", {"t:0": 1})
    )
    with spark_lake.table("spans").transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": "1"})
    before = [one.snapshot_id for one in spark_lake.table("spans").metadata.snapshots]
    config = MaintainConfig(expire=ExpireConfig(min_snapshots=1))
    [result] = Maintainer(spark_lake, config, Guards(horizon=timedelta(0))).run("spans", ["expire"])
    assert (result.error, result.outcome.gain.snapshots) == (None, 2)
    assert {one.snapshot_id for one in spark_lake.table("spans").metadata.snapshots}.isdisjoint(before)
    shutil.rmtree(tmp_path / "checkpoints")
    receive(raw, [frame(Kind.TRACES, traces(3, first=50))])
    again = run_stream(spark_lake, tmp_path, raw, deduplicate_seconds=0)
    assert (again.records, spark_lake.table("spans").scan().to_arrow().num_rows) == ({"traces": 3}, 8)


@pytest.mark.long
def test_deletes_manifests_and_statistics(spark_lake: Lake) -> None:
    """Deletes without data files go, manifests become one, statistics are computed once; rows stay the same."""
    orders = Orders(spark_lake, "merge-on-read")
    for number in range(3):
        orders.insert(("acme", 1), ("acme", 1.01), (f"org{number}", 2))
    spark_lake.spark.sql(f"DELETE FROM {orders.name} WHERE n = 1")
    spark_lake.spark.sql(
        f"CALL {spark_lake.catalog_config.name}.system.rewrite_data_files(table => '{NAME}', "
        "options => map('rewrite-all', 'true'))"
    )
    rows = orders.ages()
    merged = orders.maintain("manifests")
    assert (merged.outcome.changed, len(orders.query("*", ".manifests"))) == (True, 2)
    assert orders.maintain("manifests").outcome.reason.endswith("well filled")
    assert len(orders.query("*", ".delete_files")) == 1
    gone = orders.maintain("deletes")
    assert (gone.outcome.gain.delete_files, len(orders.query("*", ".delete_files"))) == (1, 0)
    assert orders.maintain("deletes").outcome.reason == "no deletes"
    told = orders.maintain("statistics")
    assert told.outcome.reason == "1 column counted and partition statistics computed"
    assert orders.maintain("statistics").outcome.reason == "the current snapshot has its statistics"
    assert spark_lake.table(NAME).metadata.statistics[0].blob_metadata[0].properties == {"ndv": "4"}
    assert orders.ages() == rows


def test_tags_are_set_once_and_end(spark_lake: Lake) -> None:
    """One of each series; run again, nothing; a month later the hourly and daily ones go and the user's own stays."""
    orders = Orders(spark_lake)
    orders.insert(("acme", 1))
    spark_lake.spark.sql(f"ALTER TABLE {orders.name} CREATE TAG release")
    later = datetime.now(UTC) + timedelta(days=40)
    assert orders.maintain("tags", later).outcome.reason == "3 tags created, 0 dropped"
    assert orders.maintain("tags", later).outcome.reason == "no tag is due, and none has expired"
    assert orders.maintain("tags", later + timedelta(days=31)).outcome.reason == "3 tags created, 2 dropped"
    assert orders.maintain("expire", later + timedelta(days=31)).outcome.gain.refs == 0
    names = {row.name for row in orders.query("name", ".refs")}
    assert {"main", "release", f"neve-monthly-{later:%Y-%m}"} <= names
    assert len(names) == 6


def test_orphans_are_those_that_iceberg_finds(spark_lake: Lake) -> None:
    """Neve's own listing and Iceberg's procedure agree, on a table with branches, deletes and statistics."""
    orders = Orders(spark_lake, "merge-on-read")
    orders.insert(("acme", 1), ("acme", 1.01))
    spark_lake.spark.sql(f"ALTER TABLE {orders.name} CREATE BRANCH staged")
    spark_lake.spark.sql(f"DELETE FROM {orders.name} WHERE n = 1")
    orders.maintain("statistics")
    folder = Path(spark_lake.table(NAME).location().removeprefix("file:").replace("///", "/"))
    for name in ("data/orphan.parquet", "metadata/orphan.avro"):
        (folder / name).write_bytes(b"x")
    long_ago = 1_600_000_000  # before any clock that this may run by
    for path in folder.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    catalog = spark_lake.catalog_config.name
    answer = spark_lake.spark.sql(
        f"CALL {catalog}.system.remove_orphan_files(table => '{NAME}', older_than => TIMESTAMP '2026-10-01 00:00:00', "
        "dry_run => true)"
    ).collect()
    [result] = Maintainer(spark_lake, CONFIG, clock=lambda: NOON).run(NAME, ["orphans"])
    removed = {entry.what for entry in result.outcome.entries if entry.action == "remove"}
    assert removed == {row[0].removeprefix("file:") for row in answer}
    assert {Path(path).name for path in removed} == {"orphan.parquet", "orphan.avro"}
    assert len(orders.query("*")) == 1
    assert len(orders.query("*", " VERSION AS OF 'staged'")) == 2
