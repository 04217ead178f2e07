"""A sampler for every test: from a folder to another one, on the shared session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from neve.reservoir.config import ReservoirConfig
from neve.reservoir.otap.job import FolderSampler
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

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
def sampler(folder_lake: Lake, tmp_path: Path) -> Callable[..., FolderSampler]:
    """Samplers from `in` to another folder of the test; a day is one window."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))

    def make(target: str = "out", source: str = "in", **given: Any) -> FolderSampler:
        settings = {"window_seconds": 86_400, **given}
        config = ReservoirConfig(source=str(tmp_path / source), target=str(tmp_path / target), **settings)
        return FolderSampler(folder_lake, config, documents)

    return make
