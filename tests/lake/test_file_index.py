"""The index of a snapshot's files: the same answers as a slow look at plain lists gives."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from neve.errors import ConfigError, LakeError
from neve.lake.config import S3Config
from neve.lake.duckdb import connect
from neve.lake.read.file_index import FileIndex
from neve.lake.read.partition_stats import FileCriteria, TargetSizes, make_partition_id
from neve.lake.read.statistics import TimeColumn, find_time_column
from tests.compact.model import NOW_US, TARGET, ModelFile, ModelTable
from tests.compact.test_convergence import MINUTE, tables
from tests.lake.manifests import PATH_FIELD, Entry, Listed, Manifests, file_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import duckdb
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.lake import Lake

SCHEMA = Schema(NestedField(1, "p", StringType()), NestedField(2, "ts", TimestamptzType()))
BY_P = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"))
UNPARTITIONED = PartitionSpec(spec_id=1)
TIME = TimeColumn("ts", 2, "us")
QUESTION = FileCriteria(TargetSizes(TARGET))


def duck() -> duckdb.DuckDBPyConnection:
    """A connection as the index is given."""
    return connect(S3Config(), on_s3=False, memory_limit="512MB")


@pytest.fixture
def table(make_lake: Callable[..., Lake]) -> Table:
    """A table with two partition specs: by p, and none."""
    lake = make_lake()
    made = lake.catalog.create_table("telemetry.indexed", SCHEMA, partition_spec=BY_P)
    with made.update_spec() as update:
        update.remove_field("p")
    return lake.table("indexed")


def index(table: Table, manifests: Sequence[ManifestFile], time: TimeColumn | None = TIME) -> FileIndex:
    """The index of a snapshot with these manifests."""
    return FileIndex(table, duck, snapshot=cast("Snapshot", Listed(manifests)), time=time)


def bounds(micros: int | None) -> dict[int, bytes]:
    """The bounds of the time column."""
    return {} if micros is None else {2: struct.pack("<q", micros)}


def data_file(file: ModelFile) -> DataFile:
    """A file of the model in a manifest."""
    return file_of(
        file.path,
        file.bytes,
        [file.partition[2]],
        record_count=file.rows,
        sort_order_id=file.sort_order_id,
        lower_bounds=bounds(file.time_low),
        upper_bounds=bounds(file.time_high),
    )


def manifests_of(writer: Manifests, model: ModelTable) -> list[ManifestFile]:
    """The model's files in manifests: half say their sequence numbers, half have their manifest's."""
    made = []
    for sequence in sorted({file.sequence for file in model.files}):
        entries = [Entry(data_file(file)) for file in model.files if file.sequence == sequence and file.rows % 2]
        told = [
            Entry(data_file(file), sequence, sequence, ManifestEntryStatus.EXISTING)
            for file in model.files
            if file.sequence == sequence and not file.rows % 2
        ]
        made += [writer.write(BY_P, entries, sequence=sequence)] if entries else []
        made += [writer.write(BY_P, told, sequence=99)] if told else []
    for delete in model.deletes:
        everywhere = delete.kind == "everywhere"
        own = {PATH_FIELD: delete.data_path.encode()} if delete.data_path else {}
        is_equality = delete.kind in ("equality", "everywhere")
        file = file_of(
            f"{delete.kind}{id(delete)}",
            delete.bytes,
            [] if everywhere else [delete.partition[2]],
            content=DataFileContent.EQUALITY_DELETES if is_equality else DataFileContent.POSITION_DELETES,
            file_format=FileFormat.PUFFIN if delete.kind == "vector" else FileFormat.PARQUET,
            record_count=delete.rows,
            lower_bounds=own,
            upper_bounds=own,
        )
        spec = UNPARTITIONED if everywhere else BY_P
        made.append(writer.write(spec, [Entry(file)], sequence=delete.sequence, deletes=True))
    return made


@pytest.mark.long
@seed(11)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    model=tables(),
    hot_minutes=st.none() | st.integers(0, 250),
    order=st.none() | st.just(1),
    laid=st.integers(0, 9),
    most=st.integers(1, 100),
)
def test_it_says_what_a_slow_look_says(
    table: Table, tmp_path: Path, model: ModelTable, hot_minutes: int | None, order: int | None, laid: int, most: int
) -> None:
    """Counts and candidates are those of the model, for any files and any deletes."""
    question = FileCriteria(
        TargetSizes(TARGET),
        hot_from_us=None if hot_minutes is None else NOW_US - hot_minutes * MINUTE,
        wants_layout=True,
        sort_order_id=order,
        laid_out={(0, '["a"]'): laid},
    )
    writer = Manifests(f"file://{tmp_path}", table.io, SCHEMA)
    with index(table, manifests_of(writer, model)) as found:
        assert found.stats(question) == model.stats(question)
        wanted = {(0, '["a"]'): True, (0, '["b"]'): False}
        assert found.candidates(question, wanted, most) == model.candidates(question, wanted, most)


def test_partition_values_are_as_iceberg_writes_them(table: Table, tmp_path: Path) -> None:
    """Dates, times, numbers, bytes and nulls come out as JSON single values, and the label can be read."""
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "s": (StringType(), 'a/"b', 'a/"b'),
        "d": (DateType(), 20454, "2026-01-01"),
        "tz": (TimestamptzType(), 1_700_000_000_000_001, "2023-11-14T22:13:20.000001+00:00"),
        "t": (TimestampType(), 1_700_000_000_000_000, "2023-11-14T22:13:20.000000"),
        "b": (BinaryType(), b"\x01\xff", "01ff"),
        "n": (DecimalType(9, 2), Decimal("12.30"), "12.30"),
        "u": (UUIDType(), UUID(int=5).bytes, str(UUID(int=5))),
        "l": (LongType(), 2**40, 2**40),
        "bo": (BooleanType(), True, True),
        "f": (DoubleType(), 1.5, 1.5),
        "no": (StringType(), None, None),
    }
    schema = Schema(*(NestedField(n, name, kind) for n, (name, (kind, _v, _t)) in enumerate(kinds.items(), start=1)))
    fields = [PartitionField(n, 999 + n, IdentityTransform(), name) for n, name in enumerate(kinds, start=1)]
    day = PartitionField(3, 1100, DayTransform(), "tz_day")
    bucket = PartitionField(1, 1101, BucketTransform(4), "s_bucket")
    spec = PartitionSpec(*fields, day, bucket)
    file = file_of("x", 10, [*(value for _kind, value, _text in kinds.values()), 20454, 3])
    writer = Manifests(f"file://{tmp_path}", table.io, schema)
    manifest = writer.write(spec, [Entry(file)], sequence=1)
    odd = table.catalog.create_table("telemetry.odd", schema, partition_spec=spec)
    with index(odd, [manifest], None) as found:
        (stats,) = found.stats(QUESTION)
    assert stats.values == (*(text for _kind, _value, text in kinds.values()), "2026-01-01", 3)
    assert stats.label.startswith("s=a%2F%22b/d=2026-01-01/")
    assert stats.label.endswith("/bo=true/f=1.5/no=null/tz_day=2026-01-01/s_bucket=3")


def test_manifests_of_format_version_1_have_no_sequence_numbers(table: Table, tmp_path: Path) -> None:
    """They are read beside newer ones, and their files come before everything."""
    writer = Manifests(f"file://{tmp_path}", table.io, SCHEMA)
    old = writer.write(BY_P, [Entry(file_of("old", 10, ["a"]))], sequence=0, version=1)
    new = writer.write(BY_P, [Entry(file_of("new", 20, ["a"]))], sequence=7)
    with index(table, [old, new]) as found:
        files = found.candidates(QUESTION, {(0, '["a"]'): True}, 10)[0, '["a"]']
    assert [(file.path, file.sequence) for file in files] == [("old", 0), ("new", 7)]


def test_entries_of_removed_files_do_not_count(table: Table, tmp_path: Path) -> None:
    """A manifest keeps them for one commit."""
    writer = Manifests(f"file://{tmp_path}", table.io, SCHEMA)
    gone = Entry(file_of("gone", 10, ["a"]), 1, 1, ManifestEntryStatus.DELETED)
    with index(table, [writer.write(BY_P, [gone, Entry(file_of("there", 20, ["a"]))], sequence=2)]) as found:
        (stats,) = found.stats(QUESTION)
    assert (stats.files, stats.bytes) == (1, 20)


def test_a_rewritten_file_has_no_older_position_deletes(table: Table, tmp_path: Path) -> None:
    """Its rows keep their sequence number, but no position delete can have named it before it was there."""
    writer = Manifests(f"file://{tmp_path}", table.io, SCHEMA)
    data = writer.write(BY_P, [Entry(file_of("rewritten", 10, ["a"]), sequence=3)], sequence=5)
    position = file_of("p", 1, ["a"], content=DataFileContent.POSITION_DELETES)
    equality = file_of("e", 1, ["a"], content=DataFileContent.EQUALITY_DELETES)
    deletes = [writer.write(BY_P, [Entry(file)], sequence=4, deletes=True) for file in (position, equality)]
    with index(table, [data, *deletes]) as found:
        (file,) = found.candidates(QUESTION, {(0, '["a"]'): True}, 10)[0, '["a"]']
    assert (file.position_files, file.equality_files) == (0, 1)


@pytest.mark.parametrize("order", [("older", "newer"), ("newer", "older")])
def test_a_file_that_its_manifest_does_not_add_is_older_than_it(
    table: Table, tmp_path: Path, order: tuple[str, str]
) -> None:
    """Early writers said nothing of when a file was added; then it is not newer than its rows, and deletes apply."""
    writer = Manifests(f"file://{tmp_path}", table.io, SCHEMA)
    existing = ManifestEntryStatus.EXISTING
    entries = {
        "older": [
            Entry(file_of("kept", 10, ["a"]), 3, None, existing),
            Entry(file_of("unknown", 10, ["a"]), None, None, existing),
            Entry(file_of("added", 10, ["a"])),
        ],
        "newer": [
            Entry(file_of("untold", 10, ["a"]), 3, None, existing),
            Entry(file_of("rewritten", 10, ["a"]), 3, 8, existing),
        ],
    }
    data = [writer.write(BY_P, entries[kind], sequence=9, older=kind == "older") for kind in order]
    position = file_of("p", 1, ["a"], content=DataFileContent.POSITION_DELETES)
    deletes = writer.write(BY_P, [Entry(position)], sequence=5, deletes=True)
    with index(table, [*data, deletes]) as found:
        files = found.candidates(QUESTION, {(0, '["a"]'): True}, 10)[0, '["a"]']
    assert {file.path: (file.sequence, file.position_files) for file in files} == {
        "kept": (3, 1),
        "added": (9, 0),
        "untold": (3, 1),
        "rewritten": (3, 0),
        "unknown": (0, 1),
    }


def test_equality_deletes_of_a_spec_of_removed_fields_are_for_all(table: Table, tmp_path: Path) -> None:
    """In format version 1 a field that is removed stays, without a value: such a spec parts nothing."""
    made = table.catalog.create_table(
        "telemetry.voided", SCHEMA, partition_spec=BY_P, properties={"format-version": "1"}
    )
    with made.update_spec() as update:
        update.remove_field("p")
    assert [str(field.transform) for field in made.spec().fields] == ["void"]
    writer = Manifests(f"file://{tmp_path}", table.io, SCHEMA)
    data = writer.write(BY_P, [Entry(file_of("x", 10, ["a"]))], sequence=1)
    equality = file_of("e", 1, [None], content=DataFileContent.EQUALITY_DELETES)
    deletes = writer.write(made.spec(), [Entry(equality)], sequence=2, deletes=True)
    with index(made, [data, deletes]) as found:
        (stats,) = found.stats(QUESTION)
    assert (stats.with_equality.files, stats.deletes.live_equality_files) == (1, 1)


def test_null_and_the_word_null_are_two_partitions(table: Table, tmp_path: Path) -> None:
    """Their labels are the same, their keys are not."""
    writer = Manifests(f"file://{tmp_path}", table.io, SCHEMA)
    entries = [Entry(file_of(f"of {value}", 10, [value])) for value in (None, "null")]
    with index(table, [writer.write(BY_P, entries, sequence=1)]) as found:
        stats, keys = found.stats(QUESTION), found.partition_ids()
    assert [one.label for one in stats] == ["p=null", "p=null"]
    assert keys == {(0, "[null]"): make_partition_id(0, [None]), (0, '["null"]'): make_partition_id(0, ["null"])}
    assert len(set(keys.values())) == 2


def test_times_before_1970_and_broken_bounds(table: Table, tmp_path: Path) -> None:
    """A bound is a signed number, and one of another width is none."""
    writer = Manifests(f"file://{tmp_path}", table.io, SCHEMA)
    early = file_of("early", 1, ["a"], lower_bounds=bounds(-5), upper_bounds=bounds(7))
    broken = file_of("broken", 1, ["a"], lower_bounds={2: b"abc"}, upper_bounds={2: b""})
    with index(table, [writer.write(BY_P, [Entry(early), Entry(broken)], sequence=1)]) as found:
        files = found.candidates(QUESTION, {(0, '["a"]'): True}, 10)[0, '["a"]']
    assert [(file.path, file.time_low, file.time_high) for file in files] == [
        ("early", -5, 7),
        ("broken", None, None),
    ]


def test_a_file_without_times_is_as_old_as_its_commit(table: Table, make_lake: Callable[..., Lake]) -> None:
    """Where no bound tells, a file is hot while its commit is young."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file_of("x", 10, [], spec_id=table.spec().spec_id))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    committed = snapshot.timestamp_ms * 1000
    for hot_from, hot in ((committed, 1), (committed + 1, 0)):
        with FileIndex(table, duck, time=TIME) as found:
            (stats,) = found.stats(FileCriteria(TargetSizes(TARGET), hot_from_us=hot_from))
        assert stats.hot.files == hot


