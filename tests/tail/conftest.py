"""A lake for tail sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.tail.lakes import Desk, tail_lake

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def desk(tmp_path: Path, iceberg: None) -> Desk:
    """A lake without a JVM, and a selector on it."""
    return Desk(tail_lake(tmp_path), tmp_path)
