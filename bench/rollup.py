"""Metrics by minute, five minutes, hour and day: what points cost, what a change costs, and what a view of a day saves.

All in one run, on a session that has run each way on a small lake already; CPU seconds are those of the whole process
tree. The baseline is what Spark SQL does for minutes alone: no cumulative points, no histograms, no late points.
"""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import And, EqualTo, Reference

from bench.report import Report
from bench.sizes import choose
from bench.usage import Meter, Usage
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig
from neve.lake.duckdb import connect, scan_sql
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.lake.write.table_writer import Target, write_files
from neve.model.levels import LEVELS
from neve.model.tables import METRICS
from neve.rollup.config import RollupConfig
from neve.rollup.job import Rollup
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.rollup.job import LevelResult

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

STEP = 15  # seconds between two points of a series
EACH = 20  # series of a pod: twelve counters, five gauges, two histograms, one exponential histogram
COUNTER, GAUGE, HISTOGRAM, EXPONENTIAL = range(4)
KINDS = np.repeat([COUNTER, GAUGE, HISTOGRAM, EXPONENTIAL], [12, 5, 2, 1])
TYPES = ("sum", "gauge", "histogram", "exponential_histogram")
BOUNDS = np.array([5, 10, 25, 50, 75, 100, 250, 500, 1000, 2500, 5000], dtype=np.float64)
BUCKETS = 24  # of an exponential histogram
METRIC = "app.gauge.13"
OWNERS = ("acme", "acme", "globex")

START = datetime(2026, 2, 2, 9, tzinfo=UTC)
HOURS = choose(3, 1)
PODS = choose(150, 15)
COMMIT_SECONDS = 600

LAST_DAY = datetime(2026, 4, 10, tzinfo=UTC)
DAYS = choose((1, 10, 100), (1,))
DAY_SECONDS = 86_400
DAY_PODS = 5
BURSTS = 10  # a day, of five minutes each
BURST = np.arange(0.0, 300, STEP)
CHANGES = choose(5, 2)  # to each table in turns; the first is for warming up

SIMPLE = """
SELECT organization_id, metric_name, array_sort(map_entries(attributes)) AS attributes,
       array_sort(map_entries(resource_attrs)) AS resource, date_trunc('minute', timestamp) AS minute,
       count(*) AS points, sum(value) AS total, min(value) AS least, max(value) AS most,
       percentile_approx(value, array(0.5, 0.95, 0.99)) AS quantiles
FROM {table} GROUP BY 1, 2, 3, 4, 5
"""
SIMPLE_ROUNDS = choose(2, 1)  # the better one counts: Java is quicker the second time
WHERE = f"WHERE organization_id = '{OWNERS[0]}' AND metric_name = '{METRIC}'"
RAW_VIEW = f"""
SELECT service_name, epoch(date_trunc('hour', timestamp)) AS hour, avg(value), quantile_disc(value, 0.95)
FROM {{table}} {WHERE} GROUP BY 1, 2 ORDER BY 1, 2
"""
ROLLED_VIEW = f"""
WITH chosen AS (SELECT service_name, epoch(date_trunc('hour', timestamp)) AS hour, sum, count, positive
           FROM {{table}} {WHERE}),
averages AS (SELECT service_name, hour, sum(sum) / sum(count) AS average FROM chosen GROUP BY 1, 2),
entries AS (SELECT service_name, hour, unnest(map_entries(positive)) AS entry FROM chosen),
buckets AS (SELECT service_name, hour, entry.key AS bucket, sum(entry.value) AS held FROM entries GROUP BY 1, 2, 3),
places AS (SELECT *, sum(held) OVER (PARTITION BY service_name, hour ORDER BY bucket) AS place,
                  sum(held) OVER (PARTITION BY service_name, hour) AS held_by_all FROM buckets),
found AS (SELECT service_name, hour, min(bucket) FILTER (place > floor(0.95 * (held_by_all - 1))) AS bucket
          FROM places GROUP BY 1, 2)
SELECT service_name, hour, average, 2 ** ((bucket + 0.5) / 64) FROM averages JOIN found USING (service_name, hour)
ORDER BY 1, 2
"""  # scale 6 has 64 buckets between a number and its double
RAW_COLUMNS = ("organization_id", "timestamp", "metric_name", "service_name", "value")
ROLLED_COLUMNS = ("organization_id", "timestamp", "metric_name", "service_name", "sum", "count", "positive")
VIEW_ROUNDS = 5
VIEW_ERROR = 0.02


