"""A look at the lake before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from neve.app.serve.config import assign_processes
from neve.app.serve.preflight import check_lake
from neve.errors import ConfigError, LakeError, TableMissing
from neve.lake.config import CatalogConfig
from neve.lake.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

GROUP, TEND, RECEIVER = (
    assign_processes(["receiver", "compact"]),
    assign_processes(["compact"]),
    assign_processes(["receiver"]),
)
AWAY = Lake(catalog_config=CatalogConfig(kind="rest", uri="http://127.0.0.1:1"))


@pytest.fixture
def empty(tmp_path: Path) -> Lake:
    """An embedded catalog that nobody has made yet."""
    return Lake(catalog_config=CatalogConfig(path=str(tmp_path / "catalog.db")))


def test_an_embedded_catalog_without_tables_is_refused(empty: Lake) -> None:
    """By a group and by a process that needs them; a receiver needs none."""
    for processes in (GROUP, TEND):
        with pytest.raises(TableMissing, match="the lake has no tables"):
            check_lake(empty, processes)
    check_lake(empty, RECEIVER)


def test_a_group_starts_while_its_catalog_is_away() -> None:
    """Its receiver needs none; the log says that the others wait."""
    with capture_logs() as said:
        look = check_lake(AWAY, GROUP)
        assert look is not None
        look.join(600)
    [line] = said
    assert (line["log_level"], line["event"].partition(",")[0]) == ("warning", "catalog does not respond")
    assert "can't open the rest catalog" in line["error"]


def test_a_catalog_that_is_set_up_wrongly_is_refused() -> None:
    """No wait mends that."""
    with pytest.raises(ConfigError, match=r"catalog\.uri is 'nowhere'"):
        check_lake(Lake(catalog_config=CatalogConfig(kind="rest", uri="nowhere")), GROUP)


def test_a_process_that_needs_the_catalog_ends_without_it() -> None:
    """Whoever started it starts it again."""
    with pytest.raises(LakeError, match="can't open the rest catalog"):
        check_lake(AWAY, TEND)


def test_a_server_without_tables_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a group, which receives all the same."""
    monkeypatch.setattr(Lake, "table_names", lambda _lake: [])
    with capture_logs() as said:
        look = check_lake(AWAY, GROUP)
        assert look is not None
        look.join(600)
    assert [(line["event"], line["hint"]) for line in said] == [("the lake has no tables", "run `neve init`")]
