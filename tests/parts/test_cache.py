"""The cache is where the user says, and never holds a part that was half made."""

from pathlib import Path

import pytest

from tests.parts import cache


def test_neve_cache_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """NEVE_CACHE names the folder itself."""
    monkeypatch.setenv("NEVE_CACHE", "/chosen")
    monkeypatch.setenv("XDG_CACHE_HOME", "/other")
    assert cache.place("kafka", "1.0") == Path("/chosen/parts/kafka-1.0")


def test_xdg_cache_home_holds_a_folder_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_CACHE_HOME is shared with other programs, so Neve takes a folder inside it."""
    monkeypatch.delenv("NEVE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/other")
    assert cache.place("kafka", "1.0") == Path("/other/neve/parts/kafka-1.0")


def test_home_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without either, the cache is below the user's home."""
    monkeypatch.delenv("NEVE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.home() == Path.home() / ".cache" / "neve"


def test_filled_folder_appears_whole(tmp_path: Path) -> None:
    """Nothing has the folder's name until all of it is there."""
    folder = tmp_path / "parts" / "part-1"
    with cache.filling(folder) as draft:
        (draft / "file").write_text("content")
        assert not folder.exists()
    assert (folder / "file").read_text() == "content"


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    """A draft that could not be finished is removed."""
    with pytest.raises(FileNotFoundError), cache.filling(tmp_path / "part-1") as draft:
        (draft / "absent").read_text()
    assert list(tmp_path.iterdir()) == []
