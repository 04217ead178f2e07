"""Line on its way through a pipeline: its text and its labels.

Labels of the stream, of the line (structured metadata) and of parsers are kept apart. Parsed labels win.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.promql.labels import Labels

__all__ = ["DUPLICATE", "ERROR", "ERROR_DETAILS", "PRESERVE_ERROR", "Entry", "Hints", "sanitize_name"]

ERROR, ERROR_DETAILS, PRESERVE_ERROR = "__error__", "__error_details__", "__preserve_error__"
DUPLICATE = "_extracted"  # suffix of a parsed label that the stream or the line already has
_SPECIAL = frozenset({ERROR, ERROR_DETAILS, PRESERVE_ERROR})
_NOT_NAME = re.compile(r"[^a-zA-Z0-9_]")


def sanitize_name(key: str) -> str:
    """Return a key as a name of a label, or "" for a blank key.

    >>> sanitize_name(" http.status "), sanitize_name("2xx")
    ('http_status', '_2xx')
    """
    key = key.strip()
    if key[:1].isdigit() and key[0].isascii():
        key = f"_{key}"
    return _NOT_NAME.sub("_", key)


@dataclass(frozen=True, slots=True)
class Hints:
    """Labels that a metric query needs. `required` is `None` if it needs all that parsers find."""

    required: frozenset[str] | None = None
    needs_none: bool = False

    @property
    def preserves_error(self) -> bool:
        """Return whether the query names the error, so that it is a label like others."""
        return self.required is not None and ERROR in self.required

    def wants(self, name: str) -> bool:
        """Return whether a parser should extract a label."""
        return self.required is None or name in self.required

    def wants_prefix(self, prefix: str) -> bool:
        """Return whether a label with this beginning may be needed."""
        return self.required is None or any(name.startswith(prefix) for name in self.required)


ALL_LABELS = Hints()


@dataclass(slots=True)
class Entry:
    """Line with its time and its labels while stages change them."""

    time_ns: int
    line: str
    stream: Mapping[str, str]
    metadata: dict[str, str]
    parsed: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    extracted: set[str] = field(default_factory=set)
    error: str = ""
    details: str = ""

    @staticmethod
    def make(time_ns: int, line: str, stream: Mapping[str, str], metadata: Mapping[str, str]) -> Entry:
        """Return a line with structured metadata, whose names give way to those of the stream."""
        entry = Entry(time_ns, line, stream, {})
        for name, value in metadata.items():
            if name == ERROR:
                entry.error = value
            elif name == ERROR_DETAILS:
                entry.details = value
            else:
                entry.metadata[f"{name}{DUPLICATE}" if name in stream else name] = value
        return entry

    def get(self, name: str) -> str | None:
        """Return the value of a label, or `None`."""
        if name in self.metadata:
            return self.metadata[name]
        if name in self.parsed:
            return self.parsed[name]
        if name in self.deleted:
            return None
        return self.stream.get(name) or None

    def value(self, name: str) -> str:
        """Return the value of a label for comparisons of text, or ""."""
        return self.error if name == ERROR else self.get(name) or ""

    def set(self, name: str, value: str) -> None:
        """Set a parsed label."""
        self.metadata.pop(name, None)
        self.parsed[name] = value
        self.extracted.add(name)

    def delete(self, name: str) -> None:
        """Remove a label."""
        self.metadata.pop(name, None)
        self.parsed.pop(name, None)
        self.deleted.add(name)

    def has_below(self, name: str) -> bool:
        """Return whether the stream or the line has a label, so that a parsed one needs another name."""
        return bool(self.stream.get(name)) or name in self.metadata

    def fail(self, error: str, details: str, hints: Hints = ALL_LABELS) -> None:
        """Set the error of a parser."""
        self.error = error
        self.details = details or self.details
        if hints.preserves_error:
            self.set(PRESERVE_ERROR, "true")

    def fail_softly(self, error: str, details: str) -> None:
        """Set an error unless there is one already."""
        if not self.error:
            self.error, self.details = error, details

    def is_complete(self, hints: Hints) -> bool:
        """Return whether parsers have nothing to do."""
        return hints.needs_none or (bool(hints.required) and hints.required <= self.extracted)  # type: ignore[operator]  # a set

    def name_for(self, name: str, hints: Hints) -> str | None:
        """Return the name for a parsed label, or `None` if it is not wanted or known already."""
        if self.has_below(name):
            name = f"{name}{DUPLICATE}"
        return name if hints.wants(name) and name not in self.extracted else None

    def labels(self) -> dict[str, str]:
        """Return all labels, with the error."""
        found = {name: value for name, value in self.stream.items() if name not in self.deleted}
        found |= self.metadata
        found |= self.parsed
        found |= dict(self.errors())
        return found

    def errors(self) -> Iterator[tuple[str, str]]:
        """Yield the labels of the error."""
        if self.error:
            yield ERROR, self.error
        if self.details:
            yield ERROR_DETAILS, self.details

    def names(self) -> list[str]:
        """Return the names of all labels but those of errors."""
        return [name for name in self.labels() if name not in _SPECIAL]

    def group(self, names: frozenset[str], *, is_without: bool, is_single: bool) -> Labels:
        """Return the labels of the sample's series. An error keeps all labels, so that it is reported."""
        if self.error:
            return tuple(sorted(self.labels().items()))
        if is_single:
            return ()
        labels = self.labels()
        if not names:
            return tuple(sorted(labels.items()))
        if is_without:
            return tuple(sorted(pair for pair in labels.items() if pair[0] not in names))
        return tuple(sorted(pair for pair in labels.items() if pair[0] in names and pair[0] not in self.deleted))
