"""A whole round of the autopilot on one table: its log read, the best layout staged, tried, merged, measured again."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from neve.app.settings import Settings
    from neve.autopilot.attempt_runner import AttemptRunner
    from neve.lake.lake import Lake


@dataclass(frozen=True)
class Round:
    """What a round took, and what the frequent queries read after it of what they read before."""

    numbers: dict[str, float]
    hot_bytes_after_vs_before: float


@dataclass(frozen=True)
class Place:
    """A lake in a folder; one for all rounds, because a process has one Spark session and that has one catalog."""

    folder: Path
    settings: Settings
    lake: Lake

    @classmethod
    def of(cls, folder: Path, tables: Sequence[str], queries: Sequence[str]) -> Place:
        """A new lake with Neve's own tables."""
        from neve.app.wiring import build_lake  # noqa: PLC0415
        from neve.lake.tables import init_tables  # noqa: PLC0415

        settings = _settings(folder, tables, queries)
        lake = build_lake(settings)
        init_tables(lake)
        return cls(folder, settings, lake)


def _settings(folder: Path, tables: Sequence[str], queries: Sequence[str]) -> Settings:
    """An autopilot that looks after these tables however small they are; canaries ask the queries beside the log's."""
    from neve.app.settings import Settings  # noqa: PLC0415

    return Settings.model_validate(
        {
            "lake": {"warehouse": str(folder / "warehouse")},
            "catalog": {"name": "bench", "path": str(folder / "catalog.db")},
            "spark": {"log_file": str(folder / "spark.log")},
            "state": {"path": str(folder / "state.db")},
            "autopilot": {
                "tables": list(tables),
                "queries": list(queries),
                "recommend": {"min_table_bytes": 0, "min_queries": 10, "payback_days": 1e6},
                "propose": {"repository": str(folder / "specs")},
            },
        }
    )


def log_queries(lake: Lake, organization: str, statements: Sequence[str], read: int) -> None:
    """Queries in Neve's own table of queries, a minute apart, each as if it had read so many bytes."""
    from neve.lake.commit.append import append_once  # noqa: PLC0415
    from neve.lake.write.table_writer import Target, write_files  # noqa: PLC0415
    from neve.model.query_log import QUERIES  # noqa: PLC0415

    now = datetime.now(UTC)
    entries = [
        {
            "organization_id": organization,
            "timestamp": now - timedelta(minutes=number),
            "query_id": f"{number:032x}",
            "sql": statement,
            "scans": [],
            "bytes": read,
            "seconds": 1.0,
            "cache": "off",
            "rollup": "",
            "state": "done",
        }
        for number, statement in enumerate(statements)
    ]
    table = lake.table(QUERIES.name)
    files = write_files(Target.of(table), pa.Table.from_pylist(entries, schema=QUERIES.schema))
    append_once(table, files, batch_id=f"bench-{organization}", operation="bench")


def round_on(pilot: AttemptRunner, table: str) -> Round:
    """From the log to the merge; ends the benchmark where nothing is recommended or the canary fails."""
    started = time.perf_counter()
    analysis = pilot.scan.analyze()
    promises = pilot.scan.advise(table, analysis)
    advised = time.perf_counter() - started
    if not promises.gains:
        sys.exit(f"nothing was recommended for {table}: {promises.advice.reason}")
    best = promises.gains[0]
    print(f"\n{table}: {best.recommendation.delta}; {best.calibrated}", flush=True)
    hot = pilot.hot(table, analysis)
    attempt, staged = pilot.stage(pilot.begin(best, promises.advice))
    attempt, trial = pilot.canary(attempt, hot)
    if not trial.canary.passed:
        sys.exit(f"the canary of {table} failed: {trial.canary.reasons}")
    attempt, merged = pilot.merge(attempt, by_hand=True)
    outcome = pilot.measure(attempt, hot)
    if outcome is None:
        sys.exit(f"the hot queries of {table} read nothing")
    results = trial.canary.results
    numbers = {
        "files_before": staged.files_before,
        "files_after": staged.files_after,
        "advise_s": advised,
        "stage_s": staged.seconds,
        "merge_s": merged.seconds,
        "queries_compared": len(results),
        "queries_identical": sum(one.equal for one in results),
        "promised_pct": outcome.promised_pct,
        "delivered_pct": outcome.delivered_pct,
    }
    return Round(numbers, 1 - outcome.delivered_pct / 100)
