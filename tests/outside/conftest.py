"""The folder of the data, and the rule that these tests run only when they are asked for."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.parts.cache import home

HERE = f"{Path(__file__).parent}{os.sep}"
MARKER = "outside"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and skip them unless `-m outside` selects them."""
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(MARKER)
            if MARKER not in (config.option.markexpr or ""):
                item.add_marker(pytest.mark.skip(reason="runs by make test-outside"))


@pytest.fixture
def outside() -> Callable[[str], Path]:
    """Paths in the folder of the data. A test is skipped if its data is absent."""
    root = Path(os.environ.get("NEVE_OUTSIDE") or home() / "outside")

    def find(name: str) -> Path:
        path = root / name
        if not path.exists():
            pytest.skip(f"{name} is not in {root.name}: see tests/outside/README.md")
        return path

    return find
