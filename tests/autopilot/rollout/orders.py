"""A table of orders whose every file holds all customers, and what is done to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.autopilot.config import CanaryConfig, StageConfig
from neve.autopilot.history import History
from neve.autopilot.rollout.rollout import Rollout
from neve.compact.execution.spark_rewriter import place_on_curve
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.query_log import QUERIES
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

TABLE = "shop.orders"
START = datetime(2026, 1, 1, tzinfo=UTC)
CUSTOMERS = 100
FILE_ROWS = 400
TARGET_BYTES = 8 * 1024
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("customer", pa.int32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("price", pa.float64()),
        pa.field("tags", pa.map_(pa.string(), pa.string())),
    ]
)


def rows(first: int, count: int) -> pa.Table:
    """Orders, with customers and days scattered over them."""
    return pa.table(
        {
            "id": range(first, first + count),
            "customer": [number * 7919 % CUSTOMERS for number in range(first, first + count)],
            "at": [START + timedelta(hours=number * 31 % 72) for number in range(first, first + count)],
            "price": [number * 0.1 for number in range(first, first + count)],
            "tags": [[("route", f"r{number % 5}")] for number in range(first, first + count)],
        },
        schema=SCHEMA,
    )


def make_orders(lake: Lake, files: int = 4) -> None:
    """The table, with some files of one commit each."""
    lake.create()
    lake.catalog.create_namespace_if_not_exists("shop")
    lake.catalog.create_table(
        TABLE,
        SCHEMA,
        properties={"write.delete.mode": "merge-on-read", "write.delete.granularity": "file", "format-version": "2"},
    )
    for number in range(files):
        append(lake, number * FILE_ROWS, FILE_ROWS)


def append(lake: Lake, first: int, count: int) -> None:
    """More orders, in a commit of their own."""
    table = lake.table(TABLE)
    append_once(table, write_files(Target.of(table), rows(first, count)), batch_id=f"test:{first}", operation="test")


def put_queries(lake: Lake, statements: list[str], now: datetime) -> None:
    """Rows of Neve's own table of queries, of the hours before a time."""
    table = lake.table(QUERIES.name)
    found: list[dict[str, Any]] = [
        {
            "organization_id": "acme",
            "timestamp": now - timedelta(hours=1 + number % 100),
            "query_id": f"{number:032x}",
            "sql": sql,
            "scans": [],
            "bytes": 50_000_000_000,
            "seconds": 0.5,
            "cache": "miss",
            "rollup": "",
            "state": "done",
        }
        for number, sql in enumerate(statements)
    ]
    files = write_files(Target.of(table), pa.Table.from_pylist(found, schema=QUERIES.schema))
    append_once(table, files, batch_id="queries", operation="test")


def ids(lake: Lake, **where: Any) -> list[int]:
    """The orders of main, or of a snapshot, as pyiceberg reads them."""
    found: list[int] = lake.table(TABLE).scan(selected_fields=("id",), **where).to_arrow().column(0).to_pylist()
    return sorted(found)


def main_of(lake: Lake) -> int:
    """Main's snapshot."""
    snapshot = lake.table(TABLE).current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def rollout_in(lake: Lake, folder: Path, *, threshold_pct: float = 30, **config: Any) -> Rollout:
    """All that is done with an attempt, with a state store in a folder."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))
    settings = StageConfig(canary=CanaryConfig(threshold_pct=threshold_pct), **config)
    return Rollout(lake, settings, History(documents), place_on_curve)
