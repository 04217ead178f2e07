"""All tests of the autopilot stand with the long ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = f"{Path(__file__).parent}{os.sep}"


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Import nothing of this folder if the long tests are deselected."""
    return True if "not long" in config.option.markexpr else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder."""
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.long)
