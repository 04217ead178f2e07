"""Settings of the shared session that a test changes for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

ATTEMPTS = 3


@contextmanager
def with_settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """SQL settings for the queries inside."""
    before = {name: str(spark.conf.get(name)) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@contextmanager
def with_retries(spark: SparkSession) -> Iterator[None]:
    """Let a task run again when it fails, as on a cluster: a local session gives up at once.

    `local[2, 3]` would say so too, but the shared session has begun already.
    """
    scheduler: Any = spark.sparkContext._jsc.sc().taskScheduler()
    field = scheduler.getClass().getDeclaredField("maxTaskFailures")
    field.setAccessible(True)
    before = field.getInt(scheduler)
    field.setInt(scheduler, ATTEMPTS)
    try:
        yield
    finally:
        field.setInt(scheduler, before)
