"""The files that a statement may open: hard links in a folder that is all that its DuckDB can reach.

DuckDB's list of allowed paths can't be changed once it is closed, and opening another DuckDB for each statement would
cost 20 ms and the footers that it remembers. So the list holds one folder, and what is in the folder changes. A file
has the same path there each time, so that what DuckDB remembers of it stays good.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from neve.lake.duck_files import path_below

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCK, NEW = "lock", "new-"


class LinkedFiles:
    """A folder with links to files; after `offer`, to those files alone."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._offered: set[str] = set()

    def offer(self, paths: Iterable[str]) -> None:
        """Link these files, and unlink all others; a file that went away is left for DuckDB to miss."""
        wanted = set(paths)
        for path in self._offered - wanted:
            with suppress(FileNotFoundError):
                os.unlink(path_below(self._root, path))
        self._offered &= wanted
        for path in wanted - self._offered:
            with suppress(FileNotFoundError):
                os.link(path, path_below(self._root, path))
                self._offered.add(path)


class LinkFolder:
    """The folder of one server's workers, beside the tables; a server that was killed leaves its own to the next."""

    def __init__(self, warehouse: str) -> None:
        above = Path(warehouse.removeprefix("file://")).resolve() / ".query"
        above.mkdir(mode=0o700, exist_ok=True)
        sweep(above)
        self.path, self._lock = make_locked(above)

    def make(self) -> str:
        """A folder of links for one worker."""
        return tempfile.mkdtemp(prefix="", dir=self.path)

    def close(self) -> None:
        """Remove all links."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def make_locked(above: Path) -> tuple[Path, int]:
    """A private folder that says by a lock that its owner lives; it gets its name when it is locked."""
    new = Path(tempfile.mkdtemp(prefix=NEW, dir=above))
    lock = os.open(new / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    path = above / new.name.removeprefix(NEW)
    new.rename(path)
    return path, lock


def sweep(above: Path) -> None:
    """Remove the folders of servers that are gone: nobody holds their locks."""
    for folder in above.iterdir():
        if folder.name.startswith(NEW) or folder.is_symlink() or not (folder / LOCK).is_file():
            continue
        lock = os.open(folder / LOCK, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
