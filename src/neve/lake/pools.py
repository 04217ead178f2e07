"""Pools of Spark: kinds of work that share one session and its cores fairly."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake

PROPERTY = "spark.scheduler.pool"
FAIR = {"spark.scheduler.mode": "FAIR"}  # by default the job that came first takes every core until it is done


@contextmanager
def in_pool(lake: Lake, name: str) -> Iterator[None]:
    """What this thread asks of Spark belongs to a pool while the block runs; a stream keeps the pool it began in."""
    context = lake.spark.sparkContext
    context.setLocalProperty(PROPERTY, name)
    try:
        yield
    finally:
        context.setLocalProperty(PROPERTY, None)  # type: ignore[arg-type] # which is how Spark takes it back
