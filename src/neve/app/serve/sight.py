"""How parts look to those who watch: which of them are ill, and which are not ready."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.app.serve.part import PartState
from neve.work.board import LOST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.work.board import PartStatus

ILL = (PartState.FAILED, LOST)


def plain(process: str, status: PartStatus) -> dict[str, object]:
    """A part as values of JSON."""
    return {
        "process": process,
        "name": status.name,
        "state": str(status.state),
        "since": status.since.isoformat(),
        "restarts": status.restarts,
        "error": status.error,
        "details": dict(status.details),
    }


def ailment(state: str, details: Mapping[str, object]) -> str:
    """What ails a part that runs, by what it said last; nothing where it is well, or where its state says enough.

    >>> ailment("running", {"error": "the store is away"}), ailment("running", {"batch": 7})
    ('the store is away', '')
    """
    return str(details.get("error") or "") if state == PartState.RUNNING else ""


@dataclass(frozen=True)
class Sight:
    """The parts that were seen, as `plain` tells of them, and what else keeps them from being ready."""

    parts: Sequence[Mapping[str, Any]]
    waiting: Sequence[str] = field(default=())

    @property
    def ill(self) -> list[str]:
        """What is wrong, in words; nothing where all is well."""
        return [_words(part) for part in self.parts if part["state"] in ILL or _ailment(part)]

    @property
    def unready(self) -> list[str]:
        """Why not everything is there that should be, in words; nothing where it is.

        A part that runs is there, well or not: it may recover by itself.
        """
        return [*(_words(part) for part in self.parts if part["state"] != PartState.RUNNING), *self.waiting]


def _ailment(part: Mapping[str, Any]) -> str:
    return ailment(part["state"], part.get("details") or {})


def _words(part: Mapping[str, Any]) -> str:
    """What is to be said of a part; what it failed of is of interest only while it is ill.

    >>> _words({"name": "tail", "state": "failed", "error": "no policies"})
    'tail is failed: no policies'
    >>> _words({"name": "tail", "state": "running", "error": "", "details": {"error": "the store is away"}})
    'tail is running, ill: the store is away'
    """
    if complaint := _ailment(part):
        return f"{part['name']} is {part['state']}, ill: {complaint}"
    reason = f": {part['error']}" if part["error"] and part["state"] in ILL else ""
    return f"{part['name']} is {part['state']}{reason}"
