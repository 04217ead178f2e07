"""Retry queue of announced files, in the state store, so that it survives a restart.

A file whose store does not respond is postponed, so that the stream continues with other events. Each attempt is
counted. A file whose attempts are exhausted is returned to the caller, which puts it into quarantine.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import xxhash

from neve.ingest.watch.events import AnnouncedFile, Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.ingest.config import WatchConfig
    from neve.state.documents import Documents

SPACE = "watch-retries"
MAX_PAUSE_SECONDS = 3600.0
READ_SECONDS = 10.0  # between two reads of the store
MAX_AT_ONCE = 500


@dataclass(frozen=True)
class WaitingFile:
    """An event that announces one file, its key in the store, and the number of attempts."""

    key: str
    event: Event
    attempts: int


@dataclass
class RetryQueue:
    """The waiting files of one stream."""

    documents: Documents
    stream: str
    lake: str  # location of the warehouse: lakes that share a state store may have streams of the same name
    config: WatchConfig
    _next_read: float = 0.0
    _counts: Counter[str] = field(default_factory=Counter)

    def postpone(self, event: Event, file: AnnouncedFile, reason: str, *, tried: bool) -> str | None:
        """Postpone a file, or return why not: no attempts are left, or too many files of its organization wait."""
        owner = event.owner(file)
        key = self.key_of(event, file.path)
        known = self.documents.get(SPACE, key) or self.documents.get(SPACE, self._old_key(key))
        attempts = (_count(known) if known else 0) + int(tried)
        if attempts >= self.config.attempts:
            return f"failed {attempts} times (watch.attempts): {reason}"
        if known is None and self._waiting(owner) >= self.config.max_waiting:
            return f"{self.config.max_waiting} files of {owner} already wait for a retry (watch.max_waiting): {reason}"
        due = self.documents.now().timestamp() + self._pause(attempts)
        self.documents.put(SPACE, key, _to_document(event, file, owner, attempts, due, reason))
        self._counts[owner] += known is None
        return None

    def due(self) -> list[WaitingFile]:
        """Return the files that are due, the longest waiting first."""
        if time.monotonic() < self._next_read:
            return []
        self._next_read = time.monotonic() + min(READ_SECONDS, self.config.retry_seconds)
        self._counts.clear()
        now = self.documents.now().timestamp()
        found = [
            (float(str(document["due"])), WaitingFile(key, _to_event(document), _count(document)))
            for key, document in self._entries()
            if float(str(document["due"])) <= now
        ]
        return [waiting for _due, waiting in sorted(found, key=lambda one: (one[0], one[1].key))[:MAX_AT_ONCE]]

    def forget(self, key: str) -> None:
        """Remove a file from the queue."""
        self.documents.delete(SPACE, key)
        self._counts.clear()

    def key_of(self, event: Event, path: str) -> str:
        """Return the key of a file in the store. It is the same when the same event is repeated."""
        digest = xxhash.xxh3_128_hexdigest(repr((event.source, event.position, path)).encode())
        return f"{self._prefix}{digest}"

    @property
    def _prefix(self) -> str:
        return f"{xxhash.xxh3_128_hexdigest(self.lake.encode())}/{self.stream}/"

    def _old_key(self, key: str) -> str:
        return f"{self.stream}/{key.removeprefix(self._prefix)}"

    def _entries(self) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the waiting files. Files that an earlier release stored by the stream alone get their key first."""
        for old_key, document in list(self.documents.entries(SPACE, f"{self.stream}/")):
            key = f"{self._prefix}{old_key.removeprefix(f'{self.stream}/')}"
            if self.documents.get(SPACE, key) is None:
                self.documents.put(SPACE, key, document)
            self.documents.delete(SPACE, old_key)
        yield from self.documents.entries(SPACE, self._prefix)

    def _waiting(self, organization: str) -> int:
        if not self._counts:
            self._counts = Counter(str(document["organization"]) for _key, document in self._entries())
        return self._counts[organization]

    def _pause(self, attempts: int) -> float:
        return min(MAX_PAUSE_SECONDS, self.config.retry_seconds * 2.0 ** max(0, min(attempts, 20) - 1))


def _to_document(
    event: Event, file: AnnouncedFile, owner: str, attempts: int, due: float, reason: str
) -> dict[str, object]:
    request = {"path": file.path, "format": file.format, "signal": file.signal or event.signal}
    return {
        "source": event.source,
        "position": event.position,
        "organization": owner,
        "payload": json.dumps({key: value for key, value in request.items() if value is not None}),
        "received_unix_nano": event.received_unix_nano,
        "attempts": attempts,
        "due": due,
        "reason": reason,
    }


def _to_event(document: Mapping[str, object]) -> Event:
    return Event(
        source=str(document["source"]),
        position=int(str(document["position"])),
        payload=str(document["payload"]).encode(),
        organization_id=str(document["organization"]),
        received_unix_nano=int(str(document["received_unix_nano"])),
    )


def _count(document: Mapping[str, object]) -> int:
    return int(str(document["attempts"]))
