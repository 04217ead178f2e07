"""Analysis of query logs: read the logs of all engines into one workload.

`QueryLogAnalyzer` is the public class for Trino and ClickHouse.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.autopilot.config import ClickHouseConfig, TrinoConfig
from neve.autopilot.logs.clickhouse_log import open_clickhouse_log
from neve.autopilot.logs.records import UnreadableRecord
from neve.autopilot.logs.trino_log import TrinoRuntime
from neve.autopilot.patterns import DIALECTS, HotQuery, PatternCounter, TablePatterns
from neve.autopilot.workload.privacy import extract_skeleton
from neve.autopilot.workload.query_parser import IgnoredQuery, UnparsedQuery, parse_query
from neve.autopilot.workload.tables import Tables
from neve.errors import ConfigError

if TYPE_CHECKING:
    from neve.autopilot.logs.records import LoggedQuery, LogSource
    from neve.autopilot.workload.queries import Query

SEED = 17  # seed of the selection of kept queries: the same log gives the same workload
MAX_IDS = 1_000_000  # ids remembered per source, so that a query that is logged twice counts once
DUPLICATE = "logged twice"

Recommend = Callable[[Mapping[str, TablePatterns], Sequence["Query"], Mapping[str, Any]], Sequence[Any]]


@dataclass(frozen=True)
class UnparsedKind:
    """Queries that failed to parse for one reason, with one example."""

    reason: str
    queries: int
    query_id: str
    engine: str
    text: str

    def as_document(self, *, allow_literals: bool = False) -> dict[str, Any]:
        """Return the JSON document for programs.

        Without permission to show values, the text is reduced to its SQL keywords.
        """
        text = self.text if allow_literals else extract_skeleton(self.text, DIALECTS[self.engine])
        return {**vars(self), "text": text}


@dataclass(frozen=True)
class SourceCount:
    """Counts of the records of one source, by result."""

    name: str
    records: int
    queries: int
    left_out: Mapping[str, int]
    unparsed: int
    unreadable: Mapping[str, int]  # lines and messages that are not records

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return {**vars(self), "left_out": dict(self.left_out), "unreadable": dict(self.unreadable)}


@dataclass(frozen=True)
class Analysis:
    """A workload.

    `queries` has all queries, or a random sample if there are more than the limit.
    """

    since: datetime
    queries: tuple[Query, ...]
    counted: int
    tables: Mapping[str, TablePatterns]
    hot: tuple[HotQuery, ...]
    untracked: int  # queries that no hot query counts
    unparsed: tuple[UnparsedKind, ...]
    sources: tuple[SourceCount, ...]

    def as_document(self, *, allow_literals: bool = False, most_hot: int = 20) -> dict[str, Any]:
        """Return the JSON document for programs.

        It contains values of queries only if that is allowed.
        """
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


def analyze(sources: Iterable[LogSource], tables: Tables, since: datetime, *, max_queries: int = 100_000) -> Analysis:
    """Read logs one after the other.

    A source that can't be reached is an error. A query that can't be parsed is not.
    """
    sample = _QueryReservoir(max_queries)
    patterns = PatternCounter()
    unparsed: dict[str, UnparsedKind] = {}
    counts = [_read_source(source, since, tables, _WorkloadBuilder(sample, patterns, unparsed)) for source in sources]
    return Analysis(
        since=since,
        queries=tuple(sorted(sample.queries, key=lambda query: (query.at, query.query_id))),
        counted=sample.seen,
        tables=patterns.tables(),
        hot=patterns.hot(),
        untracked=patterns.untracked,
        unparsed=tuple(sorted(unparsed.values(), key=lambda one: -one.queries)),
        sources=tuple(counts),
    )


class _QueryReservoir:
    """Reservoir sample of queries: a limited number, each with the same chance of being selected."""

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
class _WorkloadBuilder:
    sample: _QueryReservoir
    patterns: PatternCounter
    unparsed: dict[str, UnparsedKind]

    def add(self, logged: LoggedQuery, result: Query | IgnoredQuery | UnparsedQuery, counts: Counter[str]) -> None:
        if isinstance(result, IgnoredQuery):
            counts[result.reason] += 1
        elif isinstance(result, UnparsedQuery):
            known = self.unparsed.get(result.reason)
            number = known.queries + 1 if known else 1
            first = known or UnparsedKind(result.reason, 0, logged.query_id, logged.engine, logged.text)
            self.unparsed[result.reason] = UnparsedKind(result.reason, number, first.query_id, first.engine, first.text)
        else:
            self.sample.add(result)
            self.patterns.add(result)


def _read_source(source: LogSource, since: datetime, tables: Tables, workload: _WorkloadBuilder) -> SourceCount:
    left_out: Counter[str] = Counter()
    unreadable: Counter[str] = Counter()
    ids: set[int] = set()
    records = unparsed = queries = 0
    for record in source.queries(since):
        if isinstance(record, UnreadableRecord):
            unreadable[record.reason] += 1
            continue
        records += 1
        digest = hash(record.query_id)
        if digest in ids:
            left_out[DUPLICATE] += 1
            continue
        if len(ids) < MAX_IDS:
            ids.add(digest)
        result = parse_query(record, tables)
        workload.add(record, result, left_out)
        unparsed += isinstance(result, UnparsedQuery)
        queries += not isinstance(result, IgnoredQuery | UnparsedQuery)
    return SourceCount(source.name, records, queries, dict(left_out), unparsed, dict(unreadable))


@dataclass
class QueryLogAnalyzer:
    """Reader of the query logs of Trino and ClickHouse.

    Settings that are not given are read from the environment. `recommend` turns patterns, queries and the tables'
    metadata into recommendations.
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
        """Return the queries of Trino, as far back as its coordinator keeps them."""
        host = self.trino_host or self.environment.get("TRINO_HOST", "")
        if not host:
            raise ConfigError("no Trino coordinator is configured", hint="pass trino_host or set TRINO_HOST")
        config = TrinoConfig(
            host=host,
            port=self._number("TRINO_PORT", self.trino_port, 8080),
            catalog=self.trino_catalog or self.environment.get("TRINO_CATALOG", "iceberg"),
        )
        return self._extract(TrinoRuntime(config))

    def extract_clickhouse_query_patterns(self) -> list[Query]:
        """Return the queries of ClickHouse."""
        host = self.clickhouse_host or self.environment.get("CLICKHOUSE_HOST", "")
        if not host:
            raise ConfigError("no ClickHouse server is configured", hint="pass clickhouse_host or set CLICKHOUSE_HOST")
        port = self._number("CLICKHOUSE_PORT", self.clickhouse_port, 9000)
        return self._extract(open_clickhouse_log(ClickHouseConfig(host=host, port=port)))

    def aggregate_patterns(self, patterns: Iterable[Query]) -> dict[str, TablePatterns]:
        """Return patterns by table."""
        counter = PatternCounter()
        for query in patterns:
            counter.add(query)
        return counter.tables()

    def generate_recommendations(
        self, table_patterns: Mapping[str, TablePatterns], current_metadata: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Return recommendations for the tables of the patterns, from the queries that were extracted before."""
        if self.recommend is None:
            raise ConfigError("no function for recommendations", hint="pass recommend to QueryLogAnalyzer")
        matching = [query for query in self._queries if any(use.table in table_patterns for use in query.uses)]
        return list(self.recommend(table_patterns, matching, current_metadata or {}))

    def _extract(self, source: LogSource) -> list[Query]:
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
