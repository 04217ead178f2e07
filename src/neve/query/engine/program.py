"""Programs: functions of other packages that run in a worker process and read the lake by SQL statements.

The server plans each statement, with the tenancy and the limits of the caller. The worker runs it on its own DuckDB, so
that rows reach the function without a copy through the server. A function is given by its name, because this package
does not know the languages that are evaluated in its workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from neve.errors import EvaluationFailed, InvalidExpression, LimitExceeded, QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.query.engine.duckdb import Write

# Errors that keep their class on the way from a worker to its server, the most special first.
ERRORS: tuple[type[QueryError], ...] = (LimitExceeded, InvalidExpression, EvaluationFailed, QueryError)


@dataclass(frozen=True)
class Program:
    """Function `module:name`, with arguments that JSON can express.

    `tables` are the tables that it reads. A program with the same `cache_text` on the same tables has the same result.
    Without one, its result is not cached.
    """

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    cache_text: str | None = None


@dataclass(frozen=True)
class StatementRequest:
    """SQL statement that a running program needs, within a half-open time range."""

    sql: str
    parameters: Sequence[Any] = ()
    since: datetime | None = None
    until: datetime | None = None

    def as_document(self) -> dict[str, Any]:
        """Return the request for the channel."""
        since, until = (None if time is None else time.isoformat() for time in (self.since, self.until))
        return {"sql": self.sql, "parameters": list(self.parameters), "since": since, "until": until}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> StatementRequest:
        """Return the request that a channel carried."""
        times = (None if text is None else datetime.fromisoformat(text) for text in map(document.get, _TIMES))
        return cls(document["sql"], document["parameters"], *times)


_TIMES = ("since", "until")
PlanStatement = Callable[[StatementRequest], "Write"]


@dataclass(frozen=True)
class ProgramContext:
    """Access of a running program to the lake, and its memory. `check` raises if the program was interrupted."""

    run: Callable[[StatementRequest], pa.RecordBatchReader]
    memory_bytes: int
    check: Callable[[], None] = lambda: None

    def read(
        self, sql: str, parameters: Sequence[Any] = (), since: datetime | None = None, until: datetime | None = None
    ) -> pa.RecordBatchReader:
        """Run a statement within a half-open time range. Its rows must be read before the next statement starts."""
        return self.run(StatementRequest(sql, parameters, since, until))


Function = Callable[[Mapping[str, Any], ProgramContext], "Iterator[pa.RecordBatch]"]


def load_function(name: str) -> Function:
    """Import the function of a program."""
    module, _, attribute = name.partition(":")
    found: Function = getattr(import_module(module), attribute)
    return found


def find_error_class(error: Exception) -> type[QueryError] | None:
    """Return the class by which an error reaches the server, or `None` if it is not an error of a query."""
    return next((one for one in ERRORS if isinstance(error, one)), None)


def build_error(name: str, message: str, hint: str | None, limit: str) -> QueryError | None:
    """Return an error of a query by the name of its class, or `None` if there is no such class."""
    if name == LimitExceeded.__name__:
        return LimitExceeded(message, limit=limit, hint=hint)
    found = next((one for one in ERRORS if one.__name__ == name), None)
    return None if found is None else found(message, hint=hint)
