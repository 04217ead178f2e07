"""Programs: functions of other packages that run in a worker process and read the lake by SQL statements.

The server plans each statement, with the tenancy and the limits of the caller. The worker runs it on its own DuckDB, so
that rows reach the function without a copy through the server. A function is given by its name, because this package
does not know the languages that are evaluated in its workers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from neve.errors import EvaluationFailed, InvalidExpression, LimitExceeded, QueryError, TraceMissing

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.query.engine.duckdb import Write

# Errors that keep their class on the way from a worker to its server, the most special first.
ERRORS: tuple[type[QueryError], ...] = (LimitExceeded, InvalidExpression, EvaluationFailed, TraceMissing, QueryError)

KEPT_BYTES = 64 * 1024 * 1024
# The table of a rollup, the seconds of its windows, and the ranges of microseconds in which it is final and up to date.
CurrentRollup = tuple[str, int, Sequence[tuple[int, int]]]
TableVersions = tuple[tuple[str, str], ...]  # names and versions of tables


@dataclass(frozen=True)
class Program:
    """Function `module:name`, with arguments that JSON can express.

    `tables` are the tables that it reads. A program with the same `cache_text` on the same tables has the same result.
    Without one, its result is not cached. `versions` and `rollups` are those of the tables when it runs.
    """

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    cache_text: str | None = None
    versions: TableVersions = ()
    rollups: Sequence[CurrentRollup] = ()


@dataclass(frozen=True)
class StatementRequest:
    """SQL statement that a running program needs, within a half-open time range.

    `only_new_files` is that of `Request`.
    """

    sql: str
    parameters: Sequence[Any] | Mapping[str, Any] = ()
    since: datetime | None = None
    until: datetime | None = None
    only_new_files: bool = False

    def as_document(self) -> dict[str, Any]:
        """Return the request for the channel."""
        since, until = (None if time is None else time.isoformat() for time in (self.since, self.until))
        return {
            "sql": self.sql,
            "parameters": dict(self.parameters) if isinstance(self.parameters, Mapping) else list(self.parameters),
            "since": since,
            "until": until,
            "only_new_files": self.only_new_files,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> StatementRequest:
        """Return the request that a channel carried."""
        since, until = (None if text is None else datetime.fromisoformat(text) for text in map(document.get, _TIMES))
        return cls(document["sql"], document["parameters"], since, until, document["only_new_files"])


_TIMES = ("since", "until")
PlanStatement = Callable[[StatementRequest], "Write"]


class KeptValues:
    """Values that programs keep in a process for the next ones of the same organization, on the same tables.

    Another organization drops all of them, so that a process never has values of two. Another version of a table drops
    those of the version before. The least recently used value is dropped first.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._size = 0
        self._organization = ""
        self._versions: TableVersions = ()
        self._values: OrderedDict[tuple[TableVersions, Hashable], tuple[Any, int]] = OrderedDict()

    def enter(self, organization: str, versions: TableVersions | None) -> None:
        """Begin work for an organization: a program on versions of its tables, or a statement, which keeps nothing."""
        if organization != self._organization:
            self._organization, self._size = organization, 0
            self._values.clear()
        if versions is None:
            return
        self._versions = versions
        names = {name for name, _ in versions}
        for key in [one for one in self._values if one[0] != versions and any(name in names for name, _ in one[0])]:
            self._size -= self._values.pop(key)[1]

    def get(self, key: Hashable) -> Any:
        """Return a value, or `None`."""
        whole = (self._versions, key)
        if whole not in self._values:
            return None
        self._values.move_to_end(whole)
        return self._values[whole][0]

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Keep a value of about this size, if it takes at most half of the room."""
        whole = (self._versions, key)
        if size_bytes > self._most_bytes // 2 or whole in self._values:
            return
        self._values[whole] = value, size_bytes
        self._size += size_bytes
        while self._size > self._most_bytes:
            _, (_, size) = self._values.popitem(last=False)
            self._size -= size


@dataclass(frozen=True)
class ProgramContext:
    """Access of a running program to the lake, its memory, and values that it may keep.

    `check` raises if the program was interrupted. `rollups` are those of its organization.
    """

    run: Callable[[StatementRequest], pa.RecordBatchReader]
    memory_bytes: int
    check: Callable[[], None] = lambda: None
    kept: KeptValues = field(default_factory=KeptValues)
    rollups: Sequence[CurrentRollup] = ()

    def read(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        only_new_files: bool = False,
    ) -> pa.RecordBatchReader:
        """Run a statement within a half-open time range. Its rows must be read before the next statement starts."""
        return self.run(StatementRequest(sql, parameters, since, until, only_new_files))


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
