"""Documents: small JSON values that several processes share, each under a key in a space of its own."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Protocol

from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

# Both together fit into an entry of PostgreSQL's index; in bytes of UTF-8.
MAX_SPACE_BYTES = 200
MAX_KEY_BYTES = 2000
PAGE = 50  # a value may have megabytes, and a whole page is in memory
FIRST_SURROGATE, AFTER_SURROGATES = 0xD800, 0xE000


class Documents(Protocol):
    """A store of documents. Failures raise `LakeError`. Threads may share it."""

    def put(self, space: str, key: str, value: Mapping[str, object]) -> None:
        """Store a document and replace an existing one."""

    def get(self, space: str, key: str) -> dict[str, object] | None:
        """Return a document, or None."""

    def entries(self, space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the documents whose keys have a prefix, ordered by key (by code point).

        They are read page by page, so concurrent changes may be visible or not.
        """

    def delete(self, space: str, key: str) -> None:
        """Delete a document, if it exists."""

    def swap(
        self, space: str, key: str, expected: Mapping[str, object] | None, value: Mapping[str, object] | None
    ) -> bool:
        """Replace a document atomically if it equals `expected`. Return whether it did. None means no document.

        After an error it is unknown whether the document was changed.
        """

    def now(self) -> datetime:
        """Return the time of the clock that all users of the store share."""

    def close(self) -> None:
        """Close every connection. The next call opens new ones."""


def dump_document(value: Mapping[str, object]) -> str:
    """Serialize a document canonically: equal documents have equal texts, which `swap` compares."""
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def load_document(text: str | bytes) -> dict[str, object]:
    """Parse the text of a document."""
    document: dict[str, object] = json.loads(text)
    return document


def check_place(space: str, key: str) -> None:
    """Raise `LakeError` for a space or a key that not every store accepts."""
    _check_text("space", space, 1, MAX_SPACE_BYTES)
    _check_text("key", key, 1, MAX_KEY_BYTES)


def check_prefix(space: str, prefix: str) -> None:
    """Raise `LakeError` for a space or a key prefix that not every store accepts."""
    _check_text("space", space, 1, MAX_SPACE_BYTES)
    _check_text("prefix", prefix, 0, MAX_KEY_BYTES)


def find_prefix_end(prefix: str) -> str | None:
    """Return the first text, by code point, after all texts with the prefix; None if there is no such text."""
    stem = prefix.rstrip(chr(sys.maxunicode))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(AFTER_SURROGATES if following == FIRST_SURROGATE else following)


def _check_text(what: str, text: str, least: int, most: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = -1
    if not least <= size <= most or "\0" in text:
        raise LakeError(
            f"the {what} of a document is {text[:80]!r}, expected {least} to {most} bytes of UTF-8 without a NUL"
        )
