"""Building the parts can be repeated, says what it does, and skips by name what it can't do."""

from pathlib import Path

import pytest

from tests.parts.build import Recipe, chosen, main, make
from tests.parts.command import CommandError


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep these tests away from the user's cache."""
    monkeypatch.setenv("NEVE_CACHE", str(tmp_path))


def test_part_is_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run finds the part and leaves it alone."""
    recipe = _recipe(tmp_path)
    assert make(recipe)
    assert make(recipe)
    said = capsys.readouterr().out.splitlines()
    folder = tmp_path / "part-1"
    assert said == [f"part: making it (a hint) in {folder}", "part: done in 0 s", f"part: already in {folder}"]
    assert (folder / "file").exists()


def test_part_that_needs_an_absent_tool_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is said, and it is no failure."""
    assert make(_recipe(tmp_path, missing="no go found"))
    assert capsys.readouterr().out == "part: skipped: no go found\n"


def test_part_that_fails_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A failure is said and reported, and the next run tries again."""
    recipe = _recipe(tmp_path, fails=True)
    assert not make(recipe)
    assert "part: failed: out of luck" in capsys.readouterr().out
    assert not recipe.folder.exists()


def test_cheap_parts_need_no_compiler() -> None:
    """What CI builds is what takes no compiler."""
    assert [recipe.name for recipe in chosen(["cheap"])] == ["rest-catalog", "kafka", "helm", "schemas"]
    assert {recipe.name for recipe in chosen(["all"])} > {"collector", "telemetrygen", "versitygw"}
    assert [recipe.name for recipe in chosen(["kafka", "collector"])] == ["kafka", "collector"]


def test_unknown_part_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt part is an error that lists the right ones."""
    with pytest.raises(SystemExit, match="2"):
        main(["kafak"])
    assert "unknown part: kafak (choose from all, cheap, rest-catalog, kafka" in capsys.readouterr().err


def _recipe(cache: Path, missing: str | None = None, fails: bool = False) -> Recipe:
    """Return a recipe that puts one file into its folder."""

    def fill(draft: Path) -> None:
        """Write the file, or fail after it."""
        (draft / "file").touch()
        if fails:
            raise CommandError("out of luck")

    return Recipe("part", cache / "part-1", lambda: missing, fill, "a hint")
