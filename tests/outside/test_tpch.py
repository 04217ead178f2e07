"""TPC-H's tables as files that are no telemetry: refused, until the configuration names their fields."""

from pathlib import Path

import duckdb
import pytest

from neve.errors import UnknownFields
from neve.ingest.config import FieldsConfig
from neve.ingest.files.reader import ReadOptions
from neve.model.signals import Signal
from tests.outside.files import read, rows


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """The table `orders` of the smallest useful scale. Nothing is downloaded."""
    engine = duckdb.connect()
    engine.execute("SET autoinstall_known_extensions = false")
    try:
        engine.execute("LOAD tpch")
    except duckdb.Error:
        pytest.skip("DuckDB's extension tpch is not installed")
    engine.execute("CALL dbgen(sf = 0.01)")
    path = tmp_path / "orders.parquet"
    engine.execute(f"COPY orders TO '{path}' (FORMAT parquet)")
    return path


def test_a_table_without_time_and_message_is_refused(orders: Path) -> None:
    """With the names of its columns."""
    with pytest.raises(UnknownFields, match="o_comment, o_custkey"):
        read(orders, ReadOptions(Signal.LOGS))


def test_configured_fields_make_it_readable(orders: Path) -> None:
    """Every row is there, with its date."""
    fields = FieldsConfig(time=("o_orderdate",), message=("o_comment",))
    found = read(orders, ReadOptions(Signal.LOGS), fields)
    wanted = duckdb.execute(
        f"SELECT epoch_ns(o_orderdate::TIMESTAMP), o_comment FROM '{orders}' ORDER BY ALL"
    ).fetchall()
    assert found.rejected == ()
    assert sorted((row["time_unix_nano"], row["message"]) for row in rows(found)) == wanted
