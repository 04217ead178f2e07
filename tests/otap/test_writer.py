"""Rows of any engine become the schema that we write, and files are whole and readable by everyone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from neve.errors import InputError
from neve.otap.folder import part_path
from neve.otap.tables import STARS, is_attrs, schema
from neve.otap.writer import conform_to_schema, find_first_unsorted, write_file
from tests.otap.stars import PART, Event, Link, Log, Span, make_star

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LOCAL = pafs.LocalFileSystem()
TABLES = sorted({table for star in STARS.values() for table in star.tables})
NANOS = 1_700_000_000_123_456_789
LOGS = [
    Log(time_ns=NANOS + place, attributes={"n": place, "m": {"a": [1]}}, body=f"no. {place}", trace_id=bytes(16))
    for place in range(3)
]
SPANS = [
    Span(
        time_ns=NANOS,
        duration_ns=42,
        attributes={"a": "b"},
        events=(Event("e", NANOS + 1, {"k": True}),),
        links=(Link(bytes(16), bytes(8), {"l": 1.5}),),
        status=2,
    )
]


def read(paths: dict[str, list[str]], table: str) -> pa.Table:
    """A table of a folder that was made."""
    return pa.concat_tables([pq.ParquetFile(path).read() for path in paths[table]])


def as_spark_gives(rows: pa.Table) -> pa.Table:
    """Rows as Spark hands them out: signed, times as whole numbers, bytes of any length."""

    def loose(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(one.name, loose(one.type)) for one in kind])
        if pa.types.is_unsigned_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
            return pa.int64()
        return pa.binary() if pa.types.is_fixed_size_binary(kind) else kind

    return rows.cast(pa.schema([pa.field(one.name, loose(one.type)) for one in rows.schema]))


def attrs(*rows: tuple[int, str]) -> pa.Table:
    """Attributes without a value."""
    given = [{"parent_id": parent, "key": key, "type": 0} for parent, key in rows]
    return pa.Table.from_pylist(given, schema=schema("log_attrs"))


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_any_engine_become_canonical(tmp_path: Path, table: str) -> None:
    """Dictionaries and Spark's signed numbers: the same rows come out of all."""
    plain = make_star(tmp_path / "plain", logs=LOGS, spans=SPANS, dictionary=False)
    told = make_star(tmp_path / "told", logs=LOGS, spans=SPANS, dictionary=True)
    expected = read(plain, table).replace_schema_metadata(None)
    assert expected.schema.equals(schema(table))
    assert conform_to_schema(table, read(told, table)).equals(expected)
    assert conform_to_schema(table, as_spark_gives(expected)).equals(expected)


@pytest.mark.parametrize("star", [{"logs": LOGS}, {"spans": SPANS}])
def test_the_exporters_own_types_become_canonical(tmp_path: Path, star: Any) -> None:
    """Times in a zone and durations as whole numbers are what they are; its only batch is not shifted."""
    ours = make_star(tmp_path / "ours", **star, dictionary=False)
    theirs = make_star(tmp_path / "theirs", **star, convention="exporter")
    for table in ours:
        assert conform_to_schema(table, read(theirs, table)).equals(read(ours, table).replace_schema_metadata(None))


def test_dictionaries_of_many_chunks() -> None:
    """Each chunk may have a dictionary of its own, with more texts in all than its keys could count."""
    kind = pa.dictionary(pa.uint8(), pa.string())
    chunks = [pa.array([f"{first}-{place}" for place in range(200)]).cast(kind) for first in range(3)]
    keys = pa.chunked_array(chunks)
    rows = pa.table({"parent_id": range(600), "key": keys, "type": [0] * 600})
    assert conform_to_schema("log_attrs", rows).column("key").to_pylist() == keys.to_pylist()


def test_columns_may_be_missing(tmp_path: Path) -> None:
    """What may be null is null, what the specification lets out has the exporter's default; so it is written."""
    given = conform_to_schema("logs", pa.table({"time_unix_nano": [NANOS]}))
    write_file(LOCAL, str(tmp_path / "x.parquet"), "logs", given, PART)
    made = pq.ParquetFile(tmp_path / "x.parquet").read()
    (row,) = made.select(["id", "scope", "schema_url", "flags", "body"]).to_pylist()
    assert row == {"id": None, "scope": None, "schema_url": "", "flags": 0, "body": None}
    assert made.column("time_unix_nano").cast(pa.int64()).to_pylist() == [NANOS]


