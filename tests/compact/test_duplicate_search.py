"""Duplicates: what a look through a partition finds, and what becomes of it in the plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from neve.compact.config import CompactConfig
from neve.compact.execution import duplicate_search
from neve.compact.execution.duplicate_search import (
    DuplicateCount,
    DuplicateSearch,
    DuplicateTask,
    add_duplicate_groups,
    count_duplicates,
    find_clean_partitions,
)
from neve.compact.plan import InputFile, Partition
from neve.compact.planning.groups import make_dedupe_group
from neve.compact.planning.limits import Limits, Spending
from neve.compact.planning.table_planning import PlanHistory, TablePlanner
from neve.lake.commit.append import append_once
from neve.lake.config import S3Config
from neve.lake.duckdb import connect
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from tests.compact.model import TARGET, ModelTable, Tended
from tests.compact.test_planner import partition_of
from tests.telemetry import decoded, logs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import duckdb
    import pytest
    from pyspark.sql import SparkSession

    from neve.compact.plan import Plan
    from neve.lake.lake import Lake

CONFIG = CompactConfig(close_seconds=0, hot_seconds=0)


def log_file(lake: Lake, number: int) -> None:
    """A file with the same ten records as the others have, in a commit of its own."""
    table = lake.table("logs")
    batch = decoded(Signal.LOGS, logs(10)).batch
    written = write_files(Target.of(table), pa.Table.from_batches([batch]))
    append_once(table, written, batch_id=f"again:{number}", operation="test")


def look_at(lake: Lake) -> DuplicateTask:
    """All files of the table."""
    table = lake.table("logs")
    return DuplicateTask(Target.of(table), tuple(row["file_path"] for row in table.inspect.files().to_pylist()))


def change(path: str, how: Callable[[pa.Table], pa.Table]) -> None:
    """Write a file anew where it lies."""
    place = path.removeprefix("file://")
    pq.write_table(how(pq.ParquetFile(place).read()), place)


def duck() -> duckdb.DuckDBPyConnection:
    """A connection as the planner is given."""
    return connect(S3Config(), on_s3=False, memory_limit="512MB")


def on_this_machine(_spark: object, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Runs tasks as Spark would."""
    return [work(task) for task in tasks]


def searched(lake: Lake, monkeypatch: pytest.MonkeyPatch, config: CompactConfig = CONFIG) -> Plan:
    """The plan of the table of logs after the search, without Spark."""
    monkeypatch.setattr(duplicate_search, "run_tasks", on_this_machine)
    table, now = lake.table("logs"), datetime.now(UTC) + timedelta(days=3)
    planner = TablePlanner(table, config, now, duck)
    plan = planner.plan()
    assert len(plan.check_duplicates) == 1
    context = planner.context(PlanHistory())
    return DuplicateSearch(cast("SparkSession", None), table, context, duck, Limits.of(config)).extend(plan)


def test_columns_are_found_by_their_ids(lake: Lake) -> None:
    """A file may have them under older names; records of a file without ids of records are no repetitions."""
    for number in range(3):
        log_file(lake, number)
    look = look_at(lake)
    assert count_duplicates(look) == DuplicateCount(20)
    change(look.paths[0], lambda rows: rows.rename_columns({"record_id": "id_of_old"}))
    assert count_duplicates(look) == DuplicateCount(20)
    change(look.paths[0], lambda rows: rows.drop_columns(["id_of_old"]))
    assert count_duplicates(look) == DuplicateCount(10)
    change(look.paths[1], lambda rows: rows.drop_columns(["time_unix_nano", "observed_time_unix_nano"]))
    assert count_duplicates(look) == DuplicateCount(0)


def test_a_file_that_is_no_parquet_is_told(lake: Lake) -> None:
    """So is one that is gone, and one whose columns have no ids."""
    log_file(lake, 0)
    look = look_at(lake)
    (path,) = look.paths
    change(path, lambda rows: rows.replace_schema_metadata().cast(plain(rows.schema)))
    assert "columns without field ids" in str(count_duplicates(look).problem)
    place = Path(path.removeprefix("file://"))
    place.write_bytes(b"ORC, or whatever")
    assert count_duplicates(look).problem
    place.unlink()
    assert count_duplicates(look).problem


def plain(schema: pa.Schema) -> pa.Schema:
    """The columns without what is known of them."""
    return pa.schema([pa.field(one.name, one.type) for one in schema])


def test_what_is_found_joins_the_plan(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition is rewritten whole, and is clean when that is published."""
    for number in range(2):
        log_file(lake, number)
    plan = searched(lake, monkeypatch)
    (group,) = plan.groups
    assert (group.deduplicate, len(group.files)) == (True, 2)
    assert find_clean_partitions(plan, []) == []
    assert find_clean_partitions(plan, [group.id]) == [group.partition.key]


def test_what_does_not_fit_is_cut(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name of the limit; the partition is not taken for clean."""
    for number in range(2):
        log_file(lake, number)
    plan = searched(lake, monkeypatch, CONFIG.model_copy(update={"max_files": 1}))
    assert (plan.groups, [cut.limit for cut in plan.cut]) == ((), ["max_files"])
    assert find_clean_partitions(plan, []) == []


def test_a_partition_that_can_not_be_read_is_left(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on, a line of the log says why, and the partition is not taken for clean."""
    for number in range(2):
        log_file(lake, number)
    Path(look_at(lake).paths[0].removeprefix("file://")).write_bytes(b"ORC, or whatever")
    with capture_logs() as lines:
        plan = searched(lake, monkeypatch)
    assert not any(group.deduplicate for group in plan.groups)
    assert find_clean_partitions(plan, []) == []
    assert [line["event"] for line in lines] == ["duplicate search failed"]


@seed(5)
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(2, 30), min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
    st.integers(2, 60),
    st.integers(TARGET // 10, 2 * TARGET),
)
def test_no_duplicates_make_a_plan_pass_its_limits(
    files: list[int], found: set[int], max_files: int, max_bytes: int
) -> None:
    """Whatever is found: each partition is in the plan once, or cut, and the limits hold."""
    config = CompactConfig(max_files=max_files, max_bytes=max_bytes, max_dollars=0.001, fragments=4)
    data = [file for number, count in enumerate(files) for file in partition_of(str(number), count)]
    care = Tended(ModelTable(data), "small_files", config)
    plan, limits = care.plan(), Limits.of(config)
    groups = [
        make_dedupe_group(
            Partition(0, (str(number),), f"p={number}"),
            [InputFile(file.path, file.bytes, file.rows, 1) for file in data if file.partition == f'["{number}"]'],
            7,
            care.context,
        )
        for number in sorted(found)
        if number < len(files)
    ]
    after = add_duplicate_groups(replace(plan, check_duplicates=tuple(one.partition for one in groups)), groups, limits)
    assert limits.broken_by(Spending.of_all(after.groups)) is None
    assert after.partition_keys == plan.partition_keys
    paths = [file.path for group in after.groups for file in group.files]
    assert len(paths) == len(set(paths))
    taken = {group.partition.key for group in after.groups if group.deduplicate}
    cut = {one.partition.key for one in after.cut}
    assert {group.partition.key for group in groups} <= taken | cut
    assert {one.key for one in after.check_duplicates} == taken
