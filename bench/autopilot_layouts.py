"""The estimate of a layout beside the truth, for layouts of TPC-H's `lineitem` and `orders`.

The tables stand for large ones: 600 files are what 300 GB are in files of 512 MB.
"""

from __future__ import annotations

import random
import subprocess
import sysconfig
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.autopilot_truth import Before, Errors, Scale, compare, joined
from neve.autopilot.layout import Layout, PartField
from neve.predicate.filters import AllOf, Test

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.predicate.filters import Filter

FIRST_DAY, DAYS = date(1992, 1, 2), 2520
COLUMNS = {
    "lineitem": (
        *("l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_returnflag"),
        *("l_shipdate", "l_receiptdate", "l_shipmode", "l_shipinstruct"),
    ),
    "orders": ("o_orderkey", "o_custkey", "o_orderstatus", "o_totalprice", "o_orderdate", "o_orderpriority", "o_clerk"),
}
LAYOUTS = {
    "lineitem": (
        Layout(sort=("l_shipdate",)),
        Layout(sort=("l_partkey",)),
        Layout(zorder=("l_shipdate", "l_partkey")),
        Layout(partition=(PartField("l_shipdate", "month"),)),
        Layout(partition=(PartField("l_orderkey", "bucket[16]"),), sort=("l_shipdate",)),
        Layout(partition=(PartField("l_returnflag", "identity"),), sort=("l_shipdate",)),
        Layout(partition=(PartField("l_shipmode", "truncate[1]"),), sort=("l_partkey",)),
        Layout(partition=(PartField("l_returnflag", "identity"),), zorder=("l_shipdate", "l_partkey")),
    ),
    "orders": (
        Layout(sort=("o_orderdate",)),
        Layout(sort=("o_custkey",)),
        Layout(zorder=("o_orderdate", "o_custkey")),
        Layout(partition=(PartField("o_orderdate", "month"),), sort=("o_custkey",)),
        Layout(partition=(PartField("o_custkey", "bucket[16]"),), sort=("o_orderdate",)),
        Layout(partition=(PartField("o_orderpriority", "truncate[1]"),), sort=("o_orderdate",)),
        Layout(sort=("o_clerk", "o_orderdate")),
    ),
}


def estimate_errors(size: Scale | None = None, tables: Sequence[str] = ("lineitem", "orders")) -> Errors:
    """Estimate every layout, make every layout, and compare."""
    size = size or Scale()
    found = []
    with tempfile.TemporaryDirectory(prefix="neve-layouts-") as folder:
        for name in tables:
            rows = generated(Path(folder), name, size.scale)
            before = Before.of(Path(folder), name, rows, size.files, COLUMNS[name])
            queries = {seed: filters_of(name, rows, size.queries, seed) for seed in size.seeds}
            found.append(compare(before, queries, LAYOUTS[name], size))
    return joined(found)


def generated(folder: Path, name: str, scale: float) -> pa.Table:
    """A table of TPC-H."""
    tool = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run([tool, "parquet", "-s", str(scale), f"--tables={name}", f"--output-dir={folder}"], check=True)
    [path] = folder.glob(f"{name}*.parquet")
    rows = pq.read_table(path, columns=list(COLUMNS[name]))
    path.unlink()
    texts = [pa.types.is_string_view(field.type) or pa.types.is_string(field.type) for field in rows.schema]
    columns = [
        column.cast(pa.string()) if is_text else column for column, is_text in zip(rows.columns, texts, strict=True)
    ]
    return pa.table(columns, names=rows.column_names).combine_chunks()


def filters_of(name: str, rows: pa.Table, number: int, seed: int) -> list[Filter]:
    """Queries of a log: ranges of days, keys, both, and flags; their literals come from a seeded chance."""
    chance = random.Random(f"{name}{seed}")
    return [
        _lineitem(chance, rows, kind % 8) if name == "lineitem" else _orders(chance, rows, kind % 8)
        for kind in range(number)
    ]


def _days(chance: random.Random, column: str) -> Test:
    first, width = chance.randrange(DAYS - 150), chance.choice([1, 7, 30, 90, 365])
    low = FIRST_DAY + timedelta(days=first)
    return Test(column, "range", (), low, low + timedelta(days=width), high_inclusive=False)


def _one(chance: random.Random, rows: pa.Table, column: str) -> Test:
    return Test(column, "eq", (rows[column][chance.randrange(rows.num_rows)].as_py(),))


def _keys(chance: random.Random, rows: pa.Table, column: str) -> Test:
    most = pc.max(rows[column]).as_py()
    first = chance.randrange(1, most)
    return Test(column, "range", (), first, first + chance.choice([10, 1000, most // 20, most // 4]))


def _lineitem(chance: random.Random, rows: pa.Table, kind: int) -> Filter:
    days = _days(chance, "l_shipdate")
    return (
        days,
        _keys(chance, rows, "l_partkey"),
        AllOf((days, _keys(chance, rows, "l_partkey"))),
        _one(chance, rows, "l_partkey"),
        _one(chance, rows, "l_orderkey"),
        AllOf((_one(chance, rows, "l_returnflag"), days)),
        AllOf((Test("l_shipmode", "in", ("AIR", "RAIL")), _one(chance, rows, "l_suppkey"), days)),
        _days(chance, "l_receiptdate"),
    )[kind]


def _orders(chance: random.Random, rows: pa.Table, kind: int) -> Filter:
    days = _days(chance, "o_orderdate")
    return (
        days,
        _keys(chance, rows, "o_custkey"),
        AllOf((days, _one(chance, rows, "o_custkey"))),
        _one(chance, rows, "o_custkey"),
        _one(chance, rows, "o_orderkey"),
        AllOf((Test("o_orderpriority", "prefix", (str(chance.randrange(1, 6)),)), days)),
        AllOf((_one(chance, rows, "o_clerk"), days)),
        Test("o_totalprice", "range", (), chance.randrange(400_000), None),
    )[kind]