class Fleet:
    """Pods that tell how they are; what is cumulative grows steadily, so that any moment can be asked for."""

    def __init__(self, pods: int, origin: datetime, *, life: float, churn: bool) -> None:
        """Pods live for so many seconds; with churn, three of five only for one half of them."""
        self.random = np.random.default_rng(pods)
        self.origin = int(origin.timestamp()) * 1_000_000
        pod = np.repeat(np.arange(pods), EACH)
        half = np.where((pod % 5 > 1) & churn, pod // 5 % 2, -1)
        self.kind = np.tile(KINDS, pods)
        self.begin = np.where(half < 0, -5 * 3600.0, half * life / 2)
        self.end = np.where(half == 0, life / 2, life)
        self.rate = self.random.uniform(20, 2000, len(pod))
        self.phase = self.random.uniform(0, 1, len(pod))  # not all tell at the same moment
        self.series = _series(pod, np.tile(np.arange(EACH), pods))

    def points(self, seconds: Floats) -> pa.Table:
        """A point of each living series at each of some moments, in the order of time."""
        series = np.tile(np.arange(len(self.kind)), len(seconds))
        moment = np.repeat(seconds, len(self.kind))
        alive = (moment >= self.begin[series]) & (moment < self.end[series])
        return self.at(series[alive], moment[alive])

    def at(self, series: Ints, seconds: Floats) -> pa.Table:
        """Points of some series, each at a moment after the origin."""
        kind, begin = self.kind[series], self.begin[series]
        micros = self.origin + ((seconds + self.phase[series]) * 1e6).astype(np.int64)
        began = self.origin + (begin * 1e6).astype(np.int64)
        grown = np.floor(self.rate[series] * ((seconds - begin) / STEP + self.random.uniform(0, 0.5, len(series))))
        latency = self.random.lognormal(3 + series % 7 / 10, 0.6)
        columns = {
            **{name: self.series.column(name).take(pa.array(series)) for name in self.series.column_names},
            "timestamp": pa.array(micros),
            "time_unix_nano": pa.array(micros * 1000),
            "start_time_unix_nano": pa.array(np.where(kind == GAUGE, 0, began * 1000)),
            "flags": pa.array(np.zeros(len(series), dtype=np.int64)),
            "value": pa.array(np.where(kind == COUNTER, grown, latency), mask=kind > GAUGE),
            "value_int": pa.array(grown.astype(np.int64), mask=kind != COUNTER),
            "record_id": _ids(self.random, len(series)),
            **_histograms(kind, grown),
        }
        absent = {field.name: pa.nulls(len(series), field.type) for field in METRICS.schema}
        every = {**absent, **columns}
        return pa.table([every[field.name].cast(field.type) for field in METRICS.schema], schema=METRICS.schema)


def _series(pods: Ints, slots: Ints) -> pa.Table:
    """Who the series are: four attributes, five resource attributes."""
    rows = [_one_series(pod, slot) for pod, slot in zip(pods.tolist(), slots.tolist(), strict=True)]
    names = [field.name for field in METRICS.schema if field.name in rows[0]]
    return pa.Table.from_pylist(rows, schema=pa.schema([METRICS.schema.field(name) for name in names])).combine_chunks()


def _one_series(pod: int, slot: int) -> dict[str, object]:
    kind, service = int(KINDS[slot]), f"service-{pod % 12}"
    attributes = {
        "http.request.method": ("GET", "POST", "PUT")[slot % 3],
        "http.route": f"/api/v1/resource-{slot}/items",
        "http.response.status_code": str(200 + slot % 4 * 100),
        "network.protocol.version": "1.1",
    }
    resource = {
        "service.name": service,
        "service.namespace": "shop",
        "service.version": f"1.{pod % 4}.0",
        "service.instance.id": f"{service}-7f9c{pod:06d}",
        "host.name": f"node-{pod % 20}",
    }
    return {
        "organization_id": OWNERS[pod % len(OWNERS)],
        "metric_name": f"app.{TYPES[kind]}.{slot}",
        "metric_type": TYPES[kind],
        "service_name": service,
        "unit": ("1", "ms", "ms", "ms")[kind],
        "aggregation_temporality": None if kind == GAUGE else 2,
        "is_monotonic": True if kind == COUNTER else None,
        "attributes": list(attributes.items()),
        "attribute_types": [("http.response.status_code", "int")],
        "resource_attrs": list(resource.items()),
        "resource_attr_types": [],
        "scope_name": "io.opentelemetry.runtime",
        "scope_version": "2.1.0",
        "scope_attrs": [],
        "scope_attr_types": [],
    }


def _ids(random: np.random.Generator, number: int) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), number, [None, pa.py_buffer(random.bytes(16 * number))])


