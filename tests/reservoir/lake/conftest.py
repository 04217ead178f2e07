"""Samplers whose clock stands still."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.lake.sql_documents import SqlDocuments
from neve.lake.state import State
from neve.lake.state_config import StateConfig
from neve.reservoir.lake.job import LakeSampler
from tests.reservoir.lake.records import START

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.reservoir.lake.config import LakeSampling


@pytest.fixture
def sampler(tmp_path: Path, spark_lake: Lake) -> Callable[..., LakeSampler]:
    """The sampler of a table of the lake."""

    def make(config: LakeSampling, table: str = "logs", **more: Any) -> LakeSampler:
        documents = SqlDocuments(State(StateConfig(path=str(tmp_path / "state.db"))))
        more.setdefault("clock", lambda: START + timedelta(days=1))
        return LakeSampler(spark_lake, table, config, documents, **more)

    return make
