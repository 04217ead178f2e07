"""Programs: functions of other packages that run in a worker process and read the lake by SQL statements.

The server plans each statement, with the tenancy and the limits of the caller. The worker runs it on its own DuckDB, so
that rows reach the function without a copy through the server. A function is given by its name, because this package
does not know the languages that are evaluated in its workers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
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
# The table of a rollup, the seconds of its windows, the ranges of microseconds in which it is final and up to date, and
# the version of the table.
CurrentRollup = tuple[str, int, Sequence[tuple[int, int]], str]
TableVersions = tuple[tuple[str, str], ...]  # names and versions of tables
GROWING = frozenset({"metrics"})  # tables whose older values a program may complete


@dataclass(frozen=True)
class Program:
    """Function `module:name`, with arguments that JSON can express.

    `tables` are the tables that it reads. A program with the same `cache_text` on the same tables has the same result.
    Without one, its result is not cached. `versions` and `rollups` are those of the tables when it runs.
    `grown_from` are earlier versions of tables whose rows are all in the current one.
    """

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    cache_text: str | None = None
    versions: TableVersions = ()
    rollups: Sequence[CurrentRollup] = ()
    grown_from: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class StatementRequest:
    """SQL statement that a running program needs, within a half-open time range.

    `only_new_files` and `added_since` are those of `Request`.
    """

    sql: str
    parameters: Sequence[Any] | Mapping[str, Any] = ()
    since: datetime | None = None
    until: datetime | None = None
    only_new_files: bool = False
    added_since: Mapping[str, str] = field(default_factory=dict)

    def as_document(self) -> dict[str, Any]:
        """Return the request for the channel."""
        since, until = (None if time is None else time.isoformat() for time in (self.since, self.until))
        return {
            "sql": self.sql,
            "parameters": dict(self.parameters) if isinstance(self.parameters, Mapping) else list(self.parameters),
            "since": since,
            "until": until,
            "only_new_files": self.only_new_files,
            "added_since": dict(self.added_since),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> StatementRequest:
        """Return the request that a channel carried."""
        since, until = (None if text is None else datetime.fromisoformat(text) for text in map(document.get, _TIMES))
        return cls(
            document["sql"],
            document["parameters"],
            since,
            until,
            document["only_new_files"],
            document["added_since"],
        )


_TIMES = ("since", "until")
PlanStatement = Callable[[StatementRequest], "Write"]


@dataclass(frozen=True, slots=True)
class _KeptValue:
    """A value, its size, and the versions of the tables that it was made from."""

    value: Any
    size_bytes: int
    versions: TableVersions


class KeptValues:
    """Values that programs keep in a process for the next ones of the same organization.

    Another organization drops all of them, so that a process never has values of two. A value is current on the
    versions of the tables that it was made from. On later versions of tables that have only grown, it is an older
    value, which a program may complete. Any other change drops it. The least recently used value is dropped first.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._size = 0
        self._organization = ""
        self._versions: TableVersions = ()
        self._values: OrderedDict[tuple[tuple[str, ...], Hashable], _KeptValue] = OrderedDict()

    def enter(
        self,
        organization: str,
        versions: TableVersions | None,
        grown_from: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Begin work for an organization: a program on versions of its tables, or a statement, which keeps nothing.

        `grown_from` is that of `Program`.
        """
        if organization != self._organization:
            self._organization, self._size = organization, 0
            self._values.clear()
        if versions is None:
            return
        self._versions = versions
        current = dict(versions)
        known = {name: {*older, current.get(name)} for name, older in (grown_from or {}).items()}
        for key, kept in list(self._values.items()):
            is_same = kept.versions == versions
            if not is_same and any(name in current for name, _ in kept.versions) and not _has_grown(kept, known):
                self._drop(key)

    def get(self, key: Hashable) -> Any:
        """Return a current value, or `None`."""
        kept = self._find(key)
        return kept.value if kept is not None and kept.versions == self._versions else None

    def get_older(self, key: Hashable) -> tuple[Any, dict[str, str]] | None:
        """Return an older value, and the versions that it has of the tables that have grown since, or `None`.

        Other tables may have changed, too. It is for values that only depend on tables that grow.
        """
        kept = self._find(key)
        if kept is None or kept.versions == self._versions:
            return None
        current = dict(self._versions)
        return kept.value, {name: one for name, one in kept.versions if name in GROWING and one != current.get(name)}

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Keep a value of about this size, if it takes at most half of the room."""
        whole = (_names(self._versions), key)
        kept = self._values.get(whole)
        if kept is not None and kept.versions == self._versions:
            return
        if kept is not None:
            self._drop(whole)
        if size_bytes > self._most_bytes // 2:
            return
        self._values[whole] = _KeptValue(value, size_bytes, self._versions)
        self._size += size_bytes
        while self._size > self._most_bytes:
            self._drop(next(iter(self._values)))

    def _find(self, key: Hashable) -> _KeptValue | None:
        whole = (_names(self._versions), key)
        kept = self._values.get(whole)
        if kept is not None:
            self._values.move_to_end(whole)
        return kept

    def _drop(self, whole: tuple[tuple[str, ...], Hashable]) -> None:
        self._size -= self._values.pop(whole).size_bytes


def _names(versions: TableVersions) -> tuple[str, ...]:
    return tuple(name for name, _ in versions)


def _has_grown(kept: _KeptValue, known: Mapping[str, Collection[str | None]]) -> bool:
    """Return whether the tables that grow still have all rows of a value."""
    growing = [(name, version) for name, version in kept.versions if name in GROWING]
    return bool(growing) and all(version in known.get(name, ()) for name, version in growing)


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
        added_since: Mapping[str, str] | None = None,
    ) -> pa.RecordBatchReader:
        """Run a statement within a half-open time range. Its rows must be read before the next statement starts."""
        return self.run(StatementRequest(sql, parameters, since, until, only_new_files, added_since or {}))


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