def _histograms(kind: Ints, grown: Floats) -> dict[str, pa.Array]:
    """What histograms have counted since they began; every bucket grows with the whole."""
    explicit, exponential = kind == HISTOGRAM, kind == EXPONENTIAL
    bounded = np.floor(np.outer(grown[explicit], _bell(len(BOUNDS) + 1))).astype(np.int64)
    scaled = np.floor(np.outer(grown[exponential], _bell(BUCKETS))).astype(np.int64)
    count = np.zeros(len(kind), dtype=np.int64)
    count[explicit], count[exponential] = bounded.sum(axis=1), scaled.sum(axis=1)
    offset = pa.array(np.full(len(kind), 100, dtype=np.int32))
    return {
        "count": pa.array(count, mask=kind < HISTOGRAM),
        "sum": pa.array(count * 40.0, mask=kind < HISTOGRAM),
        "explicit_bounds": _lists(explicit, np.tile(BOUNDS, (len(bounded), 1))),
        "bucket_counts": _lists(explicit, bounded),
        "scale": pa.array(np.full(len(kind), 5, dtype=np.int32), mask=~exponential),
        "zero_count": pa.array(np.zeros(len(kind), dtype=np.int64), mask=~exponential),
        "zero_threshold": pa.array(np.zeros(len(kind)), mask=~exponential),
        "positive": pa.StructArray.from_arrays(
            [offset, _lists(exponential, scaled)], names=["offset", "bucket_counts"], mask=pa.array(~exponential)
        ),
    }


def _bell(buckets: int) -> Floats:
    """Parts of a whole, most of them in the middle."""
    parts = np.exp(-((np.linspace(-2, 2, buckets)) ** 2))
    return np.asarray(parts / parts.sum())


def _lists(there: npt.NDArray[np.bool_], values: npt.NDArray[np.generic]) -> pa.Array:
    """A list for each of some rows, null for the others; `values` has a line for each list."""
    ends = np.cumsum(there * values.shape[1])
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()), mask=pa.array(~there))


class Place:
    """A lake in a folder, and its rollups as of a moment after all of its windows."""

    def __init__(self, folder: Path, name: str, now: datetime) -> None:
        self.lake = Lake(
            LakeConfig(warehouse=str(folder / name / "warehouse")),
            CatalogConfig(name=name, path=str(folder / name / "catalog.db")),
            spark_config=SparkConfig(log_file=str(folder / "spark.log")),
        )
        init_tables(self.lake)
        documents = SqlDocuments(StateStore(StateConfig(path=str(folder / name / "state.db"))))
        self.rollup = Rollup(self.lake, RollupConfig(), documents, clock=lambda: now)
        self.points = 0
        self.commits = 0

    def put(self, *points: pa.Table) -> None:
        """Take points in, in one commit."""
        table = self.lake.table("metrics")
        rows = pa.concat_tables(points).combine_chunks()
        append_once(table, write_files(Target.of(table), rows), batch_id=f"bench:{self.commits}", operation="bench")
        self.points += rows.num_rows
        self.commits += 1

    def simple(self) -> None:
        """Minutes by Spark SQL alone, written as an Iceberg table."""
        rows = self.lake.spark.sql(SIMPLE.format(table=self.lake.spark_name("metrics")))
        rows.writeTo(self.lake.spark_name("simple")).createOrReplace()


