"""Layouts staged, tried, merged and taken back on Spark, while others write to main."""

from __future__ import annotations

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from neve.autopilot.layout import Layout, PartField, Promoted
from neve.autopilot.rewrite_planner import RewritePlanner
from neve.autopilot.rollout.canary_queries import CanaryQuery
from neve.autopilot.rollout.stage_setup import StageRequest
from neve.autopilot.table_layout import current_layout
from neve.errors import ConfigError, LakeError, LeaseTaken
from neve.lake.commit.branches import BRANCH_PREFIX, tag_name
from neve.predicate.filters import AllOf
from neve.predicate.filters import Test as Ask
from tests.autopilot.rollout.orders import (
    FILE_ROWS,
    TABLE,
    TARGET_BYTES,
    append,
    ids,
    main_of,
    make_orders,
    rollout_in,
)
from tests.compact.tables import fill_logs, messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from neve.autopilot.rollout.rollout import Rollout
    from neve.lake.lake import Lake

BY_CUSTOMER = Layout(sort=("customer",), target_file_bytes=TARGET_BYTES)
HOT = (
    CanaryQuery("SELECT count(*) AS n, sum(price) FROM shop.orders WHERE customer = 5", weight=3),
    CanaryQuery("SELECT id, tags FROM orders o WHERE o.customer BETWEEN 40 AND 45"),
    CanaryQuery("SELECT * FROM shop.orders WHERE customer = 7 AND at > CURRENT_TIMESTAMP - INTERVAL 10000 DAYS"),
)
GROWING = {"last-updated-ms", "last-sequence-number", "metadata-log", "last-partition-id", "last-column-id"}


@dataclass(frozen=True)
class Advised:
    """A recommendation, as the planner sees it."""

    type: str
    after: Layout
    properties: dict[str, str] = field(default_factory=dict)


@pytest.fixture
def orders(spark: SparkSession, make_lake: Callable[..., Lake]) -> Lake:
    """A lake with the orders."""
    lake = make_lake(init=False)
    make_orders(lake)
    assert lake.spark is spark
    return lake


def change(layout: Layout = BY_CUSTOMER, **more: Any) -> StageRequest:
    """A change of the orders' layout."""
    return StageRequest("t1", TABLE, layout, **more)


def metadata_of(lake: Lake) -> dict[str, Any]:
    """What the catalog's current metadata file says, without what only grows."""
    path = lake.table(TABLE).metadata_location.removeprefix("file://").removeprefix("file:")
    found = json.loads(Path(path).read_text())
    return {key: value for key, value in found.items() if key not in GROWING}


def delete(lake: Lake, order: int) -> None:
    """A position delete on main."""
    lake.spark.sql(f"DELETE FROM {lake.spark_name(TABLE)} WHERE id = {order}")


def staged_folder(lake: Lake) -> Path:
    """Where the attempt's files are."""
    return Path(lake.table(TABLE).location().removeprefix("file://")) / "data" / "neve-autopilot-t1"


@pytest.mark.long
def test_from_stage_to_rollback_on_a_quiet_table(orders: Lake, tmp_path: Path) -> None:
    """Main is untouched until the merge, then laid out anew with all rows; the rollback restores it."""
    rollout, before, layout = rollout_in(orders, tmp_path), main_of(orders), current_layout(orders.table(TABLE))
    expected = ids(orders)
    staged = rollout.stage(change())
    assert (staged.base, staged.rows, staged.steps) == (before, 4 * FILE_ROWS, 1)
    assert staged.files_before == 4
    assert staged.files_after > 1
    assert (main_of(orders), current_layout(orders.table(TABLE))) == (before, layout)

    trial = rollout.canary("t1", HOT)
    assert trial.canary.passed, trial.canary.reasons
    assert trial.discarded is None
    assert not trial.canary.skipped
    assert all(0 < one.planned_branch < one.planned_main for one in trial.canary.results)
    assert [one.rows for one in trial.canary.results] == [1, 6 * 16, 16]
    assert all(one.read_main and one.read_branch for one in trial.canary.results)

    merged = rollout.merge("t1")
    assert (merged.how, merged.main_before, merged.main_after) == ("fast-forward", before, staged.head)
    table = orders.table(TABLE)
    assert ids(orders) == expected
    assert set(table.metadata.refs) == {"main", "neve-before-t1"}
    assert current_layout(table).sort == ("customer",)
    orders_of_files = {file["sort_order_id"] for file in table.inspect.files().to_pylist()}
    assert orders_of_files == {table.metadata.default_sort_order_id}
    measured = rollout.measure_again("t1", HOT)
    assert measured.delivered_pct == pytest.approx(100 * trial.canary.reduction.estimate, abs=0.5)  # type: ignore[union-attr]
    assert rollout.merge("t1").how == "nothing"

    back = rollout.rollback("t1")
    assert (back.files, main_of(orders)) == ("restored", before)  # type: ignore[union-attr]
    assert current_layout(orders.table(TABLE)) == layout
    assert ids(orders) == expected
    with pytest.raises(LakeError, match="rolled_back"):
        rollout.merge("t1")


