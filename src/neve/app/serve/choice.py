"""Which parts run, and which processes they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

PartName = Literal[
    "receiver", "api", "ingest", "scheduler", "compact", "maintain", "rollup", "search", "tail", "autopilot"
]
PARTS: tuple[PartName, ...] = get_args(PartName)
RECEIVER, API, TEND = "receiver", "api", "tend"
ALONE = (RECEIVER, API)  # parts with a process of their own; all others share one, and its Spark session


def choose(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The processes that some parts need, each with its parts; raises `ConfigError` for a name that is none.

    >>> choose(["ingest", "receiver", "compact"])
    {'receiver': ('receiver',), 'tend': ('ingest', 'compact')}
    """
    wanted = set(names)
    unknown = sorted(wanted.difference(PARTS))
    if unknown or not wanted:
        raise ConfigError(
            f"the parts to serve are {', '.join(unknown) or 'none'}, expected some of {', '.join(PARTS)}",
            hint="separate them by commas, as in --only receiver,api; without --only, all of them are served",
        )
    processes: dict[str, tuple[str, ...]] = {name: (name,) for name in ALONE if name in wanted}
    tending = tuple(name for name in PARTS if name in wanted and name not in ALONE)
    return {**processes, TEND: tending} if tending else processes
