"""The examples of docs/python.md run, and print what the page says."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import neve
from neve.app.open_lake import open_lake
from neve.autopilot.workload import queries
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.predicate import filters
from tests.docs.python_page import Example, documented_names, load_examples
from tests.empty_tables import create_empty_tables
from tests.telemetry import MAKERS, decoded, logs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from neve.lake.lake import Lake

EXAMPLES = load_examples()
FAST = [example for example in EXAMPLES if not example.starts_spark]
SPARK = [example for example in EXAMPLES if example.starts_spark]
LOGGED = queries.Query(
    query_id="q1",
    engine="trino",
    at=datetime(2026, 1, 1, tzinfo=UTC),
    text="SELECT * FROM telemetry.spans WHERE service_name = 'cart'",
    seconds=0.5,
    uses=(queries.TableUse("telemetry.spans", filters.Test("service_name", "eq", ("cart",)), bytes_read=10),),
)


def by_name(example: Example) -> str:
    """The id of a case."""
    return example.name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iceberg: None) -> Path:
    """A working directory with a small lake, a message of logs, and a Trino coordinator that answers at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(neve.QueryLogAnalyzer, "extract_trino_query_patterns", lambda _self: [LOGGED])
    (tmp_path / "logs.binpb").write_bytes(logs())
    with open_lake() as opened:
        create_empty_tables(opened.lake)
        fill(opened.lake)
    return tmp_path


def fill(lake: Lake) -> None:
    """Commit three records of each signal."""
    for signal, make in MAKERS.items():
        table = lake.table(signal.table)
        rows = pa.Table.from_batches([decoded(signal, make(), organization_id="default").batch])
        append_once(table, write_files(Target.of(table), rows), batch_id=f"docs {signal}", operation="test")


def run(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    """Run an example as a program of its own, and compare what it prints."""
    capsys.readouterr()
    exec(compile(example.code, f"docs/python.md: {example.name}", "exec"), {"__name__": "__main__"})  # noqa: S102
    printed = capsys.readouterr().out
    assert printed if example.output is None else printed == example.output


def test_every_name_has_an_example_that_uses_it() -> None:
    """The sections follow the table, and each imports its name from `neve`."""
    assert tuple(example.name for example in EXAMPLES) == documented_names()
    for example in EXAMPLES:
        assert re.search(rf"^from neve import .*\b{example.name}\b", example.code, re.MULTILINE), example.name


@pytest.mark.parametrize("example", FAST, ids=by_name)
@pytest.mark.usefixtures("folder")
def test_an_example_runs(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    """Without Spark."""
    run(example, capsys)


@pytest.mark.parametrize("example", SPARK, ids=by_name)
def test_an_example_runs_on_spark(
    spark: SparkSession,
    example: Example,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the session that all tests share, which knows each lake by a catalog name of its own."""
    monkeypatch.setenv("NEVE_CATALOG__NAME", f"docs_{example.name.lower()}")
    monkeypatch.setenv("NEVE_SPARK__MASTER", str(spark.sparkContext.master))
    request.getfixturevalue("folder")
    run(example, capsys)
