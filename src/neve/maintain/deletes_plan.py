"""Whether position deletes are worth writing anew: a pure function of the files of a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.maintain.entry import KEEP, Entry
from neve.maintain.words import counted

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

REWRITE, REMOVE = "rewrite", "remove"
FILE = "file of position deletes"


@dataclass(frozen=True)
class PositionDeletes:
    """A file of position deletes, and the paths of the data files that it is about (none: nobody knows)."""

    path: str
    partition: Hashable
    bytes: int
    about: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DeletesPlan:
    """What is to be done, and why."""

    dangling: tuple[PositionDeletes, ...]
    excess: int
    rewrite: bool
    reason: str
    entries: tuple[Entry, ...]


def plan_deletes(
    deletes: Iterable[PositionDeletes], live: Iterable[tuple[Hashable, str]], *, least: int, others: int = 0
) -> DeletesPlan:
    """Deletes whose data files are gone can go; several that are about the same data file can become one.

    `live` are the data files, each with its partition; `others` counts equality deletes and deletion vectors, which are
    not written anew.
    """
    every = tuple(deletes)
    by_partition: dict[Hashable, set[str]] = {}
    for partition, path in live:
        by_partition.setdefault(partition, set()).add(path)
    dangling = tuple(one for one in every if _dangles(one, by_partition.get(one.partition, set())))
    rest = tuple(one for one in every if one not in dangling)
    excess = _excess(rest)
    rewrite = bool(dangling) or excess >= least
    entries = [
        *(Entry(REMOVE, one.path, "the data files that it is about are gone", one.bytes) for one in dangling),
        *_summed(rest, excess, rewrite),
        *([Entry(KEEP, f"{others} other delete files", "compaction applies them")] if others else []),
    ]
    reason = _reason(len(every), len(dangling), excess, least) if every else _none(others)
    return DeletesPlan(dangling, excess, rewrite, reason, tuple(entries))


def _dangles(one: PositionDeletes, live: set[str]) -> bool:
    return not live or (bool(one.about) and one.about.isdisjoint(live))


def _excess(deletes: tuple[PositionDeletes, ...]) -> int:
    """How many fewer files there would be with one for each data file that has deletes."""
    spoken_of = {(one.partition, path) for one in deletes for path in one.about or ("",)}
    return max(0, len(deletes) - len(spoken_of))


def _summed(rest: tuple[PositionDeletes, ...], excess: int, rewrite: bool) -> list[Entry]:
    if not rest:
        return []
    words = f"{excess} fewer would do" if excess else "no more than one for each data file that has deletes"
    what = counted(len(rest), FILE)
    return [Entry(REWRITE if rewrite else KEEP, what, words, sum(one.bytes for one in rest))]


def _reason(count: int, dangling: int, excess: int, least: int) -> str:
    if dangling:
        return f"{dangling:,} of {counted(count, FILE)} about data files that are gone"
    if excess >= least:
        return f"{counted(count, FILE)} could be {count - excess:,}"
    return f"{counted(count, FILE)}, {excess} more than needed: fewer than {least} are left as they are"


def _none(others: int) -> str:
    return f"no position deletes ({others} other delete files: compaction applies them)" if others else "no deletes"
