"""What tests of the service share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.lake.state import State
from neve.lake.state_config import StateConfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    """A state store in a file."""
    store = State(StateConfig(path=f"{tmp_path}/state.db"))
    yield store
    store.close()
