"""Cores of an embedded Spark, shared out."""

from __future__ import annotations

import pytest

from neve.app.serve.spark_sharing import SORT_MEMORY_BYTES, with_compact_share, with_spare_slot
from neve.app.settings import Settings
from neve.lake.config import SparkConfig


@pytest.mark.parametrize("spark", [SparkConfig(master="local[3]"), SparkConfig(master="spark://cluster:7077")])
def test_what_the_user_named_is_left_as_it_is(spark: SparkConfig) -> None:
    """Only the default, all cores, gets a place more."""
    assert with_spare_slot(spark, 8) is spark
    assert with_spare_slot(SparkConfig(), 8).master == "local[9]"


@pytest.mark.parametrize(("cores", "workers", "share"), [(2, 2, 1), (8, 2, 4), (1, 2, 1), (16, 3, 5)])
def test_compaction_gets_the_cores_of_one_worker(cores: int, workers: int, share: int) -> None:
    """All workers together leave the spare place free."""
    plain = Settings()
    settings = plain.model_copy(update={"serve": plain.serve.model_copy(update={"workers": workers})})
    assert with_compact_share(settings, cores).compact.cores == share


def test_a_share_that_was_set_stays() -> None:
    """And a cluster has its own ways to share."""
    plain = Settings()
    named = plain.model_copy(update={"compact": plain.compact.model_copy(update={"cores": 7})})
    found = with_compact_share(named, 2).compact
    assert (found.cores, found.sort_memory_bytes) == (7, SORT_MEMORY_BYTES)
    remote = plain.model_copy(update={"spark": SparkConfig(master="spark://cluster:7077")})
    assert with_compact_share(remote, 2) is remote
