"""Whom a query is asked of: this process, or a server."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from neve.cli.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from neve.query.request import Request
    from neve.query.running import Running
    from neve.query.service import QueryService


@dataclass(frozen=True)
class Answer:
    """A result as it comes, and what it took, once it was read."""

    reader: pa.RecordBatchReader
    statistics: Callable[[], dict[str, Any]]


class Asked(Protocol):
    """Who answers."""

    def ask(self, request: Request) -> Answer:
        """The answer to a request; raises `QueryError`."""

    def names(self) -> dict[str, list[str]]:
        """The tables, and the columns of each."""


@dataclass(frozen=True)
class Here:
    """Answers in this process, in other threads: only Python's main thread hears Ctrl-C, and must be free to."""

    service: QueryService

    def ask(self, request: Request) -> Answer:
        """The answer to a request."""
        import pyarrow as pa

        running = wait_for(lambda: self._start(request), lambda: self._cancel(request))
        reader = pa.RecordBatchReader.from_batches(running.schema, self._batches(running))
        return Answer(reader, running.took)

    def names(self) -> dict[str, list[str]]:
        """The tables, and the columns of each."""
        return {name: schema.names for name, schema in self.service.schemas().items()}

    def _start(self, request: Request) -> Running:
        from neve.query.failures import planning

        with planning():
            return self.service.start(request)

    def _batches(self, running: Running) -> Iterator[pa.RecordBatch]:
        batches = cast("Generator[pa.RecordBatch]", running.batches())
        try:
            while (batch := wait_for(lambda: next(batches, None), running.cancel)) is not None:
                yield batch
        finally:
            with suppress(ValueError):  # one that Ctrl-C could not end is left behind
                batches.close()

    def _cancel(self, request: Request) -> None:
        running = self.service.find(request.id, request.organization)
        if running is not None:
            running.cancel()
