"""What tests of the service share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.state.config import StateConfig
from neve.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateStore]:
    """A state store in a file."""
    store = StateStore(StateConfig(path=f"{tmp_path}/state.db"))
    yield store
    store.close()
