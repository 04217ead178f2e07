"""Access patterns of a workload: columns by filter, join and sort, and hot queries.

Engines count bytes differently (ClickHouse after decompression), so bytes are never added up over engines. A share is
computed within each engine, and shares are weighted by the number of queries that each engine answered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.autopilot.logs.scan_reports import MASKED
from neve.autopilot.workload.privacy import fingerprint_query, redact_query
from neve.predicate.filters import iter_tests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.autopilot.workload.queries import Query, TableUse

DIALECTS = {"trino": "trino", "clickhouse": "clickhouse", "spark": "spark", "neve": "duckdb", "iceberg": "duckdb"}
ORDER, JOIN = "order", "join"
MAX_FINGERPRINTS = 20_000
PatternKey = tuple[str, str, str]  # column, kind and function


@dataclass(frozen=True)
class Pattern:
    """One use of a column; `kind` is the kind of a test, `order` or `join`."""

    column: str
    kind: str
    function: str
    queries: int
    share_of_queries: float  # of all queries that read the table
    weight: float  # share of bytes within each engine, with engines weighted by their queries
    bytes_by_engine: Mapping[str, int]

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs; it contains no values."""
        return {**vars(self), "bytes_by_engine": dict(self.bytes_by_engine)}


@dataclass(frozen=True)
class TablePatterns:
    """Access patterns of a table."""

    table: str
    queries: int
    queries_by_engine: Mapping[str, int]
    bytes_by_engine: Mapping[str, int]
    patterns: tuple[Pattern, ...]  # the largest weight first

    def share(self, column: str, *kinds: str) -> float:
        """Return the greatest share of queries that use a column in one of the given kinds (default: as a filter)."""
        wanted = [one for one in self.patterns if one.column == column]
        chosen = [one for one in wanted if (one.kind in kinds if kinds else one.kind not in {ORDER, JOIN})]
        return max((one.share_of_queries for one in chosen), default=0.0)

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
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
    share_of_bytes: float  # of the bytes that the engine read, or of its queries if it doesn't count bytes
    seconds: float
    example: Query

    def as_document(self, *, allow_literals: bool = False) -> dict[str, Any]:
        """Return the JSON document for programs; the text contains values only if they are allowed."""
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
            "text": text if allow_literals else redact_query(text, DIALECTS[self.engine]),
        }


@dataclass
class _EngineCounts:
    """Counts by engine."""

    queries: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def add(self, engine: str, size: int | None) -> None:
        self.queries[engine] += 1
        self.bytes[engine] += size or 0


@dataclass
class _TableCounts:
    whole: _EngineCounts = field(default_factory=_EngineCounts)
    parts: dict[PatternKey, _EngineCounts] = field(default_factory=dict)


@dataclass
class _HotCounts:
    example: Query
    queries: int = 0
    bytes: int | None = None
    seconds: float = 0.0


class PatternCounter:
    """Counter of queries.

    Its memory grows with the number of distinct kinds of queries, not with the number of queries.
    """

    def __init__(self, most_fingerprints: int = MAX_FINGERPRINTS) -> None:
        self._tables: dict[str, _TableCounts] = {}
        self._hot: dict[tuple[str, str], _HotCounts] = {}
        self._engines = _EngineCounts()
        self._most = most_fingerprints
        self.untracked = 0  # queries whose fingerprint arrived when the limit was reached

    def add(self, query: Query) -> None:
        """Count a query."""
        for use in query.uses:
            table = self._tables.setdefault(use.table, _TableCounts())
            table.whole.add(query.engine, use.bytes_read)
            for key in dict.fromkeys(_pattern_keys(use)):
                table.parts.setdefault(key, _EngineCounts()).add(query.engine, use.bytes_read)
        self._heat(query)

    def tables(self) -> dict[str, TablePatterns]:
        """Return the patterns by table."""
        return {name: _summarize_table(name, table) for name, table in sorted(self._tables.items())}

    def hot(self, most: int | None = None) -> tuple[HotQuery, ...]:
        """Return kinds of queries, those that read most of their engine's bytes first."""
        found = [self._hot_query(key, hot) for key, hot in self._hot.items()]
        found.sort(key=lambda one: (-one.share_of_bytes, -one.queries, one.fingerprint))
        return tuple(found[:most])

    def _heat(self, query: Query) -> None:
        size = _bytes_read(query)
        self._engines.add(query.engine, size)
        key = (query.engine, _query_fingerprint(query))
        hot = self._hot.get(key)
        if hot is None:
            if len(self._hot) >= self._most:
                self.untracked += 1
                return
            hot = self._hot.setdefault(key, _HotCounts(query))
        hot.queries += 1
        hot.bytes = hot.bytes if size is None else (hot.bytes or 0) + size
        hot.seconds += query.seconds or 0.0
        if query.at >= hot.example.at:
            hot.example = query

    def _hot_query(self, key: tuple[str, str], hot: _HotCounts) -> HotQuery:
        engine, mark = key
        of_bytes, of_queries = self._engines.bytes[engine], self._engines.queries[engine]
        share = (hot.bytes or 0) / of_bytes if of_bytes else hot.queries / of_queries
        return HotQuery(mark, engine, hot.queries, hot.bytes, share, hot.seconds, hot.example)


def _pattern_keys(use: TableUse) -> Iterator[PatternKey]:
    """Yield the uses of a table's columns in a query; a masked test counts as its original kind."""
    for test in iter_tests(use.filter):
        masked, _, kind = test.function.partition(" ")
        yield (test.column, kind, MASKED) if masked == MASKED and kind else (test.column, test.kind, test.function)
    yield from ((column, JOIN, "") for column in use.join_keys)
    yield from ((column, ORDER, "") for column in use.order_by)


def _summarize_table(name: str, table: _TableCounts) -> TablePatterns:
    whole = table.whole
    parts = [_summarize_pattern(key, sums, whole) for key, sums in table.parts.items()]
    parts.sort(key=lambda one: (-one.weight, -one.queries, one.column, one.kind, one.function))
    return TablePatterns(name, whole.queries.total(), dict(whole.queries), dict(whole.bytes), tuple(parts))


def _summarize_pattern(key: PatternKey, sums: _EngineCounts, whole: _EngineCounts) -> Pattern:
    total = whole.queries.total()
    weight = sum(whole.queries[engine] / total * _engine_share(engine, sums, whole) for engine in sums.queries)
    queries = sums.queries.total()
    return Pattern(*key, queries, queries / total, weight, dict(sums.bytes))


def _engine_share(engine: str, sums: _EngineCounts, whole: _EngineCounts) -> float:
    if whole.bytes[engine]:
        return sums.bytes[engine] / whole.bytes[engine]
    return sums.queries[engine] / whole.queries[engine]


def _bytes_read(query: Query) -> int | None:
    known = [use.bytes_read for use in query.uses if use.bytes_read is not None]
    return sum(known) if known else None


def _query_fingerprint(query: Query) -> str:
    """Return the fingerprint of the text; a scan report has no text and is identified by its tables and tests."""
    keys = sorted({(use.table, *key) for use in query.uses for key in _pattern_keys(use)})
    return fingerprint_query(query.text or f"SELECT {keys}", DIALECTS[query.engine])
