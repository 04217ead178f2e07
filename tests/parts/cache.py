"""The user's cache, where parts that are dear to get are kept between runs."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def home() -> Path:
    """Return Neve's cache folder: NEVE_CACHE, else XDG_CACHE_HOME/neve, else ~/.cache/neve."""
    if chosen := os.environ.get("NEVE_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "neve"


def place(name: str, version: str) -> Path:
    """Return the folder of one part at one version, so that a new version never meets the files of an old one."""
    return home() / "parts" / f"{name}-{version}"


@contextmanager
def filling(folder: Path) -> Iterator[Path]:
    """Yield a draft that becomes `folder` by one rename when the block ends well, and is gone when it does not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        draft = Path(beside) / folder.name
        draft.mkdir()
        yield draft
        if not folder.exists():
            draft.rename(folder)
