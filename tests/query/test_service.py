"""The service: one answer for one question, kept while it is right, within limits, whatever goes away meanwhile."""

from __future__ import annotations

import gc
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from pyiceberg.types import StringType
from sqlglot import exp

from neve.errors import LimitExceeded, QueryCancelled, QueryError, TableMissing
from neve.model.signals import Signal
from neve.query import planning_turns
from neve.query.config import LimitRule, QueryConfig
from neve.query.engine.spark import SparkEngine
from neve.query.engine.worker_pool import WorkerPool
from neve.query.engine_errors import FilesMissing, StorageUnavailable
from neve.query.execution import RunningQuery
from neve.query.planning.tenancy import check_snapshot
from neve.query.planning_turns import PlanningTurns
from neve.query.request import Request, TimeRange
from neve.query.runs import StoredRun
from neve.query.service import Ports, QueryService
from tests.query.lakes import ACME, OTHER, fork_lake, logs, make_lake, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.lake.lake import Lake
    from neve.query.request import QueryLogEntry

COUNT = "SELECT count(*) AS n FROM logs"
# Long enough to be interrupted, in DuckDB's own loops.
LONG = "SELECT count(*) FROM range(3000000) AS a(x), range(300000) AS b(y) WHERE (x * y) % 7 = 3"


@pytest.fixture
def own_lake(request: pytest.FixtureRequest, lake: Lake, tmp_path: Path, iceberg: None) -> Lake:
    """A lake that a test may change, with files of its own for a test that removes some."""
    make: Callable[[Path], Lake] = getattr(request, "param", partial(fork_lake, lake))
    return make(tmp_path)


removes_files = pytest.mark.parametrize("own_lake", [make_lake], ids=["own files"], indirect=True)


@pytest.fixture(params=["in this process", "in workers"])
def make_service(request: pytest.FixtureRequest, own_lake: Lake) -> Iterator[Callable[..., QueryService]]:
    """Services of that lake, closed at the end; what they promise holds wherever DuckDB runs."""
    made: list[QueryService] = []

    def make(log: Callable[[QueryLogEntry], None] = lambda _entry: None, **said: Any) -> QueryService:
        config = QueryConfig(threads=1, warm_workers=0, **said)
        engine = WorkerPool(own_lake, config) if request.param == "in workers" else None
        made.append(QueryService(own_lake, config, ports=Ports(engine=engine), log=log))
        return made[-1]

    yield make
    for service in made:
        service.close()


def rows(running: RunningQuery) -> list[dict[str, Any]]:
    """All rows of an answer."""
    found: list[dict[str, Any]] = pa.Table.from_batches(running.batches(), running.schema).to_pylist()
    return found


def ask(service: QueryService, sql: str, organization: str = ACME, **more: Any) -> RunningQuery:
    """Start a query."""
    return service.start(Request(sql, organization, **more))


def test_the_same_question_is_answered_from_the_cache_until_its_table_changes(
    own_lake: Lake, make_service: Callable[..., QueryService]
) -> None:
    """Another organization, another time and another snapshot are other questions."""
    service = make_service()
    first = ask(service, COUNT)
    assert (rows(first), first.statistics.cache) == ([{"n": 2}], "miss")
    again = ask(service, "select  COUNT(*) as n -- how many\nfrom LOGS")
    assert (rows(again), again.statistics.cache, again.statistics.rows) == ([{"n": 2}], "hit", 1)
    other = ask(service, COUNT, OTHER)
    assert (rows(other), other.statistics.cache) == ([{"n": 1}], "miss")
    early = ask(service, COUNT, time=TimeRange(until=first.started.replace(year=2000)))
    assert (rows(early), early.statistics.cache) == ([{"n": 0}], "miss")
    fresh = ask(service, COUNT, fresh=True)
    assert (rows(fresh), fresh.statistics.cache) == ([{"n": 2}], "off")
    put(own_lake, "acme", Signal.LOGS, logs("third"), batch="more")
    changed = ask(service, COUNT)
    assert (rows(changed), changed.statistics.cache) == ([{"n": 3}], "miss")


