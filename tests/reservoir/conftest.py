"""Of the tests of samples on Spark, what the aggregate does, and real logs, run each time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = f"{Path(__file__).parent}{os.sep}"
EACH_TIME = ("test_aggregate.py::test_it_", "test_real_data.py::test_real_otap_is_sampled_and_is_valid_otap_again[logs")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the others as long."""
    for item in items:
        if str(item.path).startswith(HERE) and needs_spark(item) and not any(one in item.nodeid for one in EACH_TIME):
            item.add_marker(pytest.mark.long)


def needs_spark(item: pytest.Item) -> bool:
    """Whether a test asks for the session, itself or through another fixture."""
    return "spark" in getattr(item, "fixturenames", ())
