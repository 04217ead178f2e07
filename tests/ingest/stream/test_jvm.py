"""Whether the engine lives."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from neve.ingest.spark_crashes import context_is_stopped, engine_is_gone

if TYPE_CHECKING:
    from collections.abc import Callable

STOPPED_INSIDE = """
from pyspark.sql import SparkSession
from neve.ingest.spark_crashes import engine_is_gone, jvm_is_gone
conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m"}
spark = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
before = engine_is_gone()
spark.sparkContext._jsc.sc().stop()
print(before, jvm_is_gone(), engine_is_gone())
"""


def context(is_stopped: Callable[[], bool]) -> SimpleNamespace:
    """As pyspark has it, with the JVM's side behind a connection."""
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped)))


def unreachable() -> bool:
    """What the connection says when nobody answers."""
    raise Py4JNetworkError("an error occurred while trying to connect")


@pytest.mark.parametrize(
    ("active", "is_stopped"),
    [
        (None, False),
        (SimpleNamespace(_jsc=None), False),
        (context(lambda: False), False),
        (context(lambda: True), True),
        (context(unreachable), False),
    ],
    ids=["never started", "stopped by us", "at work", "stopped inside", "unreachable"],
)
def test_a_context_that_stopped_is_seen(
    active: SimpleNamespace | None, is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what stopped by itself; whether a JVM that does not answer is gone, its process says."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", active)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    assert context_is_stopped() == engine_is_gone() == is_stopped


@pytest.mark.long
@pytest.mark.spark
def test_spark_that_stops_in_a_living_jvm_is_gone() -> None:
    """As it does after an error that its scheduler can't survive."""
    run = [sys.executable, "-c", STOPPED_INSIDE]
    said = subprocess.run(run, capture_output=True, text=True, timeout=600, check=True).stdout
    assert said.split() == ["False", "False", "True"]