def test_other_columns_are_another_question(own_lake: Lake, make_service: Callable[..., QueryService]) -> None:
    """A table can get other columns without a new snapshot: neither their names nor their number are remembered."""
    service, asked = make_service(), "SELECT service_name AS a FROM spans LIMIT 1"
    assert rows(ask(service, asked)) == [{"a": "cart"}]
    count = len(rows(ask(service, "SELECT * FROM spans LIMIT 1"))[0])
    for old, new in (("service_name", "was"), ("operation_name", "service_name"), ("was", "operation_name")):
        with own_lake.table("spans").update_schema() as change:
            change.rename_column(old, new)
    changed = ask(service, asked)
    assert (rows(changed), changed.statistics.cache) == ([{"a": "get"}], "miss")
    with own_lake.table("spans").update_schema() as change:
        change.add_column("more", StringType())
    assert len(rows(ask(service, "SELECT * FROM spans LIMIT 1"))[0]) == count + 1


@pytest.mark.parametrize("name", ["who", "Organization_ID", "organization_id"])
def test_a_table_whose_rows_are_nobodys_is_refused(
    own_lake: Lake, make_service: Callable[..., QueryService], name: str
) -> None:
    """Also where a column is called nearly so, or is no text: not one row, not a number of rows, not in a list."""
    kind = pa.int64() if name == "organization_id" else pa.string()
    columns = pa.schema([(name, kind), ("secret", pa.string())])
    table = own_lake.catalog.create_table("telemetry.notes", schema=columns)
    table.append(pa.table({name: pa.array([7 if pa.types.is_integer(kind) else OTHER], kind), "secret": ["s"]}))
    service = make_service()
    for asked in ("SELECT * FROM notes", "SELECT count(*) FROM logs, notes", "DESCRIBE notes", "EXPLAIN FROM notes"):
        with pytest.raises(QueryError, match="the table notes has no text column organization_id"):
            ask(service, asked)
    with pytest.raises(QueryError, match="its rows belong to no organization"):
        service.describe("notes", ACME)
    assert "notes" not in {table.name for table in service.tables(ACME)}
    assert "notes" not in {row["name"] for row in rows(ask(service, "SHOW TABLES"))}
    assert rows(ask(service, COUNT)) == [{"n": 2}]


def test_a_table_that_loses_its_organization_is_refused(
    own_lake: Lake, make_service: Callable[..., QueryService]
) -> None:
    """At once, though names of tables are remembered."""
    service = make_service()
    assert rows(ask(service, "SELECT count(*) AS n FROM spans")) == [{"n": 8}]
    with own_lake.table("spans").update_schema() as change:
        change.rename_column("organization_id", "tenant")
    with pytest.raises(QueryError, match="the table spans has no text column organization_id"):
        ask(service, "SELECT tenant FROM spans")


def test_spark_reads_no_snapshot_whose_organization_was_another_column(own_lake: Lake) -> None:
    """It would read it with the columns of that time."""
    columns = pa.schema([("organization_id", pa.string()), ("other", pa.string())])
    table = own_lake.catalog.create_table("telemetry.notes", schema=columns)
    table.append(pa.table({"organization_id": [OTHER], "other": [ACME]}))
    check_snapshot(table, table.metadata.current_snapshot_id)
    for old, new in (("organization_id", "was"), ("other", "organization_id")):
        with table.update_schema() as change:
            change.rename_column(old, new)
    with pytest.raises(QueryError, match="another one than at its last snapshot"):
        check_snapshot(table, table.metadata.current_snapshot_id)


def test_planning_ends_when_its_time_is_over(make_service: Callable[..., QueryService]) -> None:
    """Between two tables, and before an engine begins."""
    service = make_service(timeout_seconds=0.0001)
    with pytest.raises(LimitExceeded) as caught:
        ask(service, "SELECT 1 FROM spans" + "".join(f", logs l{number}" for number in range(60)))
    assert caught.value.limit == "seconds"


def test_what_changes_by_itself_is_not_kept(make_service: Callable[..., QueryService]) -> None:
    """A clock and chance."""
    service = make_service()
    for _time in range(2):
        running = ask(service, "SELECT now() AS n")
        rows(running)
        assert running.statistics.cache == "off"


