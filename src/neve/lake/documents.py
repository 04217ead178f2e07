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
LONGEST_SPACE = 200
LONGEST_KEY = 2000
PAGE = 50  # a value may have megabytes, and a page is in memory at once
FIRST_SURROGATE, AFTER_SURROGATES = 0xD800, 0xE000


class Documents(Protocol):
    """A store of documents; whatever it can't do is a `LakeError`. Threads may share it."""

    def put(self, space: str, key: str, value: Mapping[str, object]) -> None:
        """Keep a document, in the place of what was there."""

    def get(self, space: str, key: str) -> dict[str, object] | None:
        """A document, or none."""

    def entries(self, space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
        """The documents whose keys begin so, in the order of their keys by code point.

        They are read page by page: what others change meanwhile may be seen or not.
        """

    def delete(self, space: str, key: str) -> None:
        """Forget a document, if there is one."""

    def swap(
        self, space: str, key: str, expected: Mapping[str, object] | None, value: Mapping[str, object] | None
    ) -> bool:
        """Change a document only if it is what is expected, in one step; whether it was. None stands for no document.

        After an error nobody can tell whether it was changed.
        """

    def now(self) -> datetime:
        """The time by the clock that all who share the store go by."""

    def close(self) -> None:
        """Close every connection; one that is used again opens them again."""


def dump(value: Mapping[str, object]) -> str:
    """The one text of a document: equal documents have equal texts, which is what `swap` compares."""
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def load(text: str | bytes) -> dict[str, object]:
    """The document of a text."""
    document: dict[str, object] = json.loads(text)
    return document


def check_place(space: str, key: str) -> None:
    """Raises `LakeError` for a space or a key that not every store can keep."""
    _check("space", space, 1, LONGEST_SPACE)
    _check("key", key, 1, LONGEST_KEY)


def check_prefix(space: str, prefix: str) -> None:
    """Raises `LakeError` for a space or the beginning of a key that not every store can look for."""
    _check("space", space, 1, LONGEST_SPACE)
    _check("prefix", prefix, 0, LONGEST_KEY)


def beyond(prefix: str) -> str | None:
    """The first text, by code point, after all that begin with the prefix; none where all that follow do."""
    kept = prefix.rstrip(chr(sys.maxunicode))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(AFTER_SURROGATES if following == FIRST_SURROGATE else following)


def _check(what: str, text: str, least: int, most: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = -1
    if not least <= size <= most or "\0" in text:
        raise LakeError(
            f"the {what} of a document is {text[:80]!r}, expected {least} to {most} bytes of UTF-8 without a NUL"
        )
