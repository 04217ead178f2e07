"""Audit log: entries wait in the state store until `neve serve` commits them to the table `audit`.

An entry is durable before the changed command or request responds. Refused logins are counted in memory and stored at
intervals, a bounded number of entries each time. A client that guesses keys fills neither the store nor the lake.
"""

from __future__ import annotations

import getpass
import secrets
import socket
import threading
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.errors import LakeError
from neve.logger import get_logger
from neve.model.settings import LAKE_OWNER
from neve.state.scopes import SUBJECT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from neve.state.documents import Documents

CHANGES, REFUSALS = "audit", "audit-refused"  # spaces of the state store
REFUSED = "login.refuse"
MAX_TEXT = 1000  # characters of one value
MAX_GROUPS = 30  # of refused logins, in one interval of a process; the others are counted together
MAX_WAITING_REFUSALS = 1000  # in the state store; further ones are dropped until they are committed
REFUSALS_SECONDS = 60.0
EPOCH = datetime.fromtimestamp(0, UTC)

log = get_logger("neve.audit")


@dataclass(frozen=True)
class AuditEntry:
    """One entry: who did what, when, from where. `organization` is the tenant that it concerns."""

    id: str
    at: datetime
    action: str
    actor: str = ""
    origin: str = ""
    subject: str = ""
    organization: str = LAKE_OWNER
    occurrences: int = 1
    details: Mapping[str, str] = field(default_factory=dict)

    @property
    def document(self) -> dict[str, object]:
        """Return the document for the store."""
        return {**asdict(self), "at": self.at.isoformat()}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> AuditEntry:
        """Decode a document; keys of a newer release are ignored."""
        fields = {name: document[name] for name in cls.__dataclass_fields__ if name in document}
        return cls(**{**fields, "at": datetime.fromisoformat(fields["at"])})


def new_entry_id(now: datetime) -> str:
    """Return a unique id. Ids are in the order of time."""
    return f"{(now - EPOCH) // timedelta(microseconds=1):014x}{secrets.token_hex(4)}"


def truncate_value(value: object) -> str:
    r"""Return a value as text that can be stored and printed on one line.

    >>> truncate_value("a\nb\ud800"), len(truncate_value("x" * 5000))
    ('a b?', 1001)
    """
    text = " ".join(str(value)[: 2 * MAX_TEXT].encode("utf-8", "replace").decode().split())
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


class AuditLog:
    """The entries of a state store that are not in the table yet."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def record(
        self,
        action: str,
        *,
        actor: str,
        origin: str,
        subject: str = "",
        organization: str = LAKE_OWNER,
        details: Mapping[str, object] | None = None,
    ) -> AuditEntry:
        """Store an entry. It is durable when this returns; raises `LakeError` if the store fails."""
        now = self._documents.now()
        facts = {name: truncate_value(value) for name, value in (details or {}).items() if value not in (None, "")}
        entry = AuditEntry(
            new_entry_id(now),
            now,
            action,
            truncate_value(actor),
            truncate_value(origin),
            truncate_value(subject),
            organization,
            details=facts,
        )
        self._documents.put(CHANGES, entry.id, entry.document)
        return entry

    def waiting(self) -> Iterator[tuple[str, AuditEntry]]:
        """Yield each entry that is not in the table yet, with its space: changes first, each by time."""
        for space in (CHANGES, REFUSALS):
            for _key, document in self._documents.entries(space):
                yield space, AuditEntry.of(document)

    def store_refusals(self, entries: list[AuditEntry]) -> int:
        """Store entries of refused logins as far as there is room, and return their number."""
        waiting = sum(1 for _entry in self._documents.entries(REFUSALS))
        stored = entries[: max(0, MAX_WAITING_REFUSALS - waiting)]
        for entry in stored:
            self._documents.put(REFUSALS, entry.id, entry.document)
        return len(stored)


def current_user() -> str:
    """Return the name of the user at the terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user id without a name
        return "someone"


def record_command(
    documents: Documents, action: str, subject: str = "", organization: str = LAKE_OWNER, **facts: object
) -> AuditEntry:
    """Record a change by a command on this machine."""
    return AuditLog(documents).record(
        action,
        actor=f"user {current_user()}",
        origin=socket.gethostname(),
        subject=subject,
        organization=organization,
        details=facts,
    )


def describe_actor(key_id: str, certificate: str = "") -> str:
    """Return who made a request: the key or the subject of a token, else the client's certificate, else nothing.

    >>> describe_actor("0123456789ab"), describe_actor("subject:alice", "laptop"), describe_actor("", "billing")
    ('key 0123456789ab', 'subject alice', 'certificate billing')
    """
    if key_id.startswith(SUBJECT_PREFIX):
        return f"subject {truncate_value(key_id.removeprefix(SUBJECT_PREFIX))}"
    if key_id:
        return f"key {key_id}"
    return f"certificate {truncate_value(certificate)}" if certificate else ""


Group = tuple[str, str, str, str, str]  # organization, key id, network, reason, name of the client's certificate


class RefusedLogins:
    """Counter of refused logins, which a thread stores at intervals."""

    def __init__(
        self,
        audit: AuditLog,
        place: str,
        *,
        seconds: float = REFUSALS_SECONDS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._audit = audit
        self._place = place
        self._now = now
        self._groups: dict[Group, tuple[int, datetime]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(seconds,), name="refused-logins", daemon=True)
        self._thread.start()

    def count(
        self, reason: str, network: str = "", organization: str = "", key_id: str = "", certificate: str = ""
    ) -> None:
        """Count a refused login. Never waits for the store."""
        group = (organization or LAKE_OWNER, key_id, network, reason, certificate[:MAX_TEXT])
        with self._lock:
            if group not in self._groups and len(self._groups) >= MAX_GROUPS:
                group = (LAKE_OWNER, "", "", reason, "")
            number, _last = self._groups.get(group, (0, None))
            self._groups[group] = (number + 1, self._now())

    def close(self) -> None:
        """Store what was counted, and stop."""
        self._closing.set()
        self._thread.join()

    def _run(self, seconds: float) -> None:
        while not self._closing.wait(seconds):
            self.store()
        self.store()

    def store(self) -> None:
        """Store an entry for each group. While the store fails, the counts are kept."""
        with self._lock:
            groups, self._groups = self._groups, {}
        if not groups:
            return
        entries = [self._entry(group, number, last) for group, (number, last) in groups.items()]
        try:
            stored = self._audit.store_refusals(entries)
        except LakeError as error:
            log.warning("refused logins are not stored yet", error=error.message)
            self._put_back(groups)
            return
        if stored < len(entries):
            lost = sum(entry.occurrences for entry in entries[stored:])
            log.warning("refused logins are not in the audit log: too many wait for their commit", logins=lost)

    def _entry(self, group: Group, number: int, last: datetime) -> AuditEntry:
        organization, key_id, network, reason, certificate = group
        return AuditEntry(
            new_entry_id(last),
            last,
            REFUSED,
            actor=describe_actor(key_id, certificate),
            origin=network,
            subject=self._place,
            organization=organization,
            occurrences=number,
            details={"reason": reason, **({"certificate": certificate} if certificate else {})},
        )

    def _put_back(self, groups: dict[Group, tuple[int, datetime]]) -> None:
        with self._lock:
            for group, (number, last) in groups.items():
                before, _later = self._groups.get(group, (0, last))
                self._groups[group] = (before + number, max(last, _later))
