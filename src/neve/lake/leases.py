"""Leases: what one process at a time may do, among all that share a store of documents.

A lease ends by itself when its holder no longer renews it, so that a holder that was killed stops nobody for long. A
holder that was only slow may wake up after another one took over: it calls `check` before it publishes what it made.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import structlog

from neve.errors import LakeError, LeaseLost, LeaseTaken
from neve.lake.holder import Holder, Refused, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from neve.lake.documents import Documents

SPACE = "leases"
RENEWALS = 3  # in the time of a lease: two may fail before it is lost

log = structlog.get_logger(__name__)


class Lease:
    """A lease that was taken: renewed in the background while it is entered, and released at the end."""

    def __init__(self, documents: Documents, name: str, holder: Holder, seconds: float) -> None:
        self.name = name
        self.holder = holder
        self._documents = documents
        self._seconds = seconds
        self._changing = threading.Lock()
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._keep, name=f"lease {name}", daemon=True)

    @property
    def epoch(self) -> int:
        """The number of this taking; every later one has a larger number."""
        return self.holder.epoch

    def check(self) -> None:
        """Renew now, so that the lease is ours for its whole time from here; raises `LeaseLost` where it can't be."""
        try:
            self._renew()
        except LeaseLost:
            raise
        except LakeError as error:
            raise LeaseLost(
                f"nobody can tell whether {self.holder.owner} still holds the lease {self.name!r}: {error.message}",
                hint=error.hint,
            ) from error

    def __enter__(self) -> Self:
        self._renewer.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ended.set()
        self._renewer.join(self._seconds)
        if self._renewer.is_alive():  # it waits for a store that does not answer; this one would wait, too
            log.warning("lease not released", lease=self.name, error="the store does not answer")
            return
        try:
            self._change(lambda holder, _now: holder.released())
        except LakeError as error:  # it ends by itself, and the work is no less done
            log.warning("lease not released", lease=self.name, error=error.message)

    def _keep(self) -> None:
        while not self._ended.wait(self._seconds / RENEWALS):
            try:
                self._renew()
            except LeaseLost as error:
                log.warning("lease lost", lease=self.name, error=error.message)
                return
            except LakeError as error:
                log.warning("lease not renewed", lease=self.name, error=error.message)

    def _renew(self) -> None:
        self.holder = self._change(lambda holder, now: holder.renewed(now, self._seconds))

    def _change(self, change: Callable[[Holder, datetime], Holder]) -> Holder:
        """Change what the store has of this taking; raises `LeaseLost` where it has another one, or none.

        It is read each time: a change whose answer was lost may have happened. One that has expired and that nobody
        took is still ours.
        """
        with self._changing:
            while True:
                document, now = self._documents.get(SPACE, self.name), self._documents.now()
                found = Holder.of(document, now)
                if found is None or not found.is_of(self.holder):
                    raise _lost(self.name, self.holder, found)
                changed = change(found, now)
                if self._documents.swap(SPACE, self.name, document, changed.document):
                    return changed


@contextmanager
def hold(documents: Documents, name: str, *, owner: str, seconds: float, what: str = "") -> Iterator[Lease]:
    """Hold a lease; raises `LeaseTaken` while another owner does. `what` tells others what it is held for.

    An owner is one worker: when it takes a lease that it holds already, its older holding of it is lost.
    """
    with _take(documents, name, owner=owner, seconds=seconds, what=what) as lease:
        yield lease


@contextmanager
def take_over(documents: Documents, name: str, *, owner: str, seconds: float, what: str = "") -> Iterator[Lease]:
    """Hold a lease, whoever holds it: for someone who knows that the holder is dead. One that is not finds it lost."""
    with _take(documents, name, owner=owner, seconds=seconds, what=what, steal=True) as lease:
        yield lease


@contextmanager
def work_under(documents: Documents, name: str, *, seconds: float, what: str, steal: bool = False) -> Iterator[Lease]:
    """Hold a lease as a worker of its own; `steal` takes it from one that is known to be dead."""
    # Containers share names and numbers of processes; an owner that is taken for another one loses its lease to it.
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    with _take(documents, name, owner=owner, seconds=seconds, what=what, steal=steal) as lease:
        yield lease


def release_of(documents: Documents, name: str, epoch: int | None = None) -> Holder | None:
    """End a lease whose holder is known to be dead; who that was. With an epoch, only that taking is ended."""
    while True:
        document = documents.get(SPACE, name)
        holder = Holder.of(document, documents.now())
        if holder is None or epoch not in (None, holder.epoch):
            return None
        if documents.swap(SPACE, name, document, holder.released().document):
            return holder


def describe(documents: Documents, name: str) -> Holder | None:
    """Who holds a lease, or held it until it expired; none where it is free."""
    return Holder.of(documents.get(SPACE, name), documents.now())


def _take(documents: Documents, name: str, *, owner: str, seconds: float, what: str = "", steal: bool = False) -> Lease:
    if not owner or seconds <= 0:
        raise ValueError(f"the lease {name!r} has the owner {owner!r} for {seconds} s, expected a name and a time")
    while True:
        document, now = documents.get(SPACE, name), documents.now()
        verdict = decide(document, owner, now, steal=steal)
        if isinstance(verdict, Refused):
            raise _taken(name, verdict.holder)
        holder = Holder(owner, verdict.epoch, now, now + timedelta(seconds=seconds), what)
        if documents.swap(SPACE, name, document, holder.document):
            if verdict.before is not None:
                log.warning("lease taken over", lease=name, owner=owner, before=verdict.before.owner)
            return Lease(documents, name, holder, seconds)


def _taken(name: str, holder: Holder) -> LeaseTaken:
    purpose = f" for {holder.what}" if holder.what else ""
    return LeaseTaken(
        f"the lease {name!r} is held by {holder.owner}{purpose} since {_said(holder.since)}, "
        f"until {_said(holder.until)} unless it is renewed",
        hint="wait until it ends; if its holder is dead, take it with --steal",
    )


def _lost(name: str, holder: Holder, found: Holder | None) -> LeaseLost:
    other = f"{found.owner} holds it since {_said(found.since)}" if found else "it was released by another one"
    return LeaseLost(
        f"{holder.owner} lost the lease {name!r}, which it held since {_said(holder.since)}: {other}",
        hint="run it again when the lease is free",
    )


def _said(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
