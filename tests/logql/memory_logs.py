"""Lines in memory: the double of the storage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.logql.pipeline.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.logql.engine import LogWindow
    from neve.logql.language.syntax import LogQuery


@dataclass
class MemoryLogs:
    """Streams with their lines. It runs no stage."""

    rows: list[tuple[int, dict[str, str], str, dict[str, str]]] = field(default_factory=list)

    def add(self, labels: Mapping[str, str], time_ns: int, line: str, metadata: Mapping[str, str]) -> None:
        """Add a line. Empty labels of streams are dropped."""
        stream = {name: value for name, value in labels.items() if value}
        self.rows.append((time_ns, stream, line, dict(metadata)))

    def read_groups(self, *_arguments: object) -> None:
        """Group no lines."""

    def read(self, query: LogQuery, window: LogWindow, limit: int | None) -> Iterator[list[Entry]]:
        """Yield the lines of streams that match."""
        found = [
            Entry.make(time_ns, line, stream, metadata)
            for time_ns, stream, line, metadata in self.rows
            if window.start_ns <= time_ns < window.end_ns
            and all(one.matches(stream.get(one.name, "")) for one in query.matchers)
        ]
        yield sorted(found, key=lambda one: one.time_ns, reverse=not window.is_forward)