def main() -> None:
    """Warm up, then measure one after the other."""
    report = Report("rollup")
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        warm_up(Path(folder))
        place = throughput(Path(folder), report)
        day_view(place, report)
        incremental(Path(folder), report)
    report.show()


def warm_up(folder: Path) -> None:
    """Start Spark, and let each way run once."""
    place = three_hours(folder, "warm", 10, commits=6)
    place.rollup.run()
    place.simple()


def three_hours(folder: Path, name: str, pods: int, commits: int) -> Place:
    """A lake of points every fifteen seconds, with a commit for each ten minutes."""
    place = Place(folder, name, START + timedelta(days=2))
    fleet = Fleet(pods, START, life=HOURS * 3600, churn=True)
    for number in range(commits):
        place.put(fleet.points(number * COMMIT_SECONDS + np.arange(0.0, COMMIT_SECONDS, STEP)))
    return place


def throughput(folder: Path, report: Report) -> Place:
    """The first run of the whole chain, and what Spark SQL does with the same points."""
    place = three_hours(folder, "whole", PODS, HOURS * 3600 // COMMIT_SECONDS)
    total = Usage()
    for level in LEVELS:
        with Meter(with_children=True) as usage:
            result = place.rollup.run_level(level)
        assert result.committed
        total = _added(total, usage)
        report.ours |= {f"cpu_s_{level.name}": usage.cpu_s, f"rows_{level.name}": result.rows}
        print(f"  {level.name}: {result.source_rows:,} -> {result.rows:,} rows, {_told(usage)}", flush=True)
    simple = min((_simple(place) for _round in range(SIMPLE_ROUNDS)), key=lambda usage: usage.cpu_s)
    rows = place.lake.table("simple").scan().count()
    print(f"  Spark SQL, minutes alone: {rows:,} rows, {_told(simple)}", flush=True)
    report.ours |= {"points": place.points, "points_per_s_core": total.per_second(place.points), **_numbers(total)}
    report.baselines["spark_sql"] = {"rows": rows, **_numbers(simple)}
    report.ratios["vs_spark_sql"] = simple.cpu_s / report.ours["cpu_s_1m"]
    return place


def _simple(place: Place) -> Usage:
    with Meter(with_children=True) as usage:
        place.simple()
    return usage


def day_view(place: Place, report: Report) -> None:
    """Average and 95th percentile of a gauge by service and hour, from points and from what they became."""
    raw, mb, seconds = _view(place, "metrics", RAW_VIEW, RAW_COLUMNS)
    report.baselines["raw_points"] = {"day_view_mb": mb, "day_view_s": seconds}
    for level, name in (("1h", "day_view"), ("5m", "day_view_5m")):
        rows, size, taken = _view(place, f"metrics_{level}", ROLLED_VIEW, ROLLED_COLUMNS)
        assert [row[:2] for row in rows] == [row[:2] for row in raw]
        for column, error in ((2, 1e-9), (3, VIEW_ERROR)):
            assert np.allclose([row[column] for row in rows], [row[column] for row in raw], rtol=error)
        report.ours |= {f"{name}_mb": size, f"{name}_s": taken}
        report.ratios |= {f"{name}_bytes": size / mb, f"{name}_seconds": taken / seconds}


def _view(place: Place, name: str, sql: str, columns: tuple[str, ...]) -> tuple[list[tuple[Any, ...]], float, float]:
    """What a view answers, the megabytes of the columns that it needs, and the seconds of its best run."""
    table = place.lake.table(name)
    connection = connect(place.lake.s3, on_s3=False, threads=1)
    owner, metric = Reference("organization_id"), Reference("metric_name")
    wanted = And(EqualTo(term=owner, value=OWNERS[0]), EqualTo(term=metric, value=METRIC))
    footers = [pq.read_metadata(task.file.file_path) for task in table.scan(row_filter=wanted).plan_files()]
    size = sum(_bytes(footer, columns) for footer in footers) / 1e6
    taken, rows = [], []
    for _round in range(VIEW_ROUNDS):
        began = time.monotonic()
        rows = connection.execute(sql.format(table=scan_sql(table))).fetchall()
        taken.append(time.monotonic() - began)
    print(f"  a day's view from {name}: {len(footers)} files, {size:.3f} MB, {1000 * min(taken):.1f} ms", flush=True)
    return rows, size, min(taken)


def _bytes(footer: pq.FileMetaData, columns: tuple[str, ...]) -> int:
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema.split(".")[0] in columns)