def test_old_and_large_results_are_not_kept(make_service: Callable[..., QueryService]) -> None:
    """By age and by bytes."""
    service = make_service(cache_seconds=0)
    rows(ask(service, COUNT))
    late = ask(service, COUNT)
    rows(late)
    assert late.statistics.cache == "miss"
    small = make_service(cache_bytes=8)
    for _time in range(2):
        running = ask(small, COUNT + " WHERE message <> ''")
        rows(running)
    assert running.statistics.cache == "miss"


def test_a_result_is_cut_off_where_it_was_asked_to_be(make_service: Callable[..., QueryService]) -> None:
    """And says so; one that is no longer than that does not."""
    service = make_service()
    cut, whole = ask(service, "SELECT * FROM range(5000)", limit=10), ask(service, "SELECT * FROM range(10)", limit=10)
    assert (len(rows(cut)), cut.statistics.truncated, cut.state) == (10, True, "done")
    assert (len(rows(whole)), whole.statistics.truncated) == (10, False)


@pytest.mark.parametrize(
    ("rule", "sql", "limit", "words"),
    [
        ({"rows": 5}, "SELECT * FROM range(6)", "rows", "the result has more than 5 rows"),
        ({"scan_bytes": 10}, COUNT, "scan_bytes", "10 are allowed"),
        ({"seconds": 0.2}, LONG, "seconds", "the query took longer than 0.2 s"),
        ({"seconds": 0.2}, f"EXPLAIN ANALYZE {LONG}", "seconds", "the query took longer than 0.2 s"),
        (
            {"memory": "20MB"},
            "SELECT count(*) FROM (SELECT DISTINCT x * 7919 AS a, x::VARCHAR AS b FROM range(20000000) AS r(x))",
            "memory",
            "exceeds its memory limit",
        ),
    ],
)
def test_limits_of_one_organization(
    make_service: Callable[..., QueryService], rule: dict[str, Any], sql: str, limit: str, words: str
) -> None:
    """What is exceeded is named; other organizations have other limits."""
    entries: list[QueryLogEntry] = []
    service = make_service(
        entries.append, spark_bytes=0, limits=(LimitRule(organization=ACME, **rule),), timeout_seconds=3600
    )
    with pytest.raises(LimitExceeded, match=words) as exceeded:
        rows(ask(service, sql))
    assert exceeded.value.limit == limit
    assert [(entry.state, entry.limit) for entry in entries] == [("failed", limit)]
    assert rows(ask(service, COUNT, OTHER)) == [{"n": 1}]


def test_a_key_waits_for_its_turn_and_is_refused_in_the_end(make_service: Callable[..., QueryService]) -> None:
    """Others are let in meanwhile; when its own query ends, so is it."""
    service = make_service(key_concurrency=1, concurrency=2, queue_seconds=0.2)
    held = ask(service, COUNT, key_id="a")
    with pytest.raises(LimitExceeded, match="1 queries of this key run already") as exceeded:
        ask(service, COUNT, key_id="a")
    assert exceeded.value.limit == "concurrency"
    other = ask(service, COUNT, key_id="b")
    with pytest.raises(LimitExceeded, match="2 queries run already"):
        ask(service, COUNT, key_id="c")
    assert {one.id for one in service.running(ACME)} == {held.id, other.id}
    rows(held)
    assert rows(ask(service, COUNT, key_id="a")) == [{"n": 2}]
    assert service.running(OTHER) == ()


def test_a_query_is_cancelled_from_elsewhere(make_service: Callable[..., QueryService]) -> None:
    """By its id, of its own organization only; its place is free again."""
    service = make_service(key_concurrency=1)
    caught: list[Exception] = []

    def wait() -> None:
        try:
            ask(service, LONG)
        except QueryError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not service.running(ACME):
        time.sleep(0.01)
    [running] = service.running(ACME)
    assert service.find(running.id, OTHER) is None
    running.cancel()
    thread.join()
    assert [str(error) for error in caught] == ["the query was cancelled"]
    found = service.find(running.id, ACME)
    assert found is not None
    assert found.state == "cancelled"
    assert rows(ask(service, COUNT)) == [{"n": 2}]


def test_who_stops_reading_ends_the_query(make_service: Callable[..., QueryService]) -> None:
    """What was begun is closed, and told."""
    entries: list[QueryLogEntry] = []
    service = make_service(entries.append)
    running = ask(service, "SELECT * FROM range(10000000)")
    reading = running.batches()
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert (running.state, entries[0].error) == ("cancelled", "the client closed the connection")
    assert service.running(ACME) == ()


