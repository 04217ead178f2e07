"""Sampling of a table of the lake, in a process of its own: `neve reservoir lake` by Arrow tasks, and by Spark alone.

The rows are logs of a hundred services in windows of five minutes, with short messages and few attributes. Commits
follow each other in time, with some hundred thousand rows in the file of each. The first run of each way, on other
windows, warms Spark up.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from bench.sizes import choose
from bench.usage import Meter
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import LOGS, LOGS_SAMPLE
from neve.reservoir.config import LakeSampling
from neve.reservoir.tables.decide import Decider
from neve.reservoir.tables.job import Sampler
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

ROWS = choose(2_000_000, 300_000)
FILES = choose(8, 3)
WARM_ROWS = 20_000
HOUR_MICROS = 3_600_000_000
START = datetime(2026, 2, 2, 9, tzinfo=UTC)
LATER = START + timedelta(days=2)
SERVICES = [f"service-{number:03d}" for number in range(100)]
CONFIG = LakeSampling(k=100, window_seconds=300)


def main(folder: Path) -> None:
    """Sample the same rows in both ways, and print the costs as JSON."""
    found: dict[str, float] = {"lake_rows": ROWS}
    for way in ("lake", "lake_spark"):
        lake = open_lake(folder / way)
        put(lake, WARM_ROWS, 1, seed=1, begin=START - timedelta(days=1))
        with patch.object(Decider, "arrow", None) if way == "lake_spark" else patch.dict({}):
            sampler = Sampler(
                lake, "logs", CONFIG, open_documents(folder / way), clock=lambda: START + timedelta(days=2)
            )
            sampler.run()
            put(lake, ROWS, FILES, seed=2, begin=START)
            with Meter(with_children=True) as usage:
                result = sampler.run()
        assert result.records == ROWS, result
        found |= {
            f"{way}_rows_per_s_core": ROWS / usage.cpu_s,
            f"{way}_rows_per_s": ROWS / usage.wall_s,
            f"{way}_peak_mb": usage.peak_mb,
            f"{way}_kept": result.kept_records,
        }
    assert found["lake_kept"] == found["lake_spark_kept"], found
    print(json.dumps(found), flush=True)


def open_lake(folder: Path) -> Lake:
    """Return a lake with empty tables."""
    lake = Lake(
        LakeConfig(warehouse=str(folder / "warehouse")),
        CatalogConfig(name=folder.name, path=str(folder / "catalog.db")),
        spark_config=SparkConfig(master="local[2]", log_file=str(folder / "spark.log")),
    )
    init_tables(lake, (LOGS, LOGS_SAMPLE))
    return lake


def open_documents(folder: Path) -> SqlDocuments:
    """Return the state store of a lake."""
    return SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))


def put(lake: Lake, rows: int, files: int, *, seed: int, begin: datetime) -> None:
    """Commit logs of an hour."""
    table = lake.table("logs")
    for number in range(files):
        count = rows * (number + 1) // files - rows * number // files
        slot = timedelta(microseconds=HOUR_MICROS / files)
        written = write_files(Target.of(table), make_logs(count, seed * 1000 + number, begin + number * slot, slot))
        append_once(table, written, batch_id=f"{seed} {number}", operation="bench")


def make_logs(count: int, seed: int, begin: datetime, slot: timedelta) -> pa.Table:
    """Return logs at random moments of some time."""
    chance = np.random.default_rng(seed)
    micros = int(begin.timestamp() * 1e6) + np.sort(chance.integers(0, int(slot.total_seconds() * 1e6), count))
    moments = pa.array(micros).cast(pa.timestamp("us", tz="UTC"))
    attributes = [[("http.route", f"/api/{number % 40}"), ("user", f"u{number % 997}")] for number in range(1000)]
    maps = pa.array(attributes, pa.map_(pa.string(), pa.string()))
    columns = {
        "organization_id": pa.repeat(pa.scalar("acme"), count),
        "timestamp": moments,
        "service_name": pa.array(SERVICES).take(pa.array(chance.integers(0, len(SERVICES), count))),
        "message": pa.array([f"request {number} served" for number in range(1000)]).take(
            pa.array(chance.integers(0, 1000, count))
        ),
        "attributes": maps.take(pa.array(chance.integers(0, 1000, count))),
        "record_id": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), count, [None, pa.py_buffer(chance.bytes(16 * count))]
        ),
        "ingested_at": moments,
    }
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in LOGS.schema
    ]
    return pa.table(arrays, schema=pa.schema([field.with_nullable(True) for field in LOGS.schema]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
