"""Samplers whose clock stands still."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.reservoir.tables.job import Sampler
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.reservoir.tables.records import START

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.reservoir.config import LakeSampling


@pytest.fixture
def sampler(tmp_path: Path, spark_lake: Lake) -> Callable[..., Sampler]:
    """The sampler of a table of the lake."""

    def make(config: LakeSampling, table: str = "logs", **more: Any) -> Sampler:
        documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
        more.setdefault("clock", lambda: START + timedelta(days=1))
        return Sampler(spark_lake, table, config, documents, **more)

    return make
