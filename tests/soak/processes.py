"""The processes of a service, by what they do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import psutil

from tests.soak.plan import Victim

JVM, WORKERS = "java", "workers"
ONLY = "--only"


@dataclass(frozen=True)
class Member:
    """One process: its number, what it does, the memory that it holds, and when it was started."""

    pid: int
    role: str
    memory: int
    created: float


def members(supervisor: int) -> list[Member]:
    """The process that was started and all below it; those that end meanwhile are left out."""
    try:
        root = psutil.Process(supervisor)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return []
    found = []
    for process in processes:
        try:
            role = Victim.SUPERVISOR.value if process.pid == supervisor else _role(process)
            found.append(Member(process.pid, role, process.memory_info().rss, process.create_time()))
        except psutil.Error:
            continue
    return found


def memory_by_role(found: list[Member]) -> dict[str, int]:
    """How many bytes each role holds."""
    totals: dict[str, int] = defaultdict(int)
    for member in found:
        totals[member.role] += member.memory
    return dict(totals)


def _role(process: psutil.Process) -> str:
    """A child of the group says which parts it has; what Spark starts is told by its name."""
    if process.name() == JVM:
        return Victim.JVM.value
    words = process.cmdline()
    if ONLY not in words:
        return WORKERS
    parts = words[words.index(ONLY) + 1]
    return parts if parts in (Victim.RECEIVER, Victim.API) else Victim.TEND.value