@pytest.mark.parametrize("ending", ["read", "cancelled", "refused"])
def test_an_ended_query_keeps_no_statement_and_no_rows(make_service: Callable[..., QueryService], ending: str) -> None:
    """A client can ask for the state of an ended query, but its parsed statement and its result are freed."""
    service = make_service(cache_bytes=0)
    wanted = "no_such_column" if ending == "refused" else "message"
    statement = f"SELECT {', '.join(['1'] * 500)}, {wanted} FROM logs"
    rows(ask(service, COUNT))
    gc.collect()
    before = count_statement_parts()
    if ending == "refused":
        with pytest.raises(QueryError):
            rows(ask(service, statement))
    else:
        running = ask(service, statement)
        if ending == "read":
            assert rows(running)
        else:
            running.cancel()
            with pytest.raises(QueryCancelled):
                rows(running)
        assert service.find(running.id, ACME) is running
        assert len(running.schema) == (501 if ending == "read" else 0)
    for thread in threading.enumerate():
        if "_insist" in thread.name:
            thread.join()  # the thread that cancels closes the run
    gc.collect()
    assert count_statement_parts() - before < 500


def test_a_statement_is_freed_without_a_collection_of_garbage(make_service: Callable[..., QueryService]) -> None:
    """Parsed statements leave no cycles: a scan for the garbage of many would hold up all threads."""
    service = make_service(cache_bytes=0)
    columns = ", ".join(f"message AS c{number}" for number in range(200))
    statements = [
        f"SELECT {columns} FROM logs",
        f"SELECT {columns}, no_such_function() FROM logs",
        f"SELECT {columns}, no_such_column FROM logs",
        f"SELECT {columns}, error('while it runs') FROM logs",
    ]
    gc.collect()
    gc.disable()
    try:
        before = count_statement_parts()
        for sql in statements:
            with suppress(QueryError):
                rows(ask(service, sql))
        assert count_statement_parts() - before < 200
    finally:
        gc.enable()


def count_statement_parts() -> int:
    """Return the number of nodes of parsed statements in memory."""
    return sum(isinstance(one, exp.Expr) for one in gc.get_objects())


