"""The mark of tests that change Iceberg tables, and the guard that fails others."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.lake_mark import ADVICE

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

CASES = """
import pytest
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.model.tables import LOGS

def create(folder):
    lake = Lake(LakeConfig(warehouse=str(folder / "warehouse")), CatalogConfig(path=str(folder / "catalog.db")))
    try:
        init_tables(lake, [LOGS])
    except Exception:
        pass

@pytest.fixture
def own(tmp_path, iceberg):
    create(tmp_path)

@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    create(tmp_path_factory.mktemp("shared"))

def test_forgotten(tmp_path):
    create(tmp_path)

@pytest.mark.lake
def test_marked(tmp_path):
    create(tmp_path)

def test_by_fixture(own):
    pass

def test_shared(shared):
    pass
"""


@pytest.mark.long
@pytest.mark.slow
def test_tests_that_change_tables_must_be_marked(tmp_path: Path) -> None:
    """By a mark or by a fixture; a lake of the session needs none, and code that handles errors hides nothing."""
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    lake: changes tables\n")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "tests.lake_mark", "-p", "no:cacheprovider"]
    command += ["-m", "lake or not lake"]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = dict(re.findall(r"^\S*test_cases\.py::test_(\w+) (PASSED|FAILED)", done.stdout, re.MULTILINE))
    assert outcomes == {"forgotten": "FAILED", "marked": "PASSED", "by_fixture": "PASSED", "shared": "PASSED"}
    assert ADVICE in done.stdout


def test_a_fixture_that_makes_a_lake_marks_its_tests(lake: Lake, request: pytest.FixtureRequest) -> None:
    """Nobody has to remember it."""
    assert lake.exists
    assert request.node.get_closest_marker("lake")
