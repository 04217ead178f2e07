"""One cycle, or many single decisions, in a process of its own, so that its memory is nobody else's."""

from __future__ import annotations

import json
import random
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.tail_data import OWNER, START
from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig
from neve.lake.lake import Lake
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from neve.tail.config import TailConfig
from neve.tail.policy.config.loader import build_default_policies
from neve.tail.selector import TailSelector

SLOW_MS = 2000
SINGLE_DECISIONS = 300


def lake_in(folder: Path) -> Lake:
    """The benchmark's lake."""
    return Lake(
        LakeConfig(warehouse=str(folder / "warehouse")),
        CatalogConfig(path=str(folder / "catalog.db")),
        spark_config=SparkConfig(log_file=str(folder / "spark.log")),
    )


def selector_in(folder: Path, name: str, minutes: float, engine: str = "duckdb") -> TailSelector:
    """A selector with the default policies, at a moment after the first span."""
    return TailSelector(
        lake_in(folder),
        lake_in(folder),
        TailConfig(name=name, engine=engine),
        build_default_policies(slow_ms=SLOW_MS),
        SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db")))),
        clock=lambda: START + timedelta(minutes=minutes),
    )


def cycle(folder: Path, name: str, minutes: float, engine: str) -> dict[str, Any]:
    """One cycle."""
    return selector_in(folder, name, minutes, engine).run().as_document()


def single(folder: Path, name: str) -> dict[str, Any]:
    """Decide about single traces, one after the other, as for a trace that has just become ready."""
    from neve.tail.explain import open_trace_judge  # noqa: PLC0415 - not for cycles

    selector = selector_in(folder, name, 120)
    column = selector.lake.table("trace_decisions").scan(selected_fields=("trace_id",), limit=200_000).to_arrow()
    ids = random.Random(3).sample(column.column("trace_id").to_pylist(), SINGLE_DECISIONS)
    times = []
    with open_trace_judge(selector) as opened:
        opened.evaluate(OWNER, ids[0])  # the first one lists the table's files
        for trace_id in ids:
            began = time.perf_counter()
            judged = opened.evaluate(OWNER, trace_id)
            times.append((time.perf_counter() - began) * 1000)
            assert judged is not None
    times.sort()
    return {"p50_ms": times[len(times) // 2], "p99_ms": times[int(len(times) * 0.99) - 1]}


def main(kind: str, folder: str, name: str, *rest: str) -> None:
    """Do what was asked for, and print what came of it as the last line."""
    found = single(Path(folder), name) if kind == "single" else cycle(Path(folder), name, float(rest[0]), rest[1])
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