def test_an_empty_table_has_no_partitions(table: Table) -> None:
    """Without a snapshot there is nothing to read."""
    with FileIndex(table, duck) as found:
        assert found.stats(QUESTION) == []


def test_a_manifest_that_is_gone_is_told(table: Table, tmp_path: Path) -> None:
    """The error names the table, and the temporary folder is removed."""
    writer = Manifests(f"file://{tmp_path}", table.io, SCHEMA)
    manifest = writer.write(BY_P, [Entry(file_of("x", 10, ["a"]))], sequence=1)
    (tmp_path / manifest.manifest_path.rsplit("/", 1)[1]).unlink()
    with pytest.raises(LakeError, match=r"can't read the manifests of telemetry.indexed"), index(table, [manifest]):
        pass


def test_the_time_column_is_found_by_name_or_by_partitioning(table: Table, lake: Lake) -> None:
    """Neve's own tables have usual names; of others the partitioning tells; a wrong wish is refused."""
    assert find_time_column(lake.table("spans")) == TimeColumn("timestamp", 2, "us")
    assert find_time_column(table) is None
    assert find_time_column(table, "ts") == TIME
    with pytest.raises(ConfigError, match="no time column 'p'"):
        find_time_column(table, "p")


@pytest.mark.parametrize(("version", "granularity"), [(2, "file"), (2, "partition"), (3, "file")])
def test_deletes_that_spark_wrote(spark_lake: Lake, version: int, granularity: str) -> None:
    """Position deletes of a file or of a partition, and deletion vectors, are counted as Iceberg itself counts them."""
    name = spark_lake.spark_name("deleted")
    spark = spark_lake.spark
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p STRING) USING iceberg PARTITIONED BY (p) TBLPROPERTIES ("
        f"'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read', "
        f"'write.delete.granularity' = '{granularity}')"
    )
    for start in (0, 100):
        rows = f"SELECT id, if(id % 2 = 0, 'a', 'b') AS p FROM range({start}, {start + 100})"
        spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM ({rows}) ORDER BY p")
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 0")
    counted = spark.sql(f"SELECT content, count(*), sum(record_count) FROM {name}.files GROUP BY content").collect()
    told = {row[0]: (row[1], row[2]) for row in counted}
    table = spark_lake.table("deleted")
    with FileIndex(table, duck) as found:
        stats = found.stats(QUESTION)
        ids = {(one.spec_id, one.text): True for one in stats}
        files = [file for of in found.candidates(QUESTION, ids, 100).values() for file in of]
    deletes = [one.deletes for one in stats]
    assert (sum(one.files for one in stats), sum(one.rows for one in stats)) == told[0]
    assert sum(one.files for one in deletes) == told[1][0]
    assert sum(one.vectors for one in deletes) == (told[1][0] if version == 3 else 0)
    assert sum(one.dangling for one in deletes) == 0
    if granularity == "file":
        assert sum(file.own_rows for file in files) == told[1][1] == 20
    else:
        assert sum(one.live_position_rows for one in deletes) == told[1][1] == 20
        assert sum(file.position_files for file in files) == 2
