"""Leases: mutual exclusion among all processes that share a store of documents.

A lease expires if its holder no longer renews it, so a killed holder does not block others for long. A slow holder may
continue after another one took over: it calls `check` before it publishes its results.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from neve.errors import LakeError, LeaseLost, LeaseTaken
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from neve.state.documents import Documents


NOBODY = ""


@dataclass(frozen=True)
class LeaseHolder:
    """One acquisition of a lease. Times are the store's. `epoch` grows with each acquisition by any owner."""

    owner: str
    epoch: int
    since: datetime
    until: datetime
    what: str = ""
    expired: bool = False

    @classmethod
    def of(cls, document: Mapping[str, Any] | None, now: datetime) -> LeaseHolder | None:
        """Parse the holder in a document, and whether it has expired.

        Return None if the lease was released or never acquired.
        """
        if document is None or document["owner"] == NOBODY:
            return None
        since, until = (datetime.fromisoformat(document[name]) for name in ("since", "until"))
        return cls(document["owner"], document["epoch"], since, until, document["what"], expired=now >= until)

    @property
    def document(self) -> dict[str, object]:
        """Return the document that the store keeps."""
        return {
            "owner": self.owner,
            "epoch": self.epoch,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "what": self.what,
        }

    def is_of(self, other: LeaseHolder) -> bool:
        """Return whether both are the same acquisition, renewed or not."""
        return (self.owner, self.epoch) == (other.owner, other.epoch)

    def renew(self, now: datetime, seconds: float) -> LeaseHolder:
        """Return the same acquisition with a new expiry, `seconds` from now."""
        return replace(self, until=now + timedelta(seconds=seconds), expired=False)

    def release(self) -> LeaseHolder:
        """Return the released state. It keeps the epoch, so that the next acquisition gets a larger one."""
        return replace(self, owner=NOBODY, what="")


@dataclass(frozen=True)
class LeaseGranted:
    """The lease may be acquired with this epoch; `before` held it and did not release it."""

    epoch: int
    before: LeaseHolder | None = None


@dataclass(frozen=True)
class LeaseRefused:
    """Another owner holds the lease."""

    holder: LeaseHolder


def decide_lease(
    current: Mapping[str, Any] | None, owner: str, now: datetime, *, steal: bool = False
) -> LeaseGranted | LeaseRefused:
    """Decide whether an owner may acquire a lease with this document in the store.

    An owner may acquire its own lease again: it is the same worker after a restart.
    """
    holder = LeaseHolder.of(current, now)
    if holder is not None and holder.owner != owner and not holder.expired and not steal:
        return LeaseRefused(holder)
    last: int = current["epoch"] if current is not None else 0
    # The clock is the lower bound, so that epochs grow even if a store has lost its documents.
    return LeaseGranted(max(last + 1, int(now.timestamp() * 1000)), holder)


SPACE = "leases"
RENEWALS = 3  # renewals in the duration of a lease: two may fail before it is lost

log = get_logger(__name__)


class Lease:
    """An acquired lease: renewed in the background inside the `with` block, and released at its end."""

    def __init__(self, documents: Documents, name: str, holder: LeaseHolder, seconds: float) -> None:
        self.name = name
        self.holder = holder
        self._documents = documents
        self._seconds = seconds
        self._changing = threading.Lock()
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._keep, name=f"lease {name}", daemon=True)

    @property
    def epoch(self) -> int:
        """The number of this acquisition. Every later one has a larger number."""
        return self.holder.epoch

    def check(self) -> None:
        """Renew now, so that the lease is valid for its whole duration from here. Raises `LeaseLost` if that fails."""
        try:
            self._renew()
        except LeaseLost:
            raise
        except LakeError as error:
            raise LeaseLost(
                f"can't verify that {self.holder.owner} still holds the lease {self.name!r}: {error.message}",
                hint=error.hint,
            ) from error

    def __enter__(self) -> Self:
        self._renewer.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ended.set()
        self._renewer.join(self._seconds)
        if self._renewer.is_alive():  # it waits for a store that does not respond; this thread would wait, too
            log.warning("lease not released", lease=self.name, error="the store does not respond")
            return
        try:
            self._change(lambda holder, _now: holder.release())
        except LakeError as error:  # the lease expires by itself, and the work is done either way
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
        self.holder = self._change(lambda holder, now: holder.renew(now, self._seconds))

    def _change(self, change: Callable[[LeaseHolder, datetime], LeaseHolder]) -> LeaseHolder:
        """Change the stored document of this acquisition. Raises `LeaseLost` if the store has another one, or none.

        The document is read each time, because a change whose response was lost may have happened. An expired lease
        that no other owner acquired is still valid.
        """
        with self._changing:
            while True:
                document, now = self._documents.get(SPACE, self.name), self._documents.now()
                found = LeaseHolder.of(document, now)
                if found is None or not found.is_of(self.holder):
                    raise _lost_error(self.name, self.holder, found)
                changed = change(found, now)
                if self._documents.swap(SPACE, self.name, document, changed.document):
                    return changed


@contextmanager
def hold_worker_lease(
    documents: Documents, name: str, *, seconds: float, what: str = "", owner: str = "", steal: bool = False
) -> Iterator[Lease]:
    """Hold a lease. Raises `LeaseTaken` while another owner holds it. `what` describes its purpose to others.

    An owner is one worker: if it acquires its own lease again, the older acquisition is lost. Without a name it gets a
    unique one. `steal` acquires the lease from a holder that is known to be dead. If it is alive, it gets `LeaseLost`.
    """
    # Containers share host names and process ids. An owner with the same name as another would lose its lease to it.
    owner = owner or f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    with _acquire(documents, name, owner=owner, seconds=seconds, what=what, steal=steal) as lease:
        yield lease


def find_lease_holder(documents: Documents, name: str) -> LeaseHolder | None:
    """Return the holder of a lease, expired or not; None if the lease is free."""
    return LeaseHolder.of(documents.get(SPACE, name), documents.now())


def _acquire(documents: Documents, name: str, *, owner: str, seconds: float, what: str, steal: bool) -> Lease:
    if seconds <= 0:
        raise ValueError(f"the lease {name!r} has a duration of {seconds} s, expected more than 0")
    while True:
        document, now = documents.get(SPACE, name), documents.now()
        verdict = decide_lease(document, owner, now, steal=steal)
        if isinstance(verdict, LeaseRefused):
            raise _taken_error(name, verdict.holder)
        holder = LeaseHolder(owner, verdict.epoch, now, now + timedelta(seconds=seconds), what)
        if documents.swap(SPACE, name, document, holder.document):
            if verdict.before is not None:
                log.warning("lease taken over", lease=name, owner=owner, before=verdict.before.owner)
            return Lease(documents, name, holder, seconds)


def _taken_error(name: str, holder: LeaseHolder) -> LeaseTaken:
    purpose = f" for {holder.what}" if holder.what else ""
    return LeaseTaken(
        f"the lease {name!r} is held by {holder.owner}{purpose} since {_format_time(holder.since)}, "
        f"until {_format_time(holder.until)} unless it is renewed",
        hint="wait until it ends; if its holder is dead, take it with --steal",
    )


def _lost_error(name: str, holder: LeaseHolder, found: LeaseHolder | None) -> LeaseLost:
    other = f"{found.owner} holds it since {_format_time(found.since)}" if found else "it was released by another one"
    return LeaseLost(
        f"{holder.owner} lost the lease {name!r}, which it held since {_format_time(holder.since)}: {other}",
        hint="run it again when the lease is free",
    )


def _format_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
