"""The one that answers: every query of a process goes through it, whichever door it came by."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from neve.errors import LimitExceeded, QueryError
from neve.lake.calendar import now_utc
from neve.query.cache import ResultCache
from neve.query.engine.duckdb import DUCKDB, DuckEngine
from neve.query.engine.spark import SPARK, SparkEngine
from neve.query.explain import Measured, described, explained, listed
from neve.query.failures import FilesGone, planning
from neve.query.limits import REFUSED, Gate, Limits, limits_for
from neve.query.partial import without_unreadable
from neve.query.prepared import Sources, prepare
from neve.query.running import Running
from neve.query.scan.files import Planner
from neve.query.sql.statement import parse
from neve.query.stored import Collecting, Stored
from neve.query.tables import LakeTables
from neve.query.usage import DailyUsage

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.engine.duckdb import Write
    from neve.query.entry import Entry
    from neve.query.prepared import CoveragesOf, Prepared
    from neve.query.request import Request
    from neve.query.running import Run
    from neve.query.sql.statement import Statement
    from neve.query.tables import TableFacts

REMEMBERED = 1000  # queries that ended, for those who ask what became of them
ATTEMPTS = 3  # when files go away under a query: expiry removed its snapshot

LimitsOf = Callable[[str, str], Limits]


class Engine(Protocol):
    """A DuckDB, in this process or in others."""

    def run(self, write: Write, limits: Limits, organization: str = "") -> Run:
        """A statement, within limits."""

    def close(self) -> None:
        """End it."""


def no_limits(_organization: str, _key_id: str) -> Limits:
    """No limits, for whoever owns the process."""
    return Limits()


@dataclass(frozen=True)
class Ports:
    """What a service reaches beyond the lake's tables; without them, DuckDB in this process and no rollups."""

    coverages: CoveragesOf = lambda _look, _organization: ()
    planner: Planner | None = None
    engine: Engine | None = None
    usage: DailyUsage | None = None