def test_rows_that_come_meanwhile_are_kept(orders: Lake, tmp_path: Path) -> None:
    """Main moved by appends: the swap is replayed on it, and the rollback leaves what came before and after it."""
    rollout = rollout_in(orders, tmp_path)
    rollout.stage(change(replace(BY_CUSTOMER, partition=(PartField("customer", "bucket[2]"),))))
    append(orders, 10_000, 10)
    tenants = CanaryQuery("SELECT id FROM shop.orders", implied=(Ask("customer", "eq", (5,)),))
    report = rollout.canary("t1", [HOT[0], tenants, CanaryQuery("SELECT nobody FROM orders WHERE id = 987654")]).canary
    assert report.passed, report.reasons
    assert [one.rows for one in report.results] == [1, 16]  # of that tenant alone
    assert [one.reason for one in report.skipped] == ["Spark failed: UNRESOLVED_COLUMN.WITH_SUGGESTION"]
    append(orders, 20_000, 10)
    expected = ids(orders)
    assert len(expected) == 4 * FILE_ROWS + 20

    merged = rollout.merge("t1")
    assert (merged.how, merged.redone) == ("replay", 0)
    table = orders.table(TABLE)
    assert ids(orders) == expected
    assert set(table.metadata.refs) == {"main", "neve-before-t1"}
    assert str(table.spec().fields[0].transform) == "bucket[2]"
    assert {file["spec_id"] for file in table.inspect.files().to_pylist()} == {0, 1}
    assert orders.spark.table(orders.spark_name(TABLE)).where("customer = 5").count() == 16

    append(orders, 30_000, 10)
    back = rollout.rollback("t1")
    assert back.files == "swapped back"  # type: ignore[union-attr]
    table = orders.table(TABLE)
    assert ids(orders) == [*expected, *range(30_000, 30_010)]
    assert (table.metadata.default_spec_id, set(table.metadata.refs)) == (0, {"main"})
    paths = [file["file_path"] for file in table.inspect.files().to_pylist()]
    assert not any("neve-autopilot" in path for path in paths)


