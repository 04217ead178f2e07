"""The estimate of a layout beside the truth, for layouts of TPC-H's `lineitem` and `orders`.

The tables stand for large ones: 600 files are what 300 GB are in files of 512 MB. Every layout is made for real: rows
are sorted and cut into Parquet files of an Iceberg table, whose manifests then say what each query reads. The estimate
knows only the table as it was generated, and a sample of its rows.

The number of files matters. A query that ends near a boundary of a z-order reads a whole row of files more or less, and
of few files that is much: with 64 of them the mean stays under two points, but single queries are off by up to 17. Here
boundaries are exact; compaction takes them from a sample of 20,000 rows, which moves them by chance.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import parse_transform

from neve.autopilot.estimate.baseline import baseline
from neve.autopilot.estimate.columns import cut_lengths, types_of
from neve.autopilot.estimate.compiled import compile_filters
from neve.autopilot.estimate.files import table_files
from neve.autopilot.estimate.sample import Size, take_sample
from neve.autopilot.estimate.simulate import Extent, Simulator
from neve.autopilot.estimate.zorder import BITS, interleave
from neve.autopilot.layout import Layout, PartField
from neve.autopilot.recommend.evaluate import Workload, ranked
from neve.autopilot.recommend.projection import Projection
from neve.autopilot.workload import AllOf, Test
from neve.lake.commits import append_once
from neve.lake.fields import conform, file_schema
from neve.lake.layout import lay_out, sort_index
from neve.lake.rolling import RollingWriter, Shape
from neve.lake.target_sizes import TargetSizes
from neve.lake.writer import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from pyiceberg.table import Table

    from neve.autopilot.estimate.compiled import Compiled
    from neve.autopilot.workload import Filter

FIRST_DAY, DAYS = date(1992, 1, 2), 2520
SEED = 3
ROUNDS = 5
RANKING_ROWS = 20_000  # of the sample, that candidates are ranked on by default
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


@dataclass(frozen=True)
class Scale:
    """How large the tables are."""

    scale: float = 1.0
    files: int = 600
    sample_rows: int = 200_000
    queries: int = 150


@dataclass(frozen=True)
class Compared:
    """A layout's scanned share of bytes, estimated and true; and by how many points the estimates of queries err."""

    table: str
    layout: str
    estimate: float
    truth: float
    mean_error_points: float
    max_error_points: float


@dataclass(frozen=True)
class Errors:
    """All layouts of both tables."""

    layouts: tuple[Compared, ...]
    candidates_per_s: float

    @property
    def mean_error_points(self) -> float:
        """The mean over queries and layouts."""
        return float(np.mean([one.mean_error_points for one in self.layouts]))

    @property
    def max_error_points(self) -> float:
        """The query that is furthest off, of all layouts."""
        return max(one.max_error_points for one in self.layouts)


def estimate_errors(size: Scale | None = None, tables: Sequence[str] = ("lineitem", "orders")) -> Errors:
    """Estimate every layout, make every layout, and compare."""
    size = size or Scale()
    compared: list[Compared] = []
    tried, seconds = 0, 0.0
    with tempfile.TemporaryDirectory(prefix="neve-layouts-") as folder:
        for name in tables:
            rows = generated(Path(folder), name, size.scale)
            ground = _Ground.of(Path(folder), name, rows, size)
            started = time.perf_counter()
            for _round in range(ROUNDS):
                ranked(ground.ranking, ground.workload, LAYOUTS[name])
            tried, seconds = tried + ROUNDS * len(LAYOUTS[name]), seconds + time.perf_counter() - started
            estimates = [ground.simulator.scan(layout).shares for layout in LAYOUTS[name]]
            for layout, estimate in zip(LAYOUTS[name], estimates, strict=True):
                compared.append(ground.compare(layout, rows, estimate))
    return Errors(tuple(compared), tried / seconds)


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


def filters_of(name: str, rows: pa.Table, number: int) -> list[Filter]:
    """Queries of a log: ranges of days, keys, both, and flags; their literals come from a seeded chance."""
    chance = random.Random(f"{name}{SEED}")
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


