"""Snapshots that are too many are let go by who rewrites files often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from neve.app.serve.parts.worker import is_trim_due, trim_snapshots
from neve.errors import LeaseTaken
from neve.maintain.config import ExpireConfig, MaintainConfig

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.maintain.job import Maintainer


def table_with(snapshots: int, **properties: str) -> Table:
    """A table that remembers so many snapshots."""
    metadata = SimpleNamespace(snapshots=[None] * snapshots)
    return cast("Table", SimpleNamespace(metadata=metadata, properties=properties))


@pytest.mark.parametrize(
    ("snapshots", "most", "due"), [(100, 100, False), (125, 100, False), (126, 100, True), (9000, 0, False)]
)
def test_a_few_too_many_can_wait(snapshots: int, most: int, due: bool) -> None:
    """And without a bound there are never too many."""
    assert is_trim_due(table_with(snapshots), ExpireConfig(max_snapshots=most)) is due


def test_whose_files_must_stay_keeps_its_snapshots() -> None:
    """Nothing would come of trying, every time."""
    assert not is_trim_due(table_with(9000, **{"gc.enabled": "false"}), ExpireConfig(max_snapshots=10))


def test_what_came_of_it_is_told() -> None:
    """In the words of maintenance; nothing is said where nothing was to be done."""
    ran: list[tuple[str, list[str]]] = []

    def run(name: str, steps: list[str]) -> list[object]:
        ran.append((name, steps))
        return [SimpleNamespace(error="", outcome=SimpleNamespace(reason="26 snapshots expired"))]

    tables = {"logs": table_with(126), "spans": table_with(3)}
    maintainer = cast(
        "Maintainer",
        SimpleNamespace(
            lake=SimpleNamespace(table=tables.__getitem__),
            config=MaintainConfig(expire=ExpireConfig(max_snapshots=100)),
            run=run,
        ),
    )
    assert trim_snapshots(maintainer, "logs") == "; 26 snapshots expired"
    assert trim_snapshots(maintainer, "spans") == ""
    assert ran == [("logs", ["expire"])]


def test_a_table_that_another_one_maintains_is_left_to_it() -> None:
    """What was rewritten stays done."""

    def run(_name: str, _steps: list[str]) -> list[object]:
        raise LeaseTaken("maintain:logs is held")

    held = SimpleNamespace(lake=SimpleNamespace(table=lambda _name: table_with(9000)), config=MaintainConfig(), run=run)
    assert trim_snapshots(cast("Maintainer", held), "logs") == ""
