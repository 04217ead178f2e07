"""Paths that mean the same file, and the lake's own folders under whatever name they are reached."""

from __future__ import annotations

import doctest
import pickle
from typing import TYPE_CHECKING

import pytest

from neve.lake.storage import paths
from neve.lake.storage.paths import OwnFolders

if TYPE_CHECKING:
    from pathlib import Path


def test_the_examples_are_true() -> None:
    """Those in the docstrings."""
    assert doctest.testmod(paths).failed == 0


@pytest.mark.parametrize("folder", ["s3://lake/warehouse", "s3://lake/warehouse/", "s3a://lake/warehouse"])
@pytest.mark.parametrize(
    ("path", "held"),
    [
        ("s3://lake/warehouse/telemetry/logs/a.parquet", True),
        ("s3a://lake/warehouse/a", True),
        ("s3://LAKE/warehouse/a", True),
        ("s3://lake./warehouse/a", True),
        ("s3://lake//warehouse/a", True),
        ("s3://lake/warehouse", True),
        ("s3://lake/warehouse2/a", False),
        ("s3://lake/Warehouse/a", False),
        ("s3://other/warehouse/a", False),
        ("/lake/warehouse/a", False),
    ],
)
def test_a_prefix_of_the_lake_is_known_however_it_is_written(folder: str, path: str, held: bool) -> None:
    """By scheme, capitals of the bucket and slashes; keys are told apart by every letter."""
    assert OwnFolders((folder,)).holds(path) is held


def test_a_folder_of_the_lake_is_known_through_links(tmp_path: Path) -> None:
    """Of folders and of files, chained ones too; a neighbour with a longer name is another folder."""
    own, beside = tmp_path / "warehouse", tmp_path / "warehouse-2"
    for folder in (own, beside, tmp_path / "in"):
        folder.mkdir()
        (folder / "a.json").write_text("{}")
    (tmp_path / "in" / "folder").symlink_to(own)
    (tmp_path / "in" / "link.json").symlink_to(own / "a.json")
    (tmp_path / "in" / "chain.json").symlink_to(tmp_path / "in" / "link.json")
    folders = pickle.loads(pickle.dumps(OwnFolders((f"file://{own}", ""))))  # noqa: S301 - our own
    held = [own, own / "a.json", own / "not there", *(tmp_path / "in" / name for name in ("folder/x", "link.json"))]
    assert [folders.holds(str(path)) for path in [*held, tmp_path / "in" / "chain.json"]] == [True] * 6
    assert not folders.holds(str(beside / "a.json"))
    assert not folders.holds(str(tmp_path / "in" / "a.json"))


def test_a_folder_under_another_name_is_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a bind mount, or where capitals do not count: no link tells, but the file system's number does."""
    own, other = tmp_path / "warehouse", tmp_path / "mounted"
    numbers = {str(own): (1, 7), str(other): (1, 7), str(tmp_path): (1, 1)}
    monkeypatch.setattr(paths, "_number", numbers.get)
    assert OwnFolders((str(own),)).holds(str(other / "logs" / "a.parquet"))
    assert not OwnFolders((str(own),)).holds(str(tmp_path / "a.parquet"))


def test_a_file_of_the_lake_is_no_source(tmp_path: Path) -> None:
    """The state store is a file, and what is beside it is not."""
    own = OwnFolders((str(tmp_path / "state.db"),))
    assert own.holds(str(tmp_path / "state.db"))
    assert not own.holds(str(tmp_path / "in.json"))
