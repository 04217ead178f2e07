"""Tables of a real catalog, measured and planned for from their metadata."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BinaryType, NestedField, PrimitiveType, StringType

from neve.compact.config import CompactConfig
from neve.compact.partition_memory import PartitionMemory
from neve.compact.plan import Executor, Layout, Level, Request
from neve.compact.planning.context import has_record_id
from neve.compact.planning.table_planning import PlanHistory, TablePlanner, list_partition_files
from neve.errors import ConfigError, LakeError
from neve.lake.config import S3Config
from neve.lake.duckdb import connect
from neve.lake.read.partition_stats import make_partition_id
from neve.model.properties import DEDUPLICATE, LAYOUT_ZORDER, TARGET_FILE_SIZE_BYTES
from tests.lake.manifests import file_of

if TYPE_CHECKING:
    import duckdb
    from pyiceberg.table import Table

    from neve.compact.plan import Plan
    from neve.lake.lake import Lake
    from neve.lake.read.file_index import Connect

MB = 1024 * 1024
DAY = 20_454
START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=3)
CONFIG = CompactConfig()


def duck() -> duckdb.DuckDBPyConnection:
    """A connection as the planner is given."""
    return connect(S3Config(), on_s3=False, memory_limit="512MB")


def never() -> duckdb.DuckDBPyConnection:
    """A connection that must not be asked for."""
    raise AssertionError("manifests were looked at")


def plan_table(
    table: Table,
    config: CompactConfig,
    *,
    now: datetime,
    duck: Connect,
    past: PlanHistory | None = None,
    **request: Any,
) -> Plan:
    """The plan for a request."""
    return TablePlanner(table, config, now, duck, Request(**request), past=lambda: past or PlanHistory()).plan()


def add(table: Table, *sizes: int, day: int = 0, organization: str = "acme", order: int | None = 1) -> None:
    """Commit files of these sizes that hold an hour at noon of a day; none of them is on disk."""
    noon = int((START + timedelta(days=day, hours=12)).timestamp()) * 1_000_000
    low, high = ({2: (noon + minutes * 60_000_000).to_bytes(8, "little", signed=True)} for minutes in (0, 60))
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for number, size in enumerate(sizes):
            append.append_data_file(
                file_of(
                    f"{table.location()}/data/{organization}/{day}/{len(table.metadata.snapshots)}-{number}.parquet",
                    size,
                    [organization, DAY + day],
                    lower_bounds=low,
                    upper_bounds=high,
                    sort_order_id=order,
                )
            )


@pytest.fixture
def logs(lake: Lake) -> Table:
    """The table of logs, by organization and day."""
    return lake.table("logs")


def test_fragments_of_a_real_table_are_planned_for(logs: Table) -> None:
    """The plan stands on the current snapshot, keeps the sort order, and costs what it costs."""
    for day in (0, 1):
        add(logs, *[MB] * 12, day=day)
    plan = plan_table(logs, CONFIG, now=NOW, duck=duck)
    snapshot = logs.current_snapshot()
    assert snapshot is not None
    assert (plan.table, plan.snapshot_id, plan.sequence) == ("telemetry.logs", snapshot.snapshot_id, 2)
    groups = sorted(plan.groups, key=lambda group: group.partition.label)
    assert [group.partition.label for group in groups] == [
        "organization_id=acme/timestamp_day=2026-01-01",
        "organization_id=acme/timestamp_day=2026-01-02",
    ]
    group = groups[0]
    assert group.partition.values == ("acme", "2026-01-01")
    assert (group.layout, group.executor) == (Layout("sort", ("service_name", "timestamp")), Executor.ARROW)
    assert (group.estimate.output_files, group.estimate.output_bytes) == (1, 12 * MB)
    assert group.estimate.seconds > 0
    assert group.estimate.dollars > 0
    assert plan.health < 100


def test_a_day_that_is_still_open_is_compacted_without_its_hot_files(logs: Table) -> None:
    """Files of this hour stay; those of this morning go."""
    add(logs, *[MB] * 12, day=0)
    noon = START + timedelta(hours=13)
    hot = plan_table(logs, CONFIG, now=noon, duck=duck)
    assert hot.groups == ()
    assert "all files are hot" in hot.left_alone[0].reason
    cold = plan_table(logs, CONFIG, now=noon + timedelta(seconds=CONFIG.hot_seconds, milliseconds=1), duck=duck)
    assert len(cold.groups) == 1
    assert len(plan_table(logs, CONFIG, now=noon, duck=duck, strategy="small_files").groups) == 1


def test_the_summary_is_looked_at_first(logs: Table) -> None:
    """Nothing to do is known without a manifest; whoever wants to know more asks for it."""
    assert plan_table(logs, CONFIG, now=NOW, duck=never).reason == "nothing to do: the table has no snapshot"
    add(logs, *[500 * MB] * 20, *[MB] * 6)
    plan = plan_table(logs, CONFIG, now=NOW, duck=never)
    assert (plan.groups, plan.files, plan.health) == ((), 26, 100.0)
    assert "according to the snapshot summary" in plan.reason
    thorough = plan_table(logs, CONFIG, now=NOW, duck=duck, thorough=True)
    assert len(thorough.groups) == 1
    asked = plan_table(logs, CONFIG, now=NOW, duck=duck, level="minor")
    assert [group.level for group in asked.groups] == [Level.MINOR]


def test_the_target_is_the_tables_or_the_callers(logs: Table) -> None:
    """The call wins over the table's property, and that over the configuration."""
    add(logs, *[MB] * 12)
    assert plan_table(logs, CONFIG, now=NOW, duck=duck).target_bytes == 512 * MB
    assert plan_table(logs, CONFIG, now=NOW, duck=never, target_bytes=MB).target_bytes == MB
    with logs.transaction() as transaction:
        transaction.set_properties({TARGET_FILE_SIZE_BYTES: "much"})
    with pytest.raises(LakeError, match="is 'much', expected a number of bytes"):
        plan_table(logs, CONFIG, now=NOW, duck=never)
    with logs.transaction() as transaction:
        transaction.remove_properties(TARGET_FILE_SIZE_BYTES)
    assert plan_table(logs, CompactConfig(target_bytes=MB), now=NOW, duck=never).target_bytes == MB


