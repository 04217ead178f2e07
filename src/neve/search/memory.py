"""Filters that were read, kept while there is room: data files never change, and so their filters don't either."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

Text = tuple[str, str]  # the path of a data file, and a column


@dataclass(frozen=True)
class Part:
    """The filter of the rows from `first` to before `end` of a file."""

    first: int
    end: int
    filter: bytes


class Memory:
    """The filters of texts, the least recently used of which are forgotten first; any thread may ask."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._parts: OrderedDict[Text, tuple[Part, ...]] = OrderedDict()
        self._bytes = 0
        self._changing = threading.Lock()

    def get(self, text: Text) -> tuple[Part, ...] | None:
        """What is known of a text."""
        with self._changing:
            if text in self._parts:
                self._parts.move_to_end(text)
            return self._parts.get(text)

    def put(self, text: Text, parts: tuple[Part, ...]) -> None:
        """Keep the filters of a text."""
        with self._changing:
            self._bytes += _size(parts) - _size(self._parts.pop(text, ()))
            self._parts[text] = parts
            while self._bytes > self.most_bytes:
                _text, forgotten = self._parts.popitem(last=False)
                self._bytes -= _size(forgotten)

    @property
    def bytes(self) -> int:
        """What the kept filters take."""
        return self._bytes


def _size(parts: tuple[Part, ...]) -> int:
    return sum(len(part.filter) for part in parts)