def test_remembered_statements_are_bounded(
    make_service: Callable[..., QueryService], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest queries that have ended are forgotten where statements are long, never one that runs."""
    monkeypatch.setattr("neve.query.service.REMEMBERED_CHARACTERS", 100)
    service = make_service()
    open_query = ask(service, COUNT)
    ended = [ask(service, f"{COUNT} -- {number} {'x' * 30}") for number in range(3)]
    for running in ended:
        rows(running)
    last = ask(service, COUNT)
    assert [service.find(one.id, ACME) is not None for one in (open_query, *ended, last)] == [
        True,
        False,
        False,
        False,
        True,
    ]
    rows(last)
    rows(open_query)


def files_of(lake: Lake, table: str) -> list[Path]:
    """The data files of a table."""
    return [Path(task.file.file_path.removeprefix("file://")) for task in lake.table(table).scan().plan_files()]


@removes_files
def test_a_snapshot_that_goes_away_is_asked_for_anew(
    own_lake: Lake, make_service: Callable[..., QueryService], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files were removed between planning and reading; the new one's are read."""
    service = make_service()
    table = own_lake.table("logs")
    [mine, *_others] = [path for path in files_of(own_lake, "logs") if f"={ACME}/" in str(path)]
    real, calls = service._statements.duckdb.run, []

    def run(*asked: Any) -> Any:
        calls.append(asked)
        if len(calls) == 1:
            table.delete(f"organization_id = '{ACME}'")
            put(own_lake, ACME, Signal.LOGS, logs("moved", "too"), batch="again")
            mine.unlink()
        return real(*asked)

    monkeypatch.setattr(service._statements.duckdb, "run", run)
    assert rows(ask(service, COUNT)) == [{"n": 2}]
    assert len(calls) == 2


@removes_files
def test_files_that_are_gone_for_good(own_lake: Lake, make_service: Callable[..., QueryService]) -> None:
    """An error, or what can be read where that is asked for; nothing at all is an error again."""
    service = make_service()
    put(own_lake, "acme", Signal.LOGS, logs("third"), batch="more")
    mine = sorted(path for path in files_of(own_lake, "logs") if f"={ACME}/" in str(path))
    mine[0].unlink()
    with pytest.raises(FilesMissing):
        rows(ask(service, COUNT))
    partial = ask(service, COUNT, partial=True)
    assert rows(partial)[0]["n"] in (1, 2)
    assert partial.statistics.partial
    assert partial.statistics.notes[-1] == "1 of 2 files can't be read; their rows are missing"
    mine[1].unlink()
    with pytest.raises(StorageUnavailable, match="none of 2 files can be read"):
        ask(service, COUNT, partial=True)


def test_explain_says_what_is_read_and_what_is_not(make_service: Callable[..., QueryService]) -> None:
    """By table, with the condition that tells files apart."""
    running = ask(
        make_service(), "EXPLAIN SELECT * FROM spans WHERE trace_id = unhex('01010101010101010101010101010101')"
    )
    plan = [row["plan"] for row in rows(running)]
    assert plan[0] == "engine: duckdb"
    assert any(line.startswith("spans at snapshot ") and "pruned" in line for line in plan)
    assert "  by trace_id = unhex('01010101010101010101010101010101')" in plan
    assert running.statistics.pruned_files > 0
    time = TimeRange(since=datetime(2025, 10, 1, tzinfo=UTC))
    bounded = [row["plan"] for row in rows(ask(make_service(), f"EXPLAIN {COUNT}", time=time))]
    assert "  by timestamp >= TIMESTAMP '2025-10-01 00:00:00+00'" in bounded
    free = [row["plan"] for row in rows(ask(make_service(), f"EXPLAIN {COUNT}"))]
    assert "  no condition that prunes files" in free
    analyzed = [row["plan"] for row in rows(ask(make_service(), f"EXPLAIN ANALYZE {COUNT}"))]
    assert analyzed[-1].endswith(", 1 row")


def test_tables_and_columns(make_service: Callable[..., QueryService]) -> None:
    """With their comments and ranges."""
    service = make_service()
    names = [row["name"] for row in rows(ask(service, "SHOW TABLES"))]
    assert {"logs", "metrics", "spans", "metrics_1m"} <= set(names)
    assert [service.describe("logs", who).rows for who in (ACME, OTHER, "nobody")] == [2, 1, 0]
    facts = service.describe("logs", ACME)
    assert facts.earliest is not None
    assert facts.earliest == facts.latest
    assert {column.name for column in facts.columns if column.comment} >= {"message", "timestamp"}
    with pytest.raises(TableMissing, match="there is no table nothing"):
        service.describe("nothing", ACME)


def test_spark_answers_what_is_too_large(make_lake: Callable[..., Lake], tmp_path: Path, spark: object) -> None:
    """By bytes, and where DuckDB has not the memory; the result is the same."""
    lake = make_lake()
    put(lake, ACME, Signal.LOGS, logs("one", "two", "three"))
    put(lake, OTHER, Signal.LOGS, logs("secret"))
    sql = "SELECT message, count(*) AS n FROM logs GROUP BY message ORDER BY message"
    expected = [{"message": word, "n": 1} for word in ("one", "three", "two")]
    services = [QueryService(lake, QueryConfig(threads=1, spark_bytes=size)) for size in (1, 10**9)]
    poor = QueryService(lake, QueryConfig(threads=1, memory_limit="1MB"))
    try:
        large = ask(services[0], sql)
        assert (rows(large), large.statistics.engine) == (expected, "spark")
        assert "more than query.spark_bytes" in large.statistics.notes[0]
        assert (rows(ask(services[1], sql)), rows(ask(services[0], sql))) == (expected, expected)
        with pytest.raises(QueryError, match="Spark has to run this query"):
            ask(services[0], "SELECT first(message) FROM logs")
        served = ask(poor, sql)
        assert (rows(served), served.statistics.engine) == (expected, "spark")
        assert served.statistics.notes == ("DuckDB ran out of memory",)
        assert not list(Path(lake.exchange.folder).glob("query-*"))
    finally:
        for service in (*services, poor):
            service.close()


def test_running_a_statement_is_not_planning_it(
    make_service: Callable[..., QueryService], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only planning makes an organization wait, also where DuckDB runs in this process."""
    events: list[str] = []
    begin = RunningQuery.begin

    @contextmanager
    def measure(_turns: PlanningTurns, _organization: str) -> Iterator[None]:
        events.append("plan")
        yield
        events.append("planned")

    def note_and_begin(running: RunningQuery, run: Any) -> None:
        events.append("run")
        begin(running, run)

    monkeypatch.setattr(PlanningTurns, "measure", measure)
    monkeypatch.setattr(RunningQuery, "begin", note_and_begin)
    assert rows(ask(make_service(cache_bytes=0), "SELECT 1 AS n")) == [{"n": 1}]
    # Writing the statement is planning, too: before it runs in this process, or for a worker when it begins.
    assert [event for event in events if event != "run"] == ["plan", "planned"] * 2
    assert events[events.index("run") - 1] == "planned"


@pytest.mark.parametrize("end", ["cancel", "timeout"])
def test_a_query_that_waits_to_be_planned_is_ended(own_lake: Lake, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """At once: in the pause of its organization, and behind another statement in that pause."""
    monkeypatch.setattr(planning_turns, "LONGEST_PAUSE_SECONDS", 86_400.0)
    turns = PlanningTurns()
    monkeypatch.setattr("neve.query.service.PlanningTurns", lambda _share: turns)
    service = QueryService(own_lake, QueryConfig(threads=1))
    turns.charge(ACME, 1e9)

    def wait() -> None:
        with suppress(QueryError):
            ask(service, COUNT, timeout_seconds=0.3 if end == "timeout" else 86_400.0)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    if end == "cancel":
        while len(waiting := service.running(ACME)) < 2:
            time.sleep(0.01)
        for one in waiting:
            one.cancel()
    for thread in threads:
        thread.join(600)
    assert not any(thread.is_alive() for thread in threads)
    assert rows(ask(service, COUNT, OTHER)) == [{"n": 1}]
    service.close()


class ListedSpark(SparkEngine):
    """Spark that has a number of rows for each statement, and notes how many it was asked for."""

    asked: ClassVar[list[int]] = []

    def run(self, _sql: str, most_rows: int, _check: object) -> Any:
        """Return the first rows."""
        self.asked.append(most_rows)
        return StoredRun(pa.table({"n": range(min(10, most_rows))}))


def test_a_result_of_spark_is_never_cut_off_silently(own_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stored on disk up to a number of rows. A longer one fails, unless fewer rows were asked for."""
    monkeypatch.setattr("neve.query.service.SparkEngine", ListedSpark)
    monkeypatch.setattr(ListedSpark, "asked", [])
    sql = "SELECT message FROM logs"
    short = QueryService(own_lake, QueryConfig(threads=1, spark_bytes=1, spark_result_rows=9, cache_bytes=0))
    with pytest.raises(LimitExceeded, match=r"more than 9 rows \(query.spark_result_rows\)"):
        rows(ask(short, sql))
    assert len(rows(ask(short, sql, limit=4))) == 4
    long = QueryService(own_lake, QueryConfig(threads=1, spark_bytes=1, spark_result_rows=10, cache_bytes=0))
    assert len(rows(ask(long, sql))) == 10
    assert ListedSpark.asked == [10, 5, 11]
    short.close()
    long.close()


class StartingSpark(SparkEngine):
    """Spark that never completes its start, in a service that cancels its queries meanwhile."""

    service: ClassVar[QueryService]

    def run(self, _sql: str, _most_rows: int, check: Callable[[], None]) -> Any:
        """Wait for the start."""
        check()
        self.service.close()
        while True:
            check()
            time.sleep(0.01)


def test_a_cancelled_query_does_not_wait_for_a_start_of_spark(own_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start takes a minute on a busy machine."""
    monkeypatch.setattr("neve.query.service.SparkEngine", StartingSpark)
    service = QueryService(own_lake, QueryConfig(threads=1, spark_bytes=1, cache_bytes=0))
    monkeypatch.setattr(StartingSpark, "service", service, raising=False)
    with pytest.raises(QueryCancelled):
        rows(ask(service, "SELECT message FROM logs"))