def test_partitions_can_be_chosen(logs: Table) -> None:
    """By the values of partition fields, with patterns; a field that is none is refused."""
    for day in range(3):
        add(logs, *[MB] * 12, day=day)
    add(logs, *[MB] * 12, day=0, organization="other")
    chosen = "organization_id=ac*,timestamp_day=2026-01-0[12]"
    labels = {g.partition.label for g in plan_table(logs, CONFIG, now=NOW, duck=duck, partitions=chosen).groups}
    assert labels == {f"organization_id=acme/timestamp_day=2026-01-0{day}" for day in (1, 2)}
    with pytest.raises(ConfigError, match=r"has 'day=3', expected field=value with a field of telemetry.logs: organi"):
        plan_table(logs, CONFIG, now=NOW, duck=never, partitions="day=3")


def test_partitions_can_be_chosen_by_a_part_of_their_name(logs: Table) -> None:
    """A text without = is looked for in the label, as it is written or as it is meant; fields can stand beside it."""
    for day in range(2):
        add(logs, *[MB] * 12, day=day)
    add(logs, *[MB] * 12, day=0, organization="a/b")

    def chosen(text: str) -> list[tuple[object, ...]]:
        groups = plan_table(logs, CONFIG, now=NOW, duck=duck, partitions=text).groups
        return sorted(group.partition.values for group in groups)

    assert chosen("01-01") == [("a/b", "2026-01-01"), ("acme", "2026-01-01")]
    assert chosen("a/b") == chosen("a%2Fb") == [("a/b", "2026-01-01")]
    assert chosen("organization_id=acme,01-02") == [("acme", "2026-01-02")]
    assert chosen("nothing like it") == []


def test_dollars_that_are_spent_are_used_up(logs: Table) -> None:
    """Nobody is told to raise a limit that is enough in another hour."""
    add(logs, *[MB] * 12)
    plan = plan_table(logs, CompactConfig(max_dollars=1), now=NOW, duck=duck, past=PlanHistory(spent_dollars=1))
    assert (plan.groups, [cut.limit for cut in plan.cut]) == ((), ["max_dollars"])
    assert plan.cut[0].reason.endswith("left of this hour) is used up")


def test_only_the_records_of_neve_have_ids_that_tell_them_apart(lake: Lake) -> None:
    """A column of the same name elsewhere may be anything; the owner of a table may say what it is."""
    lake.catalog.create_namespace("shop")

    def made(name: str, kind: PrimitiveType, **properties: str) -> bool:
        schema = Schema(NestedField(1, "record_id", kind), NestedField(2, "what", StringType()))
        return has_record_id(lake.catalog.create_table(name, schema, properties=properties))

    assert has_record_id(lake.table("logs"))
    assert not has_record_id(lake.table("quarantine"))
    assert not made("shop.changes", BinaryType())
    assert not made("telemetry.changes", StringType())
    assert made("shop.events", BinaryType(), **{DEDUPLICATE: "true"})
    assert not made("telemetry.kept", BinaryType(), **{DEDUPLICATE: "false"})
    plain = lake.catalog.create_table(
        "shop.plain", Schema(NestedField(1, "what", StringType())), properties={DEDUPLICATE: "true"}
    )
    assert not has_record_id(plain)


