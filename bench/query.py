"""Queries: twelve typical questions on twenty million rows, beside plain DuckDB and Spark SQL, and a minute of load.

All in one run, on the same files. Ours is asked without its cache, in workers as a server does it and in this process,
so that what a process of its own costs is seen. What plain DuckDB reads is every file of a table;
it has as much memory, as many threads and the footers of files in memory, as ours has. They are asked in turn, so
that whatever else the machine does meets both. All three must give the same rows. `BENCH_ROWS` makes a smaller lake,
`BENCH_LOAD_SECONDS` a shorter load.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.query_data import END, OWNER, fill
from bench.query_load import load
from bench.query_questions import by_duckdb, by_service, by_spark, p95_between, questions, same
from bench.report import Report
from neve.app.query.service import build_query_service
from neve.app.rollup import build_rollup
from neve.app.search import build_search
from neve.app.settings import Settings
from neve.app.wiring import build_lake
from neve.lake.read.statistics import read_table_statistics
from neve.lake.tables import init_tables
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, no_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.query_data import Made
    from bench.query_questions import Answer, Ask, Question
    from neve.lake.lake import Lake

ROUNDS, SPARK_ROUNDS = 9, 2
SIZED = ("spans", "logs", "metrics", "metrics_1m", "metrics_5m", "metrics_1h", "metrics_1d", "search_index")


@dataclass
class Bytes:
    """Bytes of files that were read and that were not, of all questions."""

    read: int = 0
    pruned: int = 0


@dataclass
class Factors:
    """How long ours took, as parts of what others took."""

    duckdb: dict[str, float] = field(default_factory=dict)
    in_process: dict[str, float] = field(default_factory=dict)
    spark: dict[str, float] = field(default_factory=dict)


def main() -> None:
    """Make the lake, ask, and let many ask."""
    report = Report("query")
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        settings = settings_in(Path(folder))
        lake = build_lake(settings)
        made = make(settings, lake, report)
        compare(settings, lake, questions(made), report)
        load(settings, Path(folder), made, report)
    report.show()


def settings_in(folder: Path) -> Settings:
    """A lake of its own in a folder."""
    return Settings.model_validate(
        {
            "organization": OWNER,
            "lake": {"warehouse": str(folder / "warehouse")},
            "catalog": {"path": str(folder / "catalog.db")},
            "state": {"path": str(folder / "state.db")},
            "spark": {"log_file": str(folder / "spark.log")},
        }
    )


def make(settings: Settings, lake: Lake, report: Report) -> Made:
    """Rows, rollups and the search index; what that took is told, but not what this is about."""
    began = time.monotonic()
    init_tables(lake)
    made = fill(lake)
    print(f"  {sum(made.rows.values()):,} rows in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    build_rollup(settings, lake, clock=lambda: END + timedelta(days=2)).run()
    print(f"  rollups in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    build_search(settings, lake).run()
    print(f"  the search index in {time.monotonic() - began:.0f} s", flush=True)
    report.ours["rows"] = sum(made.rows.values())
    for name in SIZED:
        facts = read_table_statistics(lake.table(name))
        report.ours |= {f"{name}_mb": facts.bytes / 1e6, f"{name}_files": facts.files}
        print(f"  {name}: {facts.rows:,} rows, {facts.files} files, {facts.bytes / 1e6:,.1f} MB", flush=True)
    return made


def compare(settings: Settings, lake: Lake, asked: tuple[Question, ...], report: Report) -> None:
    """Every question, to all three."""
    service = build_query_service(
        settings, lake, limits=no_limits, ports=Ports(engine=WorkerPool(lake, settings.query))
    )
    local = build_query_service(settings, lake, limits=no_limits)
    duckdb, spark = by_duckdb(lake, settings.query), by_spark(lake)
    sizes, factors = Bytes(), Factors()
    report.baselines |= {"duckdb": {}, "in_process": {}, "spark": {}}
    spark(asked[-1].sql)  # Java is quicker the second time
    for question in asked:
        ours, inside, plain = in_turn((by_service(service), by_service(local), duckdb), question.sql)
        report.baselines["in_process"][f"{question.name}_ms"] = milliseconds(inside, 50)
        factors.in_process[question.name] = milliseconds(ours, 50) / milliseconds(inside, 50)
        on_spark = [spark(question.sql) for _round in range(SPARK_ROUNDS)]
        for name, others in (("DuckDB", plain), ("Spark", on_spark)):
            assert same(ours[0].rows, others[0].rows), f"{question.name}: ours {ours[0].rows}, {name} {others[0].rows}"
        assert ours[0].rows, question.name
        tell(question, ours, plain, on_spark, report, factors)
        count_bytes(ours[0], sizes)
    report.ours["pruned_bytes_share"] = sizes.pruned / (sizes.pruned + sizes.read)
    report.ours["cached_ms"] = cached(by_service(service, fresh=False))
    report.ratios |= {
        "vs_in_process_median": float(np.median(list(factors.in_process.values()))),
        "vs_in_process_total": sum(report.ours[f"{one.name}_ms"] for one in asked)
        / sum(report.baselines["in_process"].values()),
        "vs_duckdb_median": float(np.median(list(factors.duckdb.values()))),
        "vs_duckdb_unpruned": factors.duckdb["full_scan"],
        "vs_spark_median": float(np.median(list(factors.spark.values()))),
        **{f"vs_duckdb_{name}": factor for name, factor in factors.duckdb.items()},
        **{f"vs_in_process_{name}": factor for name, factor in factors.in_process.items()},
    }
    for one in (service, local):
        one.close()


def in_turn(asks: Sequence[Ask], sql: str) -> list[list[Answer]]:
    """The same question to some, one after the other, in many rounds; the first round does not count."""
    rounds = [[ask(sql) for ask in asks] for _round in range(1 + ROUNDS)]
    return [list(answers) for answers in zip(*rounds[1:], strict=True)]


def tell(
    question: Question,
    ours: list[Answer],
    plain: list[Answer],
    on_spark: list[Answer],
    report: Report,
    factors: Factors,
) -> None:
    """Numbers of one question."""
    name, statistics = question.name, ours[0].statistics
    assert statistics is not None
    median, slow = milliseconds(ours, 50), milliseconds(ours, 95)
    duckdb, spark = milliseconds(plain, 50), milliseconds(on_spark, 0)
    report.ours |= {
        f"{name}_ms": median,
        f"{name}_p95_ms": slow,
        f"{name}_read_mb": statistics.bytes / 1e6,
        f"{name}_pruned_mb": statistics.pruned_bytes / 1e6,
    }
    report.baselines["duckdb"] |= {f"{name}_ms": duckdb, f"{name}_p95_ms": milliseconds(plain, 95)}
    report.baselines["spark"][f"{name}_ms"] = spark
    factors.duckdb[name], factors.spark[name] = median / duckdb, median / spark
    print(
        f"  {name}: {len(ours[0].rows)} rows, ours {median:.1f} ms (p95 {slow:.1f}, "
        f"planning {statistics.planning_seconds * 1e3:.1f}{', ' + statistics.rollup if statistics.rollup else ''}), "
        f"in this process {report.baselines['in_process'][f'{name}_ms']:.1f} ms, "
        f"DuckDB {duckdb:.1f} ms, Spark {spark:.0f} ms; {statistics.files} files and {statistics.bytes / 1e6:.1f} MB "
        f"read, {statistics.pruned_files} and {statistics.pruned_bytes / 1e6:.1f} MB pruned",
        flush=True,
    )


def milliseconds(given: list[Answer], percentile: float) -> float:
    """How long answers took."""
    return float(np.percentile([answer.seconds for answer in given], percentile)) * 1e3


def count_bytes(answer: Answer, sizes: Bytes) -> None:
    """Add what one question read."""
    assert answer.statistics is not None
    sizes.read += answer.statistics.bytes
    sizes.pruned += answer.statistics.pruned_bytes


def cached(ask: Ask) -> float:
    """Milliseconds of a question that was asked before."""
    [hits] = in_turn((ask,), p95_between(END - timedelta(hours=1), END))
    assert all(hit.statistics is not None and hit.statistics.cache == "hit" for hit in hits)
    return milliseconds(hits, 50)


if __name__ == "__main__":
    main()
