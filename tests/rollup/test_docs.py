"""The queries of docs/rollups.md, as they stand there."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from neve.model.levels import LEVELS
from neve.rollup.config import RollupConfig
from tests.rollup.compare import raised, rolled
from tests.rollup.test_job import point

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "rollups.md"
QUERIES = re.findall(r"<!-- ([a-z ]+) -->\n```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
SERVICES = ("web", "shop")


def queries(engine: str) -> list[str]:
    """Those that are said to run on an engine."""
    return [sql for engines, sql in QUERIES if engine in engines.split()]


@pytest.fixture(scope="module")
def points() -> list[dict[str, Any]]:
    """Latencies of two services and requests, over twenty minutes."""
    rng = np.random.default_rng(7)
    made = []
    for service in SERVICES:
        for number, value in enumerate(rng.lognormal(2, 1.5, 400).tolist()):
            one = point(number * 3, value if number % 50 else 0.0, name="rpc.client.duration", number=number)
            made.append({**one, "service_name": service, "resource_attrs": [("service.name", service)]})
        for number in range(40):
            one = point(number * 30, number, name="shop.requests", number=number)
            kind = {"metric_type": "sum", "is_monotonic": True, "aggregation_temporality": 1}
            attributes = [("route", f"/{number % 10}")]
            made.append(
                {
                    **one,
                    **kind,
                    "attributes": attributes,
                    "service_name": service,
                    "resource_attrs": [("service.name", service)],
                    "record_id": f"{service}{number}r".encode().ljust(16),
                }
            )
    for number, one in enumerate(made):
        one["record_id"] = str(number).encode().ljust(16)
    return made


@pytest.fixture(scope="module")
def tables(points: list[dict[str, Any]]) -> dict[str, pa.Table]:
    """Their rollups."""
    config = RollupConfig()
    found = {"metrics_1m": rolled(points, config, LEVELS[0])}
    for below, level in itertools.pairwise(LEVELS):
        found[level.table] = raised(found[below.table], config, level)
    return found


def check(points: list[dict[str, Any]], answers: list[list[dict[str, Any]]]) -> None:
    """Averages and quantiles are those of the points themselves."""
    requests = {
        service: [
            one["value"] for one in points if (one["service_name"], one["metric_name"]) == (service, "shop.requests")
        ]
        for service in SERVICES
    }
    averages = {row["service_name"]: row for row in answers[0]}
    for service in SERVICES:
        assert averages[service]["average"] == pytest.approx(np.mean(requests[service]))
        assert averages[service]["requests"] == sum(requests[service])
    quantiles = {row["service_name"]: row["p95"] for row in answers[1]}
    for service in SERVICES:
        values = sorted(
            one["value"]
            for one in points
            if (one["service_name"], one["metric_name"]) == (service, "rpc.client.duration")
        )
        assert quantiles[service] == pytest.approx(values[int(0.95 * (len(values) - 1))], rel=0.01)


def test_duckdb(points: list[dict[str, Any]], tables: dict[str, pa.Table]) -> None:
    """On DuckDB; also how many series there are."""
    engine = duckdb.connect()
    for name, rows in tables.items():
        engine.register(name, rows)
    answers = [engine.execute(sql).to_arrow_table().to_pylist() for sql in queries("duckdb")]
    check(points, answers)
    assert {row["metric_name"]: row["series"] for row in answers[2]} == {"rpc.client.duration": 2, "shop.requests": 20}


def test_spark(spark: SparkSession, points: list[dict[str, Any]], tables: dict[str, pa.Table]) -> None:
    """On Spark."""
    for name, rows in tables.items():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    try:
        check(points, [spark.sql(sql).toArrow().to_pylist() for sql in queries("spark")])
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)
