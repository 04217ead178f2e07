"""What a workload asks for: columns by how they are filtered, joined and sorted by, and the queries that come again.

Engines count bytes in their own ways, ClickHouse after decompression for one: bytes are never added up over engines. A
share is taken within each engine, and shares are weighed by how many of the queries an engine answered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.autopilot.parse.trees import leaves_of
from neve.autopilot.privacy import fingerprint, redacted
from neve.autopilot.sources.expressions import MASKED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.autopilot.workload import Query, TableUse

DIALECTS = {"trino": "trino", "clickhouse": "clickhouse", "spark": "spark", "neve": "duckdb", "iceberg": "duckdb"}
ORDER, JOIN = "order", "join"
MOST_FINGERPRINTS = 20_000
Key = tuple[str, str, str]  # column, kind and function


@dataclass(frozen=True)
class Pattern:
    """One way in which a column is used; `kind` is a test's, `order` or `join`."""

    column: str
    kind: str
    function: str
    queries: int
    share_of_queries: float  # of all that read the table
    weight: float  # share of bytes within each engine, engines by their queries
    bytes_by_engine: Mapping[str, int]

    def as_document(self) -> dict[str, Any]:
        """For programs; there are no values in it."""
        return {**vars(self), "bytes_by_engine": dict(self.bytes_by_engine)}


@dataclass(frozen=True)
class TablePatterns:
    """How a table is used."""

    table: str
    queries: int
    queries_by_engine: Mapping[str, int]
    bytes_by_engine: Mapping[str, int]
    patterns: tuple[Pattern, ...]  # the heaviest first

    def share(self, column: str, *kinds: str) -> float:
        """The greatest share of queries that use a column in one of some ways; without one, that filter by it."""
        wanted = [one for one in self.patterns if one.column == column]
        chosen = [one for one in wanted if (one.kind in kinds if kinds else one.kind not in {ORDER, JOIN})]
        return max((one.share_of_queries for one in chosen), default=0.0)

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "table": self.table,
            "queries": self.queries,
            "queries_by_engine": dict(self.queries_by_engine),
            "bytes_by_engine": dict(self.bytes_by_engine),
            "patterns": [one.as_document() for one in self.patterns],
        }


@dataclass(frozen=True)
class HotQuery:
    """Queries of one engine that differ only in their values; `example` is the newest of them."""

    fingerprint: str
    engine: str
    queries: int
    bytes_read: int | None
    share_of_bytes: float  # of what the engine read; of its queries where it does not count bytes
    seconds: float
    example: Query

    def as_document(self, *, allow_literals: bool = False) -> dict[str, Any]:
        """For programs; the text has no values unless they are allowed."""
        text = self.example.text
        return {
            "fingerprint": self.fingerprint,
            "engine": self.engine,
            "queries": self.queries,
            "bytes_read": self.bytes_read,
            "share_of_bytes": self.share_of_bytes,
            "seconds": self.seconds,
            "query_id": self.example.query_id,
            "tables": sorted({use.table for use in self.example.uses}),
            "text": text if allow_literals else redacted(text, DIALECTS[self.engine]),
        }


@dataclass
class _Sums:
    """Counts by engine."""

    queries: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def add(self, engine: str, size: int | None) -> None:
        self.queries[engine] += 1
        self.bytes[engine] += size or 0


@dataclass
class _Table:
    whole: _Sums = field(default_factory=_Sums)
    parts: dict[Key, _Sums] = field(default_factory=dict)


@dataclass
class _Hot:
    example: Query
    queries: int = 0
    bytes: int | None = None
    seconds: float = 0.0


