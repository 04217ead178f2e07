"""Operators work with real workers: a compaction is watched and cancelled, a layout is approved and rolled back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import yaml
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from playwright.sync_api import expect

from neve.api.page.files import FOLDER, INDEX
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from tests.page.demo_lake import serve_api
from tests.page.test_operator_flows import confirm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Locator

    from tests.page.conftest import Visitor

ORDERS = "shop.orders"
DAYS, FILES = 240, 2  # partitions of logs, and files in each: minutes of work with one commit for each partition
DAY_NANOS = 86_400_000_000_000
STEP_MILLISECONDS = 300_000  # the first job of the autopilot starts Spark

COMPACT = {"fragments": 2, "minor_seconds": 0, "duplicate_partitions": 0, "concurrency": 1, "groups_per_commit": 1}
AUTOPILOT = {
    "tables": ["shop.*"],
    "recommend": {"min_table_bytes": 0, "sample_rows": 2000, "payback_days": 1e9, "settle_days": 0},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the lake and of its configuration."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def worked_lake(folder: Path) -> Lake:
    """A lake with small files of many days, and a table that its queries filter by a column without a layout for it."""
    from tests.autopilot.rollout.orders import TARGET_BYTES, make_orders, put_queries
    from tests.empty_tables import create_empty_tables

    lake = Lake(
        LakeConfig(warehouse=str(folder / "warehouse")), CatalogConfig(name="neve", path=str(folder / "catalog.db"))
    )
    create_empty_tables(lake)
    put_days(lake)
    make_orders(lake, files=8)
    with lake.table(ORDERS).transaction() as change:
        change.set_properties({"write.target-file-size-bytes": str(TARGET_BYTES)})
    asked = [f"SELECT count(*) AS n, sum(price) FROM {ORDERS} WHERE customer = {number % 97}" for number in range(60)]
    put_queries(lake, asked, datetime.now(UTC))
    return lake


def put_days(lake: Lake) -> None:
    """Commit some records of each day, twice."""
    table, now = lake.table("logs"), int((datetime.now(UTC) - timedelta(days=2)).timestamp() * 1e9)
    for batch in range(FILES):
        records = [
            LogRecord(time_unix_nano=now - day * DAY_NANOS + batch, body=AnyValue(string_value=f"day {day}"))
            for day in range(DAYS)
        ]
        message = ExportLogsServiceRequest(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=records)])])
        decoded = decode(Signal.LOGS, [message.SerializeToString()], Intake("default", now))
        files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
        append_once(table, files, batch_id=f"days-{batch}", operation="test")


@pytest.fixture(scope="module")
def worker_server(folder: Path, worked_lake: Lake) -> Iterator[str]:
    """The address of `neve serve` with workers for compaction and the autopilot, without a scheduler."""
    if not (FOLDER / INDEX).is_file():
        pytest.skip("page: it is not built (make page)")
    own = {
        "lake": {"warehouse": str(folder / "warehouse")},
        "catalog": {"path": str(folder / "catalog.db")},
        "state": {"path": str(folder / "state.db")},
        "raw": {"location": str(folder / "raw")},
        "query": {"open_admin": True, "log": False},
        "spark": {"master": "local[2]", "log_file": str(folder / "spark.log")},
        "compact": COMPACT,
        "autopilot": {**AUTOPILOT, "propose": {"repository": str(folder / "specs")}},
    }
    assert worked_lake.exists
    config = folder / "neve.yaml"
    config.write_text(yaml.safe_dump(own))
    with serve_api(config, only="api,compact,autopilot") as addresses:
        yield addresses["query"]


def start_job(window: Visitor, task: str, reason: str, table: str = "") -> Locator:
    """Request a job by the dialog, and return the part of the screen that shows it."""
    page = window.open("/jobs")
    page.get_by_role("button", name="Start job").click()
    dialog = page.get_by_role("dialog", name="Start job")
    dialog.get_by_label(re.compile("^Task")).select_option(task)
    if table:
        dialog.get_by_label(re.compile("^Table")).select_option(table)
    dialog.get_by_label("Reason, for the log").fill(reason)
    assert window.violations() == []
    dialog.get_by_role("button", name="Start job").click()
    beside = page.get_by_role("complementary", name="Job")
    expect(beside).to_contain_text(reason)
    return beside


def count_files(lake: Lake, table: str) -> tuple[int, int]:
    """Return the number of data files and of rows of a table."""
    files = lake.table(table).inspect.data_files()
    return files.num_rows, sum(files["record_count"].to_pylist())


@pytest.mark.long  # a fast worker can finish before a slow browser cancels
def test_a_compaction_is_started_watched_and_cancelled(
    visit: Callable[..., Visitor], worker_server: str, worked_lake: Lake
) -> None:
    """Its progress moves as the worker commits; after the cancellation committed groups stay, and no row is lost."""
    window = visit(worker_server)
    beside = start_job(window, "compact", "before the review", "logs")
    words = beside.get_by_text(re.compile(rf"\d+ of {DAYS} groups"))
    expect(words).to_be_visible()
    first = words.inner_text()
    expect(words).not_to_have_text(first)
    assert window.violations() == []
    confirm(window.page, "Cancel job", "wrong table")
    expect(beside.get_by_text("cancelled", exact=True)).to_be_visible()
    expect(beside).to_contain_text("cancelled: wrong table")
    files, rows = count_files(worked_lake, "logs")
    assert DAYS < files < FILES * DAYS
    assert rows == FILES * DAYS


def test_a_layout_is_approved_and_rolled_back(
    visit: Callable[..., Visitor], worker_server: str, worked_lake: Lake
) -> None:
    """The autopilot proposes a layout, operators merge it and take it back, and the table follows both times."""
    from neve.autopilot.table_layout import current_layout
    from tests.autopilot.rollout.orders import ids

    before, rows = current_layout(worked_lake.table(ORDERS)), ids(worked_lake)
    window = visit(worker_server)
    window.page.set_default_timeout(STEP_MILLISECONDS)
    beside = start_job(window, "autopilot", "a first look")
    expect(beside.get_by_text("done", exact=True)).to_be_visible(timeout=STEP_MILLISECONDS)
    page = window.go("/layouts")
    page.get_by_role("main").get_by_text(ORDERS).first.click()
    confirm(page, "Approve and merge", "reviewed", typed=ORDERS)
    stages = page.get_by_role("region", name="Stages")
    expect(stages).to_contain_text("approved by anyone on this machine: reviewed", timeout=STEP_MILLISECONDS)
    assert current_layout(worked_lake.table(ORDERS)) != before
    assert ids(worked_lake) == rows
    expect(page.get_by_role("button", name="Roll back", exact=True)).to_be_visible(timeout=STEP_MILLISECONDS)
    confirm(page, "Roll back", "second thoughts", typed=ORDERS)
    expect(stages).to_contain_text("rolled back by anyone on this machine: second thoughts", timeout=STEP_MILLISECONDS)
    assert current_layout(worked_lake.table(ORDERS)) == before
    assert ids(worked_lake) == rows
    assert window.violations() == []