@pytest.mark.parametrize(
    ("table", "column", "values", "message"),
    [
        ("logs", "resource", [{"id": 65_535}, {"id": 65_536}], r"logs\.resource\.id can't hold 65536: expected uint16"),
        ("logs", "trace_id", [bytes(16), b"ab"], r"logs\.trace_id can't hold 0x6162: expected 16 bytes, got 2"),
        ("logs", "id", [-1], r"logs\.id can't hold -1: expected uint32"),
        ("logs", "time_unix_nano", ["now"], r"logs\.time_unix_nano can't hold now"),
        ("logs", "body", [{"type": None, "str": "x"}], r"logs\.body\.type is missing in 1 of 1 rows"),
        ("logs", "severity_text", [[1]], r"logs\.severity_text can't hold values of type list<.*: expected string"),
        ("log_attrs", "key", ["a"], r"log_attrs\.parent_id is missing in 1 of 1 rows"),
    ],
)
def test_values_that_do_not_fit_are_named(table: str, column: str, values: list[Any], message: str) -> None:
    """Table, column and value are in the message."""
    with pytest.raises(InputError, match=message):
        conform_to_schema(table, pa.table({column: values}))


def test_no_such_table() -> None:
    """A table that is none of ours is refused, and the others are named."""
    with pytest.raises(InputError, match="no such OTAP table: metrics") as raised:
        schema("metrics")
    assert "span_link_attrs" in str(raised.value)


def test_attributes_must_be_sorted(tmp_path: Path) -> None:
    """By parent, then by the bytes of the key."""
    write_file(LOCAL, str(tmp_path / "a.parquet"), "log_attrs", attrs((1, "Z"), (1, "a"), (1, "é"), (2, "a")), PART)
    with pytest.raises(InputError, match=r"log_attrs is not sorted .* row 2 \(parent_id 1, key 'a'\)"):
        write_file(LOCAL, str(tmp_path / "b.parquet"), "log_attrs", attrs((1, "a"), (1, "b"), (1, "a")), PART)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
    assert find_first_unsorted(attrs((2, "a"), (1, "b"))) == 1
    assert find_first_unsorted(attrs()) is None


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """Nothing of a write that fails is seen as data, and a file can be written again."""
    path = part_path(str(tmp_path), "log_attrs", PART, 1, "u")
    for _ in range(2):
        written = write_file(LOCAL, path, "log_attrs", attrs((1, "a")), PART)
        assert (written.path, written.rows) == (path, 1)
    (found,) = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert (str(found), found.stat().st_size) == (path, written.bytes)


def test_root_files_tell_their_part_and_convention(tmp_path: Path) -> None:
    """As the exporter does it, in the metadata of the schema; children say nothing."""
    for table in ("logs", "log_attrs"):
        write_file(LOCAL, str(tmp_path / table), table, schema(table).empty_table(), PART)
    assert pq.read_schema(tmp_path / "logs").metadata == {b"_part_id": PART.encode(), b"neve.ids": b"specification"}
    assert pq.read_schema(tmp_path / "log_attrs").metadata is None


def written(folder: Path, made: Path) -> dict[str, pa.Table]:
    """A star of all tables, written by us, and what should be in it."""
    paths = make_star(made, logs=LOGS, spans=SPANS)
    rows = {table: conform_to_schema(table, read(paths, table)) for table in paths}
    for table, found in rows.items():
        write_file(LOCAL, part_path(str(folder), table, PART, 1, table), table, found, PART)
    return rows


def test_pyarrow_and_duckdb_read_what_we_write(tmp_path: Path) -> None:
    """Every column of every table, with nanoseconds and ids of fixed length."""
    for table, expected in written(tmp_path / "ours", tmp_path / "made").items():
        (path,) = (tmp_path / "ours" / table).rglob("*.parquet")
        assert pq.ParquetFile(path).read().equals(expected)
        answer = duckdb.sql(f"SELECT * FROM read_parquet('{path}', hive_partitioning = false)").to_arrow_table()
        assert conform_to_schema(table, answer).equals(expected)
        assert is_attrs(table) or expected.num_rows


def test_spark_reads_what_we_write(spark: SparkSession, tmp_path: Path) -> None:
    """With nanoseconds as whole numbers, Spark's rows become the same again."""
    rows = written(tmp_path / "ours", tmp_path / "made")
    key = "spark.sql.legacy.parquet.nanosAsLong"
    spark.conf.set(key, "true")
    try:
        for table in ("logs", "spans", "span_events", "log_attrs"):
            (path,) = (tmp_path / "ours" / table).rglob("*.parquet")
            assert conform_to_schema(table, spark.read.parquet(str(path)).toArrow()).equals(rows[table])
    finally:
        spark.conf.unset(key)