def test_keys_of_partitions_are_short(logs: Table) -> None:
    """Whatever the values are; and files are found by them."""
    names = ("null", "x" * 3000)
    for name in names:
        add(logs, MB, organization=name)
    measured = TablePlanner(logs, CONFIG, NOW, duck).health()
    keys = {one.partition.key for one in measured.partitions}
    assert keys == {make_partition_id(0, [name, "2026-01-01"]) for name in names}
    assert max(map(len, keys)) < 40
    files = list_partition_files(logs, CONFIG, [one.partition for one in measured.partitions], duck=duck)
    assert {key: len(found) for key, found in files.items()} == dict.fromkeys(keys, 1)


def test_a_z_order_property_is_obeyed_and_remembered(logs: Table) -> None:
    """What the property names must be there; what memory says is laid out is left alone."""
    add(logs, *[500 * MB] * 3)
    with logs.transaction() as transaction:
        transaction.set_properties({LAYOUT_ZORDER: "service_name, severity_number"})
    config = CompactConfig(max_seconds=0)
    plan = plan_table(logs, config, now=NOW, duck=duck)
    assert [str(group.layout) for group in plan.groups] == ["zorder(service_name, severity_number)"]
    key = make_partition_id(0, ["acme", "2026-01-01"])
    known = {key: PartitionMemory("zorder(service_name, severity_number)", plan.sequence)}
    assert plan_table(logs, config, now=NOW, duck=duck, past=PlanHistory(known)).groups == ()
    with logs.transaction() as transaction:
        transaction.set_properties({LAYOUT_ZORDER: "attributes"})
    with pytest.raises(ConfigError, match=r"neve.layout.zorder names attributes, expected plain columns"):
        plan_table(logs, config, now=NOW, duck=never)


def test_an_older_partitioning_is_left_behind(logs: Table) -> None:
    """Files of the old spec are a partition of their own, and go to Spark."""
    add(logs, *[500 * MB] * 2)
    with logs.update_spec() as update:
        update.add_field("service_name", IdentityTransform(), "service_name")
    plan = plan_table(logs, CompactConfig(max_seconds=0), now=NOW, duck=duck)
    (group,) = plan.groups
    assert (group.partition.spec_id, group.executor, len(group.files)) == (0, Executor.SPARK, 2)


def test_duplicates_are_looked_for_in_closed_days(logs: Table) -> None:
    """A day is closed when its last record is old enough."""
    add(logs, *[MB] * 2, day=0)
    add(logs, *[MB] * 2, day=2)
    plan = plan_table(logs, CONFIG, now=NOW, duck=duck)
    assert [partition.values for partition in plan.check_duplicates] == [("acme", "2026-01-01")]
    files = list_partition_files(logs, CONFIG, plan.check_duplicates, duck=duck)
    assert {key: len(found) for key, found in files.items()} == {plan.check_duplicates[0].key: 2}


def test_a_table_is_measured_without_a_plan(logs: Table) -> None:
    """Score, counts, sizes and history, of the table and of each partition."""
    add(logs, *[MB] * 12, day=0)
    add(logs, 500 * MB, day=1)
    found = TablePlanner(logs, CONFIG, NOW, duck).health()
    assert (found.files, found.fragments, found.undersized_files, found.delete_files) == (13, 12, 0, 0)
    assert (found.snapshot.snapshots, found.snapshot.manifests, found.snapshot.sequence) == (2, 2, 2)
    worse, better = found.partitions
    assert worse.health < found.score < better.health == 100
    assert (worse.stats.fragments.files, worse.stats.deletes.files, worse.average_bytes) == (12, 0, MB)
    assert worse.partition.key == make_partition_id(0, ["acme", "2026-01-01"])


def test_a_level_that_is_none_is_refused(logs: Table) -> None:
    """The error lists the levels."""
    with pytest.raises(ConfigError, match="level is 'huge', expected minor, major, full"):
        plan_table(logs, CONFIG, now=NOW, duck=never, level="huge")
