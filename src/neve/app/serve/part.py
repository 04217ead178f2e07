"""A part of the service: its interface, its states and their transitions, and its health."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from neve.jobs.status_board import LOST

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from neve.jobs.status_board import PartStatus


ReportDetails = Callable[[Mapping[str, object]], None]


class PartState(StrEnum):
    """The state of a part in its life cycle."""

    CREATED = "created"
    STARTED = "started"  # it is starting
    RUNNING = "running"
    DRAINING = "draining"  # it was asked to stop, and finishes the work in progress
    STOPPED = "stopped"
    FAILED = "failed"  # it waits for its restart, unless it was asked to stop

    @property
    def is_active(self) -> bool:
        """True if the part is working, and has to finish that work before it stops."""
        return self in {PartState.STARTED, PartState.RUNNING}


class Part(Protocol):
    """A component that runs in a thread of its own.

    An exception of it is reported, and the part is restarted with backoff.
    """

    @property
    def name(self) -> str:
        """The name, unique in its process."""

    def run(self, stop: threading.Event, report: ReportDetails) -> None:
        """Run until the event is set, then finish the work in progress and return; an earlier return is a failure.

        `report` replaces the reported details of the part, which are JSON values. A part is started until its first
        report, and running from then on. A running part that reports an `error` is unhealthy until it reports without
        one.
        """


NEXT_STATES: dict[PartState, frozenset[PartState]] = {
    PartState.CREATED: frozenset({PartState.STARTED, PartState.STOPPED}),
    PartState.STARTED: frozenset({PartState.RUNNING, PartState.DRAINING, PartState.FAILED}),
    PartState.RUNNING: frozenset({PartState.DRAINING, PartState.FAILED}),
    PartState.DRAINING: frozenset({PartState.STOPPED, PartState.FAILED}),
    PartState.FAILED: frozenset({PartState.STARTED, PartState.STOPPED}),
    PartState.STOPPED: frozenset(),
}


def check_transition(state: PartState, following: PartState) -> PartState:
    """Return the next state; raises `ValueError` if the transition is not allowed.

    >>> check_transition(PartState.RUNNING, PartState.DRAINING)
    <PartState.DRAINING: 'draining'>
    """
    if following not in NEXT_STATES[state]:
        expected = ", ".join(sorted(NEXT_STATES[state])) or "nothing"
        raise ValueError(f"a part that is {state} became {following}, expected {expected}")
    return following


UNHEALTHY_STATES = (PartState.FAILED, LOST)


def part_document(process: str, status: PartStatus) -> dict[str, object]:
    """Return a part as JSON values."""
    return {
        "process": process,
        "name": status.name,
        "state": str(status.state),
        "since": status.since.isoformat(),
        "restarts": status.restarts,
        "error": status.error,
        "details": dict(status.details),
    }


def find_problem(state: str, details: Mapping[str, object]) -> str:
    """Return the problem of a running part by its last report; empty if it is healthy or its state says enough.

    >>> find_problem("running", {"error": "the store is away"}), find_problem("running", {"batch": 7})
    ('the store is away', '')
    """
    return str(details.get("error") or "") if state == PartState.RUNNING else ""


@dataclass(frozen=True)
class PartsHealth:
    """The observed parts as `part_document` returns them, and other reasons why they are not ready."""

    parts: Sequence[Mapping[str, Any]]
    waiting: Sequence[str] = field(default=())

    @property
    def problems(self) -> list[str]:
        """Return the problems in words; empty if all parts are healthy."""
        return [_describe_part(part) for part in self.parts if part["state"] in UNHEALTHY_STATES or _part_problem(part)]

    @property
    def unready(self) -> list[str]:
        """Return the reasons in words why not all parts are ready; empty if they are.

        A running part is ready, healthy or not: it may recover by itself.
        """
        return [*(_describe_part(part) for part in self.parts if part["state"] != PartState.RUNNING), *self.waiting]


def _part_problem(part: Mapping[str, Any]) -> str:
    return find_problem(part["state"], part.get("details") or {})


def _describe_part(part: Mapping[str, Any]) -> str:
    """Describe the state of a part; its last failure is included only while it is unhealthy.

    >>> _describe_part({"name": "tail", "state": "failed", "error": "no policies"})
    'tail (failed): no policies'
    >>> _describe_part({"name": "tail", "state": "running", "error": "", "details": {"error": "the store is away"}})
    'tail (running, degraded): the store is away'
    """
    if complaint := _part_problem(part):
        return f"{part['name']} ({part['state']}, degraded): {complaint}"
    reason = f": {part['error']}" if part["error"] and part["state"] in UNHEALTHY_STATES else ""
    return f"{part['name']} ({part['state']}){reason}"
