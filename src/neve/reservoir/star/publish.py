"""Putting a window's files in place: children before their parents, and nothing half-done that is not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from neve.otap.files import OBJECT_STORES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.reservoir.star.ledger import Ledger, Sampled
    from neve.reservoir.window import Window


@dataclass(frozen=True)
class Publisher:
    """Moves files from the staging folder of a window to the tables."""

    ledger: Ledger

    def staging(self, window: Window) -> str:
        """Where tasks write; hidden from whoever reads the tables."""
        return f"{self.ledger.base}/_neve/staging/{self.ledger.signal}-{window}"

    def publish(self, window: Window, sampled: Sampled, before: Sampled | None) -> None:
        """Put a window's files in the place of those that it had.

        Its document tells what is being done before the first file moves, and names the files that are to go too: a
        run that dies here is done again, writes the same files and removes the same.
        """
        old = tuple(path for path in (before.outputs if before else ()) if path not in sampled.outputs)
        self.ledger.write(window, replace(sampled, outputs=sampled.outputs + old))
        children, roots = self._apart(sampled.outputs)
        self._move(window, children)
        self._remove(self._apart(old)[1])
        self._move(window, roots)
        self._remove(self._apart(old)[0])
        self.ledger.write(window, sampled.finished())
        self.clear(window)

    def clear(self, window: Window) -> None:
        """Remove what a run left in the staging folder."""
        folder = self.staging(window)
        if self._filesystem.get_file_info(folder).type == pafs.FileType.Directory:
            self._filesystem.delete_dir(folder)

    @property
    def _filesystem(self) -> pafs.FileSystem:
        return self.ledger.filesystem

    def _apart(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        root = f"/{self.ledger.signal}/"
        return [path for path in paths if not path.startswith(root)], [path for path in paths if path.startswith(root)]

    def _move(self, window: Window, paths: Iterable[str]) -> None:
        whole = self._filesystem.type_name in OBJECT_STORES
        for path in paths:
            target = self.ledger.base + path
            if not whole:
                self._filesystem.create_dir(target.rpartition("/")[0], recursive=True)
            self._filesystem.move(self.staging(window) + path, target)

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self._filesystem.get_file_info(self.ledger.base + path).type == pafs.FileType.File:
                self._filesystem.delete_file(self.ledger.base + path)