@pytest.mark.long
def test_files_that_nobody_reads_stay_as_they_are(orders: Lake, tmp_path: Path) -> None:
    """Two of four files are rewritten, in steps that a killed run does not lose; answers are the same all the way."""
    rollout = rollout_in(orders, tmp_path, threshold_pct=0)
    finer = change(replace(BY_CUSTOMER, target_file_bytes=2048))  # so that two files become several
    early = AllOf((Ask("customer", "range", (), 5, 9), Ask("id", "range", (), None, 2 * FILE_ROWS - 1)))
    asked = CanaryQuery(
        f"SELECT id, price, tags FROM shop.orders WHERE customer BETWEEN 5 AND 9 AND id < {2 * FILE_ROWS}"
    )
    layout = current_layout(orders.table(TABLE))
    before = {file["file_path"] for file in orders.table(TABLE).inspect.files().to_pylist()}

    def killed(_done: int, _of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rollout.stage(replace(finer, filters=(early,)), killed)
    staged = rollout.stage(finer)  # what it began with is gone on with
    assert (staged.found, staged.steps, staged.files_before, staged.rows) == (1, 0, 2, 4 * FILE_ROWS)
    assert [one.files for one in staged.left_out] == [2]
    assert "2 of 4 files are rewritten" in staged.reasons[0]
    trial = rollout.canary("t1", [asked])
    assert trial.canary.passed, trial.canary.reasons
    append(orders, 10_000, 10)
    expected = ids(orders)
    assert rollout.merge("t1").how == "replay"
    after = {file["file_path"] for file in orders.table(TABLE).inspect.files().to_pylist()}
    assert len(before & after) == 2
    assert ids(orders) == expected
    rollout.rollback("t1")
    assert before <= {file["file_path"] for file in orders.table(TABLE).inspect.files().to_pylist()}
    assert (ids(orders), current_layout(orders.table(TABLE))) == (expected, layout)


@pytest.mark.long
def test_deletes_that_come_meanwhile_win(orders: Lake, tmp_path: Path) -> None:
    """A row that main deletes while a layout is staged stays deleted: its step alone is done again."""
    rollout = rollout_in(orders, tmp_path, step_bytes=1)
    delete(orders, FILE_ROWS + 1)  # before the staging: applied by it
    assert rollout.stage(change()).steps == 4
    delete(orders, 5)
    expected = ids(orders)
    assert len(expected) == 4 * FILE_ROWS - 2
    merged = rollout.merge("t1")
    assert (merged.how, merged.redone) == ("replay", 1)
    assert ids(orders) == expected
    assert orders.spark.table(orders.spark_name(TABLE)).count() == len(expected)
    paths = [file["file_path"] for file in orders.table(TABLE).inspect.data_files().to_pylist()]
    assert all("neve-autopilot-t1" in path for path in paths)


@pytest.mark.long
def test_a_writer_at_work_loses_nothing(orders: Lake, tmp_path: Path) -> None:
    """Somebody appends all the time, while a layout is staged and merged: every row is there in the end."""
    rollout, over = rollout_in(orders, tmp_path), threading.Event()

    def write() -> int:
        for number in itertools.count():
            append(orders, 100_000 + 10 * number, 10)
            if over.wait(0.4):
                return 10 * (number + 1)
        raise AssertionError

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        try:
            rollout.stage(change())
            merged = rollout.merge("t1")
        finally:
            over.set()
        written = writer.result()
    assert merged.how == "replay"
    assert ids(orders) == [*range(4 * FILE_ROWS), *range(100_000, 100_000 + written)]
    assert current_layout(orders.table(TABLE)).sort == ("customer",)


@pytest.mark.long
def test_a_canary_that_fails_leaves_main_as_it_was(orders: Lake, tmp_path: Path) -> None:
    """Refs, snapshots, spec, columns and files are gone; of the metadata only counters and its log have moved."""
    before = metadata_of(orders)
    layout = Layout(
        partition=(PartField("at", "day"),), zorder=("customer", "id"), promoted=(Promoted("route", "tags['route']"),)
    )
    rollout = rollout_in(orders, tmp_path, threshold_pct=99)
    rollout.stage(change(layout))
    assert metadata_of(orders) != before
    assert staged_folder(orders).exists()
    query = CanaryQuery("SELECT count(*), tags['route'] FROM orders WHERE tags['route'] = 'r1' GROUP BY tags['route']")
    trial = rollout.canary("t1", [query, CanaryQuery("SELECT id FROM orders LIMIT 3"), CanaryQuery("SELECT 1")])
    assert not trial.canary.passed
    assert [one.difference for one in trial.canary.results] == ["", ""]
    assert len(trial.canary.skipped) == 1
    assert trial.discarded is not None
    assert trial.discarded.snapshots_removed == 1
    assert len(trial.discarded.left) == 3
    assert metadata_of(orders) == before
    assert not staged_folder(orders).exists()
    assert json.dumps(trial.as_document())


@pytest.mark.long
def test_columns_for_keys_are_full_after_the_merge(orders: Lake, tmp_path: Path) -> None:
    """Rows that came while a column was staged get its value, too."""
    rollout = rollout_in(orders, tmp_path)
    layout = replace(BY_CUSTOMER, sort=("route",), promoted=(Promoted("route", "tags['route']"),))
    rollout.stage(change(layout))
    append(orders, 10_000, 10)
    assert rollout.merge("t1").redone == 1
    rows = orders.table(TABLE).scan(selected_fields=("id", "route")).to_arrow().to_pylist()
    assert len(rows) == 4 * FILE_ROWS + 10
    assert all(row["route"] == f"r{row['id'] % 5}" for row in rows)


@pytest.mark.long
def test_a_table_of_the_lake_itself(spark_lake: Lake, tmp_path: Path) -> None:
    """Logs: partitions that stay, bounds for a column that had none, a new column for a resource's attribute."""
    fill_logs(spark_lake, 4, 200)
    expected = messages(spark_lake)
    layout = replace(
        current_layout(spark_lake.table("logs")),
        sort=("message",),
        promoted=(Promoted("service", "resource_attrs['service.name']"),),
        target_file_bytes=TARGET_BYTES,
    )
    rollout = rollout_in(spark_lake, tmp_path)
    bounds = {"write.metadata.metrics.column.message": "truncate(16)"}
    rollout.stage(StageRequest("t1", "logs", layout, properties=bounds))
    asked = CanaryQuery("SELECT resource_attrs['service.name'], count(*) FROM logs WHERE message = 'line 7' GROUP BY 1")
    assert rollout.canary("t1", [asked]).canary.passed
    fill_logs(spark_lake, 1, 3, first=10_000)
    assert rollout.merge("t1").redone == 1
    assert messages(spark_lake) == sorted([*expected, "line 10000", "line 10001", "line 10002"])
    table = spark_lake.table("logs")
    assert replace(current_layout(table), promoted=layout.promoted) == layout
    assert table.metadata.default_spec_id == 0


@pytest.mark.long
def test_a_killed_run_goes_on(orders: Lake, tmp_path: Path) -> None:
    """Steps that were committed stay; what was written and not committed is removed; the rest is done."""
    rollout = rollout_in(orders, tmp_path, step_bytes=1)

    def killed(done: int, _of: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rollout.stage(change(), killed)
    litter = staged_folder(orders) / "litter.parquet"
    litter.write_bytes(b"half a file")
    report = rollout.stage(change())
    assert (report.found, report.steps, report.files_before) == (2, 2, 4)
    assert not litter.exists()
    assert rollout.merge("t1").how == "fast-forward"
    assert ids(orders) == list(range(4 * FILE_ROWS))


@pytest.mark.long
def test_of_two_mergers_one_wins(orders: Lake, tmp_path: Path) -> None:
    """The lease lets one in; where leases are not shared the catalog does, and the other finds it merged."""
    rollout = rollout_in(orders, tmp_path)
    named = tuple(file["file_path"] for file in orders.table(TABLE).inspect.files().to_pylist()[:2])
    rollout.stage(change(files=named))

    def merge() -> str:
        try:
            return rollout.merge("t1").how
        except LeaseTaken:
            return "refused"

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(future.result() for future in [pool.submit(merge), pool.submit(merge)])
    assert outcomes in (["fast-forward", "nothing"], ["fast-forward", "refused"])
    assert ids(orders) == list(range(4 * FILE_ROWS))
    paths = [file["file_path"] for file in orders.table(TABLE).inspect.files().to_pylist()]
    assert not set(named) & set(paths)
    assert sum("neve-autopilot" not in path for path in paths) == 2


def test_what_can_not_be_staged_is_said(orders: Lake, tmp_path: Path) -> None:
    """A layout that is there, a column that is not, and branches that hold no tables are refused before any change."""
    before = metadata_of(orders)
    rollout: Rollout = rollout_in(orders, tmp_path)
    with pytest.raises(ConfigError, match="already has this layout"):
        rollout.stage(change(current_layout(orders.table(TABLE))))
    with pytest.raises(ConfigError, match="expected all files"):
        rollout.stage(change(Layout(promoted=(Promoted("route", "tags['route']"),)), files=("a",)))
    with pytest.raises(ConfigError, match="the column nobody"):
        rollout.stage(StageRequest("t2", TABLE, Layout(partition=(PartField("nobody", "day"),))))
    files = rollout_in(orders, tmp_path, branches="lakefs", lakefs={"endpoint": "http://127.0.0.1", "repository": "r"})
    with pytest.raises(LakeError, match="open version of lakeFS"):
        files.stage(change())
    assert metadata_of(orders) == before


@pytest.mark.long
def test_the_planner_of_the_seed(orders: Lake, tmp_path: Path) -> None:
    """Its calls in its order: a branch, a plan, a rewrite, a canary, and a merge where that is good enough."""
    planner = RewritePlanner("http://lakefs.invalid", "key", "secret", rollout=rollout_in(orders, tmp_path))
    branch = planner.create_optimization_branch(table_name=TABLE, base_branch="main")
    append(orders, 10_000, 10)
    plan = planner.plan_rewrite(TABLE, Advised("sort", BY_CUSTOMER), branch)
    assert (plan.table_name, plan.action_type, plan.branch_name) == (TABLE, "sort", branch)
    assert planner.execute_rewrite(plan)["rows"] == 4 * FILE_ROWS
    found = planner.run_canary_test(plan, [query.text for query in HOT])
    assert (found["tests_run"], found["tests_passed"]) == (3, 3)
    assert found["scan_reduction"] >= 30
    assert planner.merge_to_main(branch_name=branch, commit_message="by customer")["how"] == "replay"
    assert len(ids(orders)) == 4 * FILE_ROWS + 10

    other = planner.create_optimization_branch(TABLE)
    planner.rollback_branch(other)
    by_id = planner.plan_rewrite(TABLE, Advised("sort", replace(BY_CUSTOMER, sort=("id",))), other)
    planner.execute_rewrite(by_id)
    assert planner.run_canary_test(by_id, [HOT[0].text])["scan_reduction"] < 30
    planner.rollback_branch(other)
    assert set(orders.table(TABLE).metadata.refs) == {"main", tag_name(branch.removeprefix(BRANCH_PREFIX))}
    with pytest.raises(ConfigError, match="base_branch is 'dev'"):
        planner.create_optimization_branch(TABLE, "dev")