class PatternCounter:
    """Counts queries one by one; what it holds grows with kinds of queries, not with queries."""

    def __init__(self, most_fingerprints: int = MOST_FINGERPRINTS) -> None:
        self._tables: dict[str, _Table] = {}
        self._hot: dict[tuple[str, str], _Hot] = {}
        self._engines = _Sums()
        self._most = most_fingerprints
        self.untracked = 0  # queries whose fingerprint came when there was no room for it

    def add(self, query: Query) -> None:
        """Count a query."""
        for use in query.uses:
            table = self._tables.setdefault(use.table, _Table())
            table.whole.add(query.engine, use.bytes_read)
            for key in dict.fromkeys(_keys(use)):
                table.parts.setdefault(key, _Sums()).add(query.engine, use.bytes_read)
        self._heat(query)

    def tables(self) -> dict[str, TablePatterns]:
        """What was counted, by table."""
        return {name: _table(name, table) for name, table in sorted(self._tables.items())}

    def hot(self, most: int | None = None) -> tuple[HotQuery, ...]:
        """Kinds of queries, those that read most of their engine's bytes first."""
        found = [self._hot_query(key, hot) for key, hot in self._hot.items()]
        found.sort(key=lambda one: (-one.share_of_bytes, -one.queries, one.fingerprint))
        return tuple(found[:most])

    def _heat(self, query: Query) -> None:
        size = _bytes(query)
        self._engines.add(query.engine, size)
        key = (query.engine, _fingerprint(query))
        hot = self._hot.get(key)
        if hot is None:
            if len(self._hot) >= self._most:
                self.untracked += 1
                return
            hot = self._hot.setdefault(key, _Hot(query))
        hot.queries += 1
        hot.bytes = hot.bytes if size is None else (hot.bytes or 0) + size
        hot.seconds += query.seconds or 0.0
        if query.at >= hot.example.at:
            hot.example = query

    def _hot_query(self, key: tuple[str, str], hot: _Hot) -> HotQuery:
        engine, mark = key
        of_bytes, of_queries = self._engines.bytes[engine], self._engines.queries[engine]
        share = (hot.bytes or 0) / of_bytes if of_bytes else hot.queries / of_queries
        return HotQuery(mark, engine, hot.queries, hot.bytes, share, hot.seconds, hot.example)


def _keys(use: TableUse) -> Iterator[Key]:
    """The ways in which a query uses columns of a table; a masked test counts as the kind that it was."""
    for test in leaves_of(use.filter):
        masked, _, kind = test.function.partition(" ")
        yield (test.column, kind, MASKED) if masked == MASKED and kind else (test.column, test.kind, test.function)
    yield from ((column, JOIN, "") for column in use.join_keys)
    yield from ((column, ORDER, "") for column in use.order_by)


def _table(name: str, table: _Table) -> TablePatterns:
    whole = table.whole
    parts = [_pattern(key, sums, whole) for key, sums in table.parts.items()]
    parts.sort(key=lambda one: (-one.weight, -one.queries, one.column, one.kind, one.function))
    return TablePatterns(name, whole.queries.total(), dict(whole.queries), dict(whole.bytes), tuple(parts))


def _pattern(key: Key, sums: _Sums, whole: _Sums) -> Pattern:
    total = whole.queries.total()
    weight = sum(whole.queries[engine] / total * _share(engine, sums, whole) for engine in sums.queries)
    queries = sums.queries.total()
    return Pattern(*key, queries, queries / total, weight, dict(sums.bytes))


def _share(engine: str, sums: _Sums, whole: _Sums) -> float:
    if whole.bytes[engine]:
        return sums.bytes[engine] / whole.bytes[engine]
    return sums.queries[engine] / whole.queries[engine]


def _bytes(query: Query) -> int | None:
    known = [use.bytes_read for use in query.uses if use.bytes_read is not None]
    return sum(known) if known else None


def _fingerprint(query: Query) -> str:
    """Of the text; a scan report has none, and is told by its tables and tests."""
    keys = sorted({(use.table, *key) for use in query.uses for key in _keys(use)})
    return fingerprint(query.text or f"SELECT {keys}", DIALECTS[query.engine])
