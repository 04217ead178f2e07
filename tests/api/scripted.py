"""A query service whose results are made by the test: for what a door does with slow, endless and broken ones."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.query.execution import RunningQuery
from neve.query.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.query.request import QueryLogEntry, Request

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def batch(number: int, rows: int = 10, text: str = "x") -> pa.RecordBatch:
    """Some rows."""
    return pa.record_batch([pa.array([number] * rows), pa.array([text] * rows)], schema=SCHEMA)


@dataclass
class Script:
    """A run that gives what a function makes, and notes what is done to it."""

    make: Callable[[Script], Iterator[pa.RecordBatch]]
    schema: pa.Schema = SCHEMA
    given: int = 0
    closed: bool = False
    interrupted: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Nothing to start."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What the function makes."""
        for one in self.make(self):
            self.given += 1
            yield one

    def interrupt(self) -> None:
        """Note it."""
        self.interrupted.set()

    def close(self) -> None:
        """Note it."""
        self.closed = True


@dataclass
class ScriptedService:
    """Takes every statement for one that the script answers."""

    make: Callable[[Script], Iterator[pa.RecordBatch]]
    known: list[RunningQuery] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    entries: list[QueryLogEntry] = field(default_factory=list)

    def start(self, request: Request) -> RunningQuery:
        """Begin the script."""
        running = RunningQuery(request, Limits(), self.entries.append)
        self.known.append(running)
        self.scripts.append(Script(self.make))
        try:
            running.begin(self.scripts[-1])
        except Exception as error:
            running.fail(error)
            raise
        return running

    def find(self, query_id: str, organization: str) -> RunningQuery | None:
        """One of those that were started."""
        return next((one for one in self.known if (one.id, one.organization) == (query_id, organization)), None)

    def running(self, organization: str) -> tuple[RunningQuery, ...]:
        """Those that run."""
        return tuple(one for one in self.known if one.organization == organization and one.state == "running")

    def tables(self, _organization: str) -> tuple[Any, ...]:
        """None."""
        return ()