def incremental(folder: Path, report: Report) -> None:
    """The same small change to tables of one day, ten and a hundred."""
    histories = [History(folder, days) for days in DAYS]
    rounds = [[history.changed(number) for history in histories] for number in range(CHANGES)]
    best = [min(several, key=lambda usage: usage.cpu_s) for several in zip(*rounds[1:], strict=True)]
    for history, usage in zip(histories, best, strict=True):
        days = f"{history.days}x"
        report.ours |= {f"incremental_cpu_s_{days}": usage.cpu_s, f"incremental_wall_s_{days}": usage.wall_s}
        report.ratios[f"incremental_{days}_table"] = usage.cpu_s / best[0].cpu_s
        print(f"  a change after {history.days} days, {history.place.points:,} points: {_told(usage)}", flush=True)


class History:
    """A lake of some days, rolled up once."""

    def __init__(self, folder: Path, days: int) -> None:
        self.days = days
        self.place = Place(folder, f"days{days}", LAST_DAY + timedelta(days=2))
        self.fleet = Fleet(DAY_PODS, LAST_DAY - timedelta(days=days - 1), life=days * DAY_SECONDS, churn=False)
        bursts = (np.arange(0.0, DAY_SECONDS, DAY_SECONDS // BURSTS)[:, None] + BURST).ravel()
        for day in range(days):
            self.place.put(self.fleet.points(day * DAY_SECONDS + bursts))
        self.place.rollup.run()

    def changed(self, number: int) -> Usage:
        """What the chain costs after five more minutes of the last day and ten late points in its middle."""
        began = (self.days - 1) * DAY_SECONDS
        late = self.fleet.at(np.arange(10) * 7 + number, began + DAY_SECONDS / 2 + BURST[:10] + STEP / 2)
        self.place.put(self.fleet.points(began + 84_600 + number * 300 + BURST), late)
        with Meter(with_children=False) as usage:
            results = self.place.rollup.run()
        _check(results)
        return usage


def _check(results: list[LevelResult]) -> None:
    """All levels followed, and none did more than the change asks for."""
    assert all(one.committed for one in results), results
    assert results[0].source_rows < 5_000, results[0]
    assert all(one.windows <= most for one, most in zip(results, (20, 4, 4, 2), strict=True)), results


def _added(one: Usage, other: Usage) -> Usage:
    return Usage(one.cpu_s + other.cpu_s, one.wall_s + other.wall_s, max(one.peak_mb, other.peak_mb))


def _numbers(usage: Usage) -> dict[str, float]:
    return {"cpu_s": usage.cpu_s, "wall_s": usage.wall_s, "peak_mb": usage.peak_mb}


def _told(usage: Usage) -> str:
    return f"{usage.cpu_s:.2f} CPU s, {usage.wall_s:.2f} s"


if __name__ == "__main__":
    main()
