"""The files that a layout rewrites, cut into steps: each is one commit, and what a killed run has done stays done."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, order=True)
class StageFile:
    """A data file that is to be rewritten."""

    spec_id: int
    partition: str  # in any form that tells partitions apart
    path: str
    bytes: int
    rows: int
    order_id: int = 0  # of the sort order that its rows have; none: 0


@dataclass(frozen=True)
class Step:
    """Files of one partition spec that are rewritten together."""

    files: tuple[StageFile, ...]

    @property
    def bytes(self) -> int:
        """The size of what is read."""
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        """The rows of the files, those that are deleted among them."""
        return sum(file.rows for file in self.files)

    @property
    def spec_id(self) -> int:
        """The partition spec that the files have."""
        return self.files[0].spec_id


def steps_of(files: Iterable[StageFile], step_bytes: int) -> tuple[Step, ...]:
    """Files packed into steps of about this size; files of a partition stay together while a step has room for them.

    Rows are laid out within a step, so larger steps give files that overlap less.
    """
    return tuple(
        step for _, alike in groupby(sorted(files), lambda file: file.spec_id) for step in _cut(alike, step_bytes)
    )


def _cut(files: Iterable[StageFile], step_bytes: int) -> Iterator[Step]:
    open_step: list[StageFile] = []
    held = 0
    for _partition, alike in groupby(files, lambda file: file.partition):
        together = list(alike)
        size = sum(file.bytes for file in together)
        if open_step and held + size > step_bytes:
            yield Step(tuple(open_step))
            open_step, held = [], 0
        for file in together:
            if open_step and held + file.bytes > step_bytes:
                yield Step(tuple(open_step))
                open_step, held = [], 0
            open_step.append(file)
            held += file.bytes
    if open_step:
        yield Step(tuple(open_step))