class QueryService:
    """Blocking and thread-safe: doors call it in threads."""

    def __init__(
        self,
        lake: Lake,
        config: QueryConfig,
        *,
        limits: LimitsOf | None = None,
        ports: Ports | None = None,
        log: Callable[[Entry], None] = lambda _entry: None,
    ) -> None:
        ports = ports or Ports()
        self._config = config
        self._limits = limits or (lambda organization, key_id: limits_for(config, organization, key_id))
        self._log = log
        planner = ports.planner or Planner()
        self._tables = LakeTables(lake, planner)
        self._sources = Sources(self._tables, planner, ports.coverages)
        self._duck: Engine = ports.engine or DuckEngine(lake, config)
        self._usage = ports.usage or DailyUsage(None, now_utc)
        self._spark = SparkEngine(lake)
        self._cache = ResultCache(config.cache_bytes, config.cache_seconds)
        self._gate = Gate(config.concurrency, config.queue_seconds)
        self._known: OrderedDict[str, Running] = OrderedDict()
        self._parsing: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def start(self, request: Request) -> Running:
        """Answer a request; blocks until its first rows are there."""
        limits = self._limits(request.organization, request.key_id)
        who = (request.organization, request.key_id)
        try:
            self._gate.enter(who, limits)
        except LimitExceeded as error:
            REFUSED.labels(error.limit).inc()
            Running(request, Limits(), self._log).fail(error)
            raise
        running = Running(request, limits, lambda entry: self._end(entry, who))
        self._remember(running)
        try:
            self._answer(running, limits)
        except Exception as error:
            if isinstance(error, LimitExceeded):
                REFUSED.labels(error.limit).inc()
            running.fail(error)
            raise
        return running

    def find(self, query_id: str, organization: str) -> Running | None:
        """A query that runs, or ended lately."""
        with self._lock:
            running = self._known.get(query_id)
        return running if running is not None and running.organization == organization else None

    def running(self, organization: str) -> tuple[Running, ...]:
        """The queries of an organization that run."""
        with self._lock:
            known = tuple(self._known.values())
        return tuple(one for one in known if one.organization == organization and one.state == "running")

    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of each table."""
        return self._tables.schemas()

    def tables(self, organization: str) -> tuple[TableFacts, ...]:
        """All tables, as an organization sees them."""
        return tuple(self._tables.facts(name, organization) for name in self._tables.names())

    def describe(self, name: str, organization: str) -> TableFacts:
        """One table, as an organization sees it."""
        return self._tables.facts(name, organization)

    def close(self) -> None:
        """End what runs."""
        with self._lock:
            known = tuple(self._known.values())
        for one in known:
            one.cancel()
        self._duck.close()
        self._usage.flush()

    def _answer(self, running: Running, limits: Limits) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with planning():
                    statement = self._parse(running.request)
                    prepared = prepare(running.request, statement, self._config, self._sources, running.check)
                running.statistics = prepared.statistics
                running.normalised, running.tables = prepared.statement.normalised, prepared.statement.tables
                self._begin(running, prepared, limits)
            except FilesGone:
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    def _parse(self, request: Request) -> Statement:
        """Reading a long statement holds the interpreter for a second: one of each organization at a time."""
        with self._lock:
            turn = self._parsing.setdefault(request.organization, threading.Lock())
        with turn:
            return parse(request.sql, self._tables.schemas(), request.parameters)

    def _begin(self, running: Running, prepared: Prepared, limits: Limits) -> None:
        statement = prepared.statement
        if statement.kind == "describe":
            return running.begin(Stored(described(self._tables.facts(statement.described, running.organization))))
        if statement.kind == "tables":
            return running.begin(Stored(listed(self._tables.names())))
        if statement.explain == "plan":
            return running.begin(Stored(explained(prepared)))
        if running.request.partial:
            prepared = without_unreadable(prepared)
            running.statistics = prepared.statistics
        asked = None if running.request.fresh or not self._config.cache_bytes else prepared.asked
        kept = self._cache.get(asked) if asked is not None else None
        if kept is not None:
            running.statistics = replace(kept.statistics, cache="hit", rows=0)
            return running.begin(Stored(kept.table))
        _check_bytes(prepared, limits)
        self._usage.charge((running.organization, running.key_id), prepared.statistics.bytes, limits)
        running.statistics = replace(prepared.statistics, cache="miss" if asked is not None else "off")
        run = self._engine_run(running, prepared, limits)
        if statement.explain == "analyze":
            return running.begin(Measured(prepared, run))
        if asked is not None and not prepared.statistics.partial:
            statistics = running.statistics
            run = Collecting(run, self._cache.largest, lambda table: self._cache.put(asked, table, statistics))
        self._begin_or_elsewhere(running, prepared, run)
        return None

    def _begin_or_elsewhere(self, running: Running, prepared: Prepared, run: Run) -> None:
        """Where DuckDB has not the memory for what it reads, Spark may; what reads no files is no work for Spark."""
        try:
            running.begin(run)
        except LimitExceeded as error:
            is_ours = error.limit == "memory" and self._config.spark_bytes and not prepared.statement.not_portable
            if not is_ours or not prepared.statistics.bytes or running.statistics.engine != DUCKDB:
                raise
            notes = (*running.statistics.notes, "DuckDB had not the memory for it")
            running.statistics = replace(running.statistics, engine=SPARK, notes=notes)
            running.begin(self._spark_run(running, prepared))

    def _engine_run(self, running: Running, prepared: Prepared, limits: Limits) -> Run:
        if running.statistics.engine == DUCKDB:
            return self._duck.run(prepared.duckdb, limits, running.organization)
        if prepared.statement.not_portable:
            raise QueryError(
                f"Spark has to answer this ({'; '.join(prepared.statistics.notes)}), but can't: "
                f"{prepared.statement.not_portable}",
                hint="narrow the time, or ask in another way",
            )
        return self._spark_run(running, prepared)

    def _spark_run(self, running: Running, prepared: Prepared) -> Run:
        """No more rows than are sent, and one more, by which a result that is too long is told from one that is not."""
        most = min(filter(None, (running.request.limit, running.most_rows, self._config.spark_result_rows)))
        return self._spark.run(prepared.spark(self._spark), most + 1)

    def _remember(self, running: Running) -> None:
        with self._lock:
            self._known[running.id] = running
            ended = [one.id for one in self._known.values() if one.state != "running"]
            for query_id in ended[: max(0, len(self._known) - REMEMBERED)]:
                del self._known[query_id]

    def _end(self, entry: Entry, who: tuple[str, str]) -> None:
        self._gate.leave(who)
        self._log(entry)


def _check_bytes(prepared: Prepared, limits: Limits) -> None:
    if limits.scan_bytes is not None and prepared.statistics.bytes > limits.scan_bytes:
        raise LimitExceeded(
            f"the query would read {prepared.statistics.bytes:,} bytes of files, {limits.scan_bytes:,} are allowed",
            limit="scan_bytes",
            hint="narrow the time, or add a condition on a column that files are apart by",
        )
