"""Targets of a query: the protocol, and the target that runs it in this process.

Queries run in another thread, because only the main thread receives Ctrl-C and must stay free to cancel them.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from neve.promql.engine import Result as PromQLResult
    from neve.query.execution import RunningQuery
    from neve.query.request import Request
    from neve.query.service import QueryService


CANCEL_SECONDS = 5  # that a cancelled query may take to end before it is abandoned

Result = TypeVar("Result")


def wait_for(work: Callable[[], Result], cancel: Callable[[], None]) -> Result:
    """Run `work` in another thread and return its result; Ctrl-C calls `cancel` and is raised after the work ends."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def do() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again in the waiting thread
            errors.append(error)
        finally:
            ended.put(None)

    # A join that Ctrl-C interrupts would report the thread as ended, and it can leave an `Event` with a broken lock.
    ended: SimpleQueue[None] = SimpleQueue()
    threading.Thread(target=do, daemon=True).start()
    try:
        ended.get()
    except KeyboardInterrupt:
        cancel()
        with suppress(Empty):
            ended.get(timeout=CANCEL_SECONDS)
        raise
    if errors:
        raise errors[0]
    return results[0]


@dataclass(frozen=True)
class Answer:
    """A streamed result, and its statistics once it was read."""

    reader: pa.RecordBatchReader
    statistics: Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class PromQLTarget:
    """Evaluates PromQL in this process, in another thread as above."""

    service: QueryService
    step_ms: int | None
    note: Callable[[str], None]

    def ask(self, request: Request) -> Answer:
        """Return the answer to a request. Warnings and infos are notes."""
        from neve.app.query.promql import evaluate, tabulate
        from neve.query.engine_errors import planning_errors

        def work() -> PromQLResult:
            with planning_errors():
                return evaluate(self.service, request, self.step_ms)

        result = wait_for(work, lambda: None)
        for text in (*result.warnings, *result.infos):
            self.note(text)
        return Answer(tabulate(result).to_reader(), dict)

    def names(self) -> dict[str, list[str]]:
        """Return no tables: PromQL has none."""
        return {}


@dataclass(frozen=True)
class TableTarget:
    """Evaluates LogQL or TraceQL in this process, in another thread as above."""

    service: QueryService
    language: str
    step_ms: int | None

    def ask(self, request: Request) -> Answer:
        """Return the answer to a request."""
        from importlib import import_module

        from neve.query.engine_errors import planning_errors

        evaluate: Callable[..., pa.Table] = import_module(f"neve.app.query.{self.language}").evaluate

        def work() -> pa.Table:
            with planning_errors():
                return evaluate(self.service, request, self.step_ms)

        return Answer(wait_for(work, lambda: None).to_reader(), dict)

    def names(self) -> dict[str, list[str]]:
        """Return no tables: these languages have none."""
        return {}


class QueryTarget(Protocol):
    """A target that answers queries."""

    def ask(self, request: Request) -> Answer:
        """Return the answer to a request; raises `QueryError`."""

    def names(self) -> dict[str, list[str]]:
        """Return the tables, and the columns of each."""


@dataclass(frozen=True)
class LocalTarget:
    """Answers in this process, in other threads: only Python's main thread receives Ctrl-C and must stay free."""

    service: QueryService

    def ask(self, request: Request) -> Answer:
        """Return the answer to a request."""
        import pyarrow as pa

        from neve.lake.pandas_import import load_pandas, needs_pandas

        running = wait_for(lambda: self._start(request), lambda: self._cancel(request))
        if needs_pandas(running.schema):
            load_pandas()
        reader = pa.RecordBatchReader.from_batches(running.schema, self._batches(running))
        return Answer(reader, running.took)

    def names(self) -> dict[str, list[str]]:
        """Return the tables, and the columns of each."""
        return {name: schema.names for name, schema in self.service.schemas().items()}

    def _start(self, request: Request) -> RunningQuery:
        from neve.query.engine_errors import planning_errors

        with planning_errors():
            return self.service.start(request)

    def _batches(self, running: RunningQuery) -> Iterator[pa.RecordBatch]:
        batches = cast("Generator[pa.RecordBatch]", running.batches())
        try:
            while (batch := wait_for(lambda: next(batches, None), running.cancel)) is not None:
                yield batch
        finally:
            with suppress(ValueError):  # a query that Ctrl-C could not end is abandoned
                batches.close()

    def _cancel(self, request: Request) -> None:
        running = self.service.find(request.id, request.organization)
        if running is not None:
            running.cancel()
