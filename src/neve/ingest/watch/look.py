"""Look at announced files before they are read: a bounded number of requests at a time, and none to a dead store.

Whoever announces files chooses which hosts are asked for them. One that does not answer is left alone after a few
requests, for the organization that announced its files, and nobody else waits for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.ingest.files.find import SourceFile, look_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.lake.config import S3Config

AT_ONCE = 8
MOST_FAULTS = 3  # requests to one bucket for one organization that may fail before the others are put off

Wish = tuple[str, str]  # an organization and the path of a file


@dataclass(frozen=True)
class Gone:
    """A file that is not there or may not be read, and why: another attempt would not help."""

    reason: str


@dataclass(frozen=True)
class Fault:
    """A fault that may pass, in words; `tried` is false where no request was sent because others had failed."""

    reason: str
    tried: bool = True


Looked = SourceFile | Gone | Fault


def look_at_all(wishes: Iterable[Wish], s3: S3Config) -> dict[Wish, Looked]:
    """What each file is now."""
    looker = _Looker(s3)
    wanted = list(wishes)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="look") as pool:
        return dict(zip(wanted, pool.map(looker.look, wanted), strict=True))


@dataclass
class _Looker:
    s3: S3Config
    faults: Counter[Wish] = field(default_factory=Counter)
    last: dict[Wish, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, wish: Wish) -> Looked:
        organization, path = wish
        store = (organization, _store_of(path))
        with self.lock:
            if self.faults[store] >= MOST_FAULTS:
                return Fault(f"not tried, because {store[1]} failed before: {self.last[store]}", tried=False)
        try:
            found = look_at(path, self.s3)
        except OSError as error:
            with self.lock:
                self.faults[store] += 1
                self.last[store] = str(error)
            return Fault(str(error))
        return Gone(found) if isinstance(found, str) else found


def _store_of(path: str) -> str:
    """What fails as a whole: a bucket, or the folder of a file on this machine."""
    scheme, separator, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else path.rpartition("/")[0]