@dataclass(frozen=True)
class _Ground:
    """A table as it was generated, looked at once."""

    name: str
    catalog: SqlCatalog
    compiled: Compiled
    simulator: Simulator
    ranking: Simulator
    workload: Workload
    rows_per_file: int

    @classmethod
    def of(cls, folder: Path, name: str, rows: pa.Table, size: Scale) -> _Ground:
        catalog = SqlCatalog(name, uri=f"sqlite:///{folder / name}.db", warehouse=f"file://{folder}")
        catalog.create_namespace("tpch")
        rows_per_file = -(-rows.num_rows // size.files)
        table = written(catalog, f"{name}_generated", [rows], (), rows_per_file)
        compiled = compile_filters(filters_of(name, rows, size.queries), types_of(table.schema(), rows.column_names))
        files = table_files(table, rows.column_names)
        sample = take_sample(table, files, rows.column_names, Size(size.sample_rows, size.files, SEED))
        target = files.bytes // size.files
        extent = Extent(files.bytes, target, cut_lengths(table.schema(), dict(table.properties)), {})
        catalog.drop_table(f"tpch.{name}_generated")
        shares = np.ones(len(compiled.filters))
        return cls(
            name=name,
            catalog=catalog,
            compiled=compiled,
            simulator=Simulator(sample, compiled, extent),
            ranking=Simulator(sample.thinned(RANKING_ROWS, SEED), compiled, extent),
            workload=Workload(shares, shares, Projection([], {}, {})),
            rows_per_file=rows_per_file,
        )

    def compare(self, layout: Layout, rows: pa.Table, estimate: npt.NDArray[np.float64]) -> Compared:
        """Make a layout and look what its queries read."""
        identifier = f"{self.name}_made"
        table = written(self.catalog, identifier, ordered(rows, layout), layout.partition, self.rows_per_file)
        truth = baseline(table, self.compiled, table_files(table, self.compiled.columns)).shares
        location = table.location()
        self.catalog.drop_table(f"tpch.{identifier}")
        shutil.rmtree(location.removeprefix("file://"))
        errors = 100 * np.abs(estimate - truth)
        return Compared(
            self.name,
            str(layout),
            float(estimate.mean()),
            float(truth.mean()),
            float(errors.mean()),
            float(errors.max()),
        )


def ordered(rows: pa.Table, layout: Layout) -> list[pa.Table]:
    """The rows in the order of a layout; of a z-order, partition by partition, as ranges are of each."""
    if not layout.zorder:
        return [rows.take(pa.array(sort_index(rows, layout.sort)))] if layout.sort else [rows]
    if not layout.partition:
        return [_zordered(rows, layout.zorder)]
    [field] = layout.partition
    values = pc.unique(rows[field.column])
    return [_zordered(rows.filter(pc.equal(rows[field.column], value)), layout.zorder) for value in values]


def _zordered(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Each column cut into ranges of as many rows, and the numbers of the ranges woven."""
    numbers = []
    for name in columns:
        values = rows[name].combine_chunks()
        plain = values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64()).to_numpy()
        present = np.sort(plain)
        cuts = np.unique(present[[len(present) * number >> BITS for number in range(1, 1 << BITS)]])
        numbers.append(np.searchsorted(cuts, plain, side="right"))
    return rows.take(pa.array(np.argsort(interleave(numbers), kind="stable")))


def written(
    catalog: SqlCatalog, name: str, lots: Sequence[pa.Table], partition: Sequence[PartField], rows_per_file: int
) -> Table:
    """An Iceberg table of these rows, in their order, in files of as many rows in each partition."""
    table = catalog.create_table(f"tpch.{name}", lots[0].schema)
    with table.update_spec() as update:
        for field in partition:
            update.add_field(field.column, parse_transform(field.transform))
    target = Target.of(table.refresh())
    metadata, files = target.metadata, []
    for lot in lots:
        rows = conform(lot, file_schema(metadata.schema(), lot.schema))
        for piece in lay_out(rows, metadata.schema(), metadata.spec(), metadata.sort_order()):
            count = -(-piece.rows.num_rows // TargetSizes(rows_per_file).outputs(piece.rows.num_rows))
            with RollingWriter(metadata, target.io, piece.key, Shape(None, rows_per_file=count)) as writer:
                writer.write(piece.rows)
            files += writer.files
    append_once(table, files, batch_id=name, operation="bench")
    return table.refresh()
