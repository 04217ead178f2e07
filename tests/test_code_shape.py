"""The measurement of the shape of a source tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tools.code_shape import CROWDED_FILES, LARGE_LINES, main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with one case of each kind."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "small.py").write_text("def told() -> None:\n    pass\n")
    (package / "large.py").write_text("import shop.small\n" + "x = 1\n" * LARGE_LINES)
    for number in range(CROWDED_FILES):
        (package / f"file{number}.py").write_text("y = 1\n")
    return tmp_path


def test_numbers_are_printed_without_names(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each number has a line of its own."""
    main([str(tree)])
    printed = capsys.readouterr().out
    assert f"{CROWDED_FILES + 2:>10,}  files\n" in printed
    assert f"{1:>10,}  modules with one importer\n" in printed
    assert "shop" not in printed


def test_names_of_each_kind_are_listed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader sees what to change, and who imports a small module."""
    main([str(tree), "--names"])
    printed = capsys.readouterr().out
    assert "shop.small (2 lines), imported by shop.large\n" in printed
    assert f"shop.large ({LARGE_LINES + 1} lines)\n" in printed
    assert f"({CROWDED_FILES + 2} files)\n" in printed
    assert "shop.small: told\n" in printed


def test_help_and_a_wrong_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Help ends well, a folder without sources does not."""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "--names" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "missing")])
    assert ended.value.code == 2
    assert "expected a folder with Python files" in capsys.readouterr().err
