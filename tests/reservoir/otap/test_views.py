"""The views of a window: what the decision reads of them, and that weights are the numbers that they say."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from neve.reservoir.config import ReservoirConfig
from neve.reservoir.otap.decide import open_decisions
from neve.reservoir.otap.source import PlannedWindow, Source
from neve.reservoir.otap.views import open_session, open_views
from neve.reservoir.weights import WEIGHTS, number_sql, parse_numbers, weights_view
from neve.reservoir.windows import Window
from tests.otap.stars import make_star, value_columns
from tests.reservoir.otap.contents import numbered

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from neve.lake.lake import Lake

DAY = 86_400
VALUES = (
    *("1", "2.5", ".5", "5.", "-3e2", "+1E-2", "1e999", "", " 1", "1 ", "1_000", "1d", "1f", "0x1p3", "nan", "NaN"),
    *("inf", "Infinity", "1,5", "1\n", "\n1", "٣", "many", 0, 7, -7, 2**53, 0.25, -0.0, math.nan, math.inf, True, None),
)


def plan_of(lake: Lake, folder: Path, config: ReservoirConfig) -> str:
    """The plan of the decision about the records of a folder."""
    source = Source.of(lake, str(folder), config.signal)
    files = source.scan_root_files(DAY, {}, lambda _step, _done, _total: None)
    planned = PlannedWindow(Window(0, DAY), files, "")
    session, parts = open_session(lake.spark), source.parts_of(planned)
    session.conf.set("spark.sql.maxMetadataStringLength", "1000")
    open_views(session, config.signal, planned, parts, lake.s3)
    weights_view(session, config).createOrReplaceTempView(WEIGHTS)
    with open_decisions(session, config, planned.window, parts) as rows:
        plan: str = rows._jdf.queryExecution().executedPlan().toString()
        return plan


@pytest.mark.parametrize(("convention", "method"), [("specification", "exact_total"), ("exporter", "priority")])
def test_the_decision_reads_what_it_needs(folder_lake: Lake, tmp_path: Path, convention: str, method: str) -> None:
    """Ids, times and resources of records, the names of services, the weights: no body, no other attribute."""
    records = [replace(one, service=f"s{number // 5 % 2}") for number, one in enumerate(numbered(20))]
    make_star(tmp_path, logs=records, convention=convention, batch=10)  # type: ignore[arg-type]
    config = ReservoirConfig(k=3, method=method)
    plan = plan_of(folder_lake, tmp_path, config)
    scans = re.findall(r"FileScan parquet .*? PushedFilters: \[(.*?)\].*? ReadSchema: struct<(.*)>", plan)
    assert scans
    for filters, columns in scans:
        if "time_unix_nano" in columns:
            assert columns.removesuffix(",_tmp_metadata_row_index:bigint") == (
                "id:bigint,resource:struct<id:int>,time_unix_nano:bigint,observed_time_unix_nano:bigint"
            )
        else:
            assert columns in (
                "parent_id:bigint,key:string,str:string,int:bigint,double:double,bool:boolean",
                "parent_id:bigint,key:string,type:smallint,str:string,int:bigint,double:double,bool:boolean",
            )
            assert re.search(r"EqualTo\(key,(service.name|sampling.adjusted_count)\)", filters)


def test_numbers_are_the_same_to_both_engines(spark: SparkSession) -> None:
    """What a text, a whole number or a double says is one number to Spark and to us, or none to both."""
    drawn = random.Random(7)
    texts = ["".join(drawn.choices("0123456789.eE+- ", k=drawn.randrange(6))) for _ in range(500)]
    columns = ("type", "str", "int", "double", "bool")
    rows = [{name: value_columns(value).get(name) for name in columns} for value in (*VALUES, *texts)]
    kinds = {"type": pa.uint8(), "str": pa.string(), "int": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    table = pa.Table.from_pylist(rows, schema=pa.schema(kinds.items()))
    schema = "type short, str string, int long, double double, bool boolean"
    frame = spark.createDataFrame([tuple(row[name] for name in columns) for row in rows], schema)
    found = [row[0] for row in frame.selectExpr(f"{number_sql()} AS number").collect()]
    ours = parse_numbers(table)
    assert np.array_equal(np.array([math.nan if one is None else one for one in found]), ours, equal_nan=True)
