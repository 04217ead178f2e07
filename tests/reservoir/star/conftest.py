"""A sampler for every test: from a folder to another one, on the shared session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from neve.lake.sql_documents import SqlDocuments
from neve.lake.state import State
from neve.lake.state_config import StateConfig
from neve.reservoir.config import ReservoirConfig
from neve.reservoir.star.job import StarSampler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from neve.lake.lake import Lake


@pytest.fixture
def folder_lake(spark: SparkSession, make_lake: Callable[..., Lake]) -> Lake:
    """A lake without tables, for its Spark."""
    lake = make_lake(init=False)
    assert lake.spark is spark
    return lake


@pytest.fixture
def sampler(folder_lake: Lake, tmp_path: Path) -> Callable[..., StarSampler]:
    """Samplers from `in` to another folder of the test; a day is one window."""
    documents = SqlDocuments(State(StateConfig(path=str(tmp_path / "state.db"))))

    def make(target: str = "out", source: str = "in", **given: Any) -> StarSampler:
        settings = {"window_seconds": 86_400, **given}
        config = ReservoirConfig(source=str(tmp_path / source), target=str(tmp_path / target), **settings)
        return StarSampler(folder_lake, config, documents)

    return make
