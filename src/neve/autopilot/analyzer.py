"""Query logs of all engines as one workload, and the class that the service has always been asked through."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.autopilot.parse.query import LeftOut, Unparsed, parsed
from neve.autopilot.parse.tables import Tables
from neve.autopilot.patterns import DIALECTS, HotQuery, PatternCounter, TablePatterns
from neve.autopilot.privacy import skeleton
from neve.autopilot.sources.clickhouse_client import clickhouse_log
from neve.autopilot.sources.config import ClickHouseConfig, TrinoConfig
from neve.autopilot.sources.record import Unreadable
from neve.autopilot.sources.trino_runtime import TrinoRuntime
from neve.errors import ConfigError

if TYPE_CHECKING:
    from neve.autopilot.sources.record import LoggedQuery, Source
    from neve.autopilot.workload import Query

SEED = 17  # of the choice of queries that are kept: the same log gives the same workload
MOST_IDS = 1_000_000  # that are remembered of a source, to count a query once that is told twice
DUPLICATE = "told twice"

Recommend = Callable[[Mapping[str, TablePatterns], Sequence["Query"], Mapping[str, Any]], Sequence[Any]]


@dataclass(frozen=True)
class UnparsedKind:
    """Queries that were not understood for one reason, and one of them."""

    reason: str
    queries: int
    query_id: str
    engine: str
    text: str

    def as_document(self, *, allow_literals: bool = False) -> dict[str, Any]:
        """For programs; without leave, only the words of SQL are told of the text."""
        said = self.text if allow_literals else skeleton(self.text, DIALECTS[self.engine])
        return {**vars(self), "text": said}


@dataclass(frozen=True)
class SourceCount:
    """What became of the records of one source."""

    name: str
    records: int
    queries: int
    left_out: Mapping[str, int]
    unparsed: int
    unreadable: Mapping[str, int]  # lines and messages that are no records

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {**vars(self), "left_out": dict(self.left_out), "unreadable": dict(self.unreadable)}


@dataclass(frozen=True)
class Analysis:
    """A workload; `queries` are all of them, or a random part where there are more than may be kept."""

    since: datetime
    queries: tuple[Query, ...]
    counted: int
    tables: Mapping[str, TablePatterns]
    hot: tuple[HotQuery, ...]
    untracked: int  # queries that no hot query counts
    unparsed: tuple[UnparsedKind, ...]
    sources: tuple[SourceCount, ...]

    def as_document(self, *, allow_literals: bool = False, most_hot: int = 20) -> dict[str, Any]:
        """For programs; no value of a query is in it unless that is allowed."""
        return {
            "since": self.since.isoformat(),
            "queries": self.counted,
            "kept": len(self.queries),
            "tables": [table.as_document() for table in self.tables.values()],
            "hot": [one.as_document(allow_literals=allow_literals) for one in self.hot[:most_hot]],
            "untracked": self.untracked,
            "unparsed": [one.as_document(allow_literals=allow_literals) for one in self.unparsed],
            "sources": [one.as_document() for one in self.sources],
        }


def analyze(sources: Iterable[Source], tables: Tables, since: datetime, *, max_queries: int = 100_000) -> Analysis:
    """Read logs one after the other; a source that can't be reached is an error, a query that can't be read is none."""
    kept = _Kept(max_queries)
    patterns = PatternCounter()
    unparsed: dict[str, UnparsedKind] = {}
    counts = [_read(source, since, tables, _Workload(kept, patterns, unparsed)) for source in sources]
    return Analysis(
        since=since,
        queries=tuple(sorted(kept.queries, key=lambda query: (query.at, query.query_id))),
        counted=kept.seen,
        tables=patterns.tables(),
        hot=patterns.hot(),
        untracked=patterns.untracked,
        unparsed=tuple(sorted(unparsed.values(), key=lambda one: -one.queries)),
        sources=tuple(counts),
    )


class _Kept:
    """At most so many queries, each with the same chance to be among them."""

    def __init__(self, most: int) -> None:
        self.queries: list[Query] = []
        self.seen = 0
        self._most = most
        self._random = random.Random(SEED)  # noqa: S311 - a choice of samples, no secret

    def add(self, query: Query) -> None:
        self.seen += 1
        if len(self.queries) < self._most:
            self.queries.append(query)
            return
        place = self._random.randrange(self.seen)
        if place < self._most:
            self.queries[place] = query


@dataclass(frozen=True)
class _Workload:
    kept: _Kept
    patterns: PatternCounter
    unparsed: dict[str, UnparsedKind]

    def add(self, logged: LoggedQuery, result: Query | LeftOut | Unparsed, counts: Counter[str]) -> None:
        if isinstance(result, LeftOut):
            counts[result.reason] += 1
        elif isinstance(result, Unparsed):
            known = self.unparsed.get(result.reason)
            number = known.queries + 1 if known else 1
            first = known or UnparsedKind(result.reason, 0, logged.query_id, logged.engine, logged.text)
            self.unparsed[result.reason] = UnparsedKind(result.reason, number, first.query_id, first.engine, first.text)
        else:
            self.kept.add(result)
            self.patterns.add(result)


def _read(source: Source, since: datetime, tables: Tables, workload: _Workload) -> SourceCount:
    left_out: Counter[str] = Counter()
    unreadable: Counter[str] = Counter()
    ids: set[int] = set()
    records = unparsed = queries = 0
    for record in source.queries(since):
        if isinstance(record, Unreadable):
            unreadable[record.reason] += 1
            continue
        records += 1
        mark = hash(record.query_id)
        if mark in ids:
            left_out[DUPLICATE] += 1
            continue
        if len(ids) < MOST_IDS:
            ids.add(mark)
        result = parsed(record, tables)
        workload.add(record, result, left_out)
        unparsed += isinstance(result, Unparsed)
        queries += not isinstance(result, LeftOut | Unparsed)
    return SourceCount(source.name, records, queries, dict(left_out), unparsed, dict(unreadable))


@dataclass
class QueryLogAnalyzer:
    """Reads the logs of Trino and ClickHouse; what is not given is taken from the environment.

    `recommend` turns patterns, queries and the tables' metadata into recommendations.
    """

    trino_host: str | None = None
    trino_port: int | None = None
    trino_catalog: str | None = None
    clickhouse_host: str | None = None
    clickhouse_port: int | None = None
    lookback_days: float | None = None
    recommend: Recommend | None = None
    tables: Tables = field(default_factory=Tables)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    _queries: list[Query] = field(default_factory=list, init=False, repr=False)

    def extract_trino_query_patterns(self) -> list[Query]:
        """What Trino was asked, as far back as its coordinator remembers."""
        host = self.trino_host or self.environment.get("TRINO_HOST", "")
        if not host:
            raise ConfigError("no Trino coordinator is named", hint="pass trino_host or set TRINO_HOST")
        config = TrinoConfig(
            host=host,
            port=self._number("TRINO_PORT", self.trino_port, 8080),
            catalog=self.trino_catalog or self.environment.get("TRINO_CATALOG", "iceberg"),
        )
        return self._extracted(TrinoRuntime(config))

    def extract_clickhouse_query_patterns(self) -> list[Query]:
        """What ClickHouse was asked."""
        host = self.clickhouse_host or self.environment.get("CLICKHOUSE_HOST", "")
        if not host:
            raise ConfigError("no ClickHouse server is named", hint="pass clickhouse_host or set CLICKHOUSE_HOST")
        port = self._number("CLICKHOUSE_PORT", self.clickhouse_port, 9000)
        return self._extracted(clickhouse_log(ClickHouseConfig(host=host, port=port)))

    def aggregate_patterns(self, patterns: Iterable[Query]) -> dict[str, TablePatterns]:
        """Patterns by table."""
        counter = PatternCounter()
        for query in patterns:
            counter.add(query)
        return counter.tables()

    def generate_recommendations(
        self, table_patterns: Mapping[str, TablePatterns], current_metadata: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Recommendations for the tables of the patterns, from the queries that were extracted before."""
        if self.recommend is None:
            raise ConfigError("nothing here recommends layouts", hint="pass recommend to QueryLogAnalyzer")
        asked = [query for query in self._queries if any(use.table in table_patterns for use in query.uses)]
        return list(self.recommend(table_patterns, asked, current_metadata or {}))

    def _extracted(self, source: Source) -> list[Query]:
        days = self.lookback_days or float(self._number("LOOKBACK_DAYS", None, 7))
        found = analyze([source], self.tables, datetime.now(UTC) - timedelta(days=days))
        self._queries += found.queries
        return list(found.queries)

    def _number(self, name: str, given: int | None, default: int) -> int:
        value = self.environment.get(name, "")
        if given is not None or not value:
            return default if given is None else given
        if not value.isdigit():
            raise ConfigError(f"{name} is {value!r}, expected a whole number")
        return int(value)
