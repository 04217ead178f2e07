"""Which files gain by a new layout; values in, values out, with a reason for each group that is left as it is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from neve.autopilot.stage.steps import StageFile

UNREAD = "no logged query that a layout can help reads them"
LAID_OUT = "they have the layout already"


@dataclass(frozen=True)
class Shape:
    """The partition spec and the sort order of files that have a layout."""

    spec_id: int
    order_id: int


@dataclass(frozen=True)
class LeftOut:
    """Files that are not rewritten, and why."""

    reason: str
    files: int
    bytes: int


@dataclass(frozen=True)
class Gain:
    """The files that are rewritten, and those that are not."""

    files: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()


def files_that_gain(files: "Iterable[StageFile]", shape: Shape | None, read: "Collection[str]") -> Gain:
    """A file gains when a logged query reads it now and it does not have the wanted shape.

    `read` has the paths of files that queries read; no shape means that files don't show whether they have the layout.
    """
    gaining: list[str] = []
    left: dict[str, list[StageFile]] = {UNREAD: [], LAID_OUT: []}
    for file in files:
        if shape is not None and Shape(file.spec_id, file.order_id) == shape:
            left[LAID_OUT].append(file)
        elif file.path not in read:
            left[UNREAD].append(file)
        else:
            gaining.append(file.path)
    groups = [LeftOut(reason, len(some), sum(file.bytes for file in some)) for reason, some in left.items() if some]
    return Gain(tuple(gaining), tuple(groups))


def said(rewritten: int, left_out: "Collection[LeftOut]") -> str:
    """What is rewritten and what is not, in one sentence.

    >>> said(48, [LeftOut("no logged query reads them", 352, 9)])
    '48 of 400 files are rewritten; 352 stay as they are: no logged query reads them'
    """
    every = rewritten + sum(group.files for group in left_out)
    stay = "; ".join(f"{group.files:,} stay as they are: {group.reason}" for group in left_out)
    return f"{rewritten:,} of {every:,} files are rewritten; {stay}"
