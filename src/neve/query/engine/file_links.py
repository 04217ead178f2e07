"""Hard links to the files that a statement may open, in the only folder that its DuckDB can reach.

DuckDB's list of allowed paths can't be changed once it is locked, and opening another DuckDB for each statement would
cost 20 ms and its cached footers. So the list holds one folder, and the links in the folder change. A file has the
same path each time, so that what DuckDB has cached of it stays valid.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from neve.lake.duckdb import find_link_path

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCK, NEW = "lock", "new-"


class LinkedFiles:
    """A folder with links to files. After `offer`, it has links to those files only."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._offered: set[str] = set()

    def offer(self, paths: Iterable[str]) -> None:
        """Link these files, and unlink all others. A missing file is ignored here: DuckDB reports it."""
        wanted = set(paths)
        for path in self._offered - wanted:
            with suppress(FileNotFoundError):
                os.unlink(find_link_path(self._root, path))
        self._offered &= wanted
        for path in wanted - self._offered:
            with suppress(FileNotFoundError):
                os.link(path, find_link_path(self._root, path))
                self._offered.add(path)


class LinkFolder:
    """Link folder for the workers of one server, beside the tables.

    The next server removes it if this one was killed.
    """

    def __init__(self, warehouse: str) -> None:
        above = Path(warehouse.removeprefix("file://")).resolve() / ".query"
        above.mkdir(mode=0o700, exist_ok=True)
        remove_stale_folders(above)
        self.path, self._lock = make_locked_folder(above)

    def make(self) -> str:
        """Create a folder of links for one worker."""
        return tempfile.mkdtemp(prefix="", dir=self.path)

    def close(self) -> None:
        """Remove all links."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def make_locked_folder(above: Path) -> tuple[Path, int]:
    """Create a private folder whose lock shows that its owner is alive. It gets its name once it is locked."""
    new = Path(tempfile.mkdtemp(prefix=NEW, dir=above))
    lock = os.open(new / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    path = above / new.name.removeprefix(NEW)
    new.rename(path)
    return path, lock


def remove_stale_folders(above: Path) -> None:
    """Remove the folders of dead servers: no process holds their locks."""
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
