"""Processes that run statements: what one statement does to its process, no other statement notices."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from neve.errors import LimitExceeded, QueryError
from neve.lake.duckdb import find_link_path
from neve.query.config import QueryConfig
from neve.query.engine.worker import PART_BYTES, split_batch
from neve.query.engine.worker_pool import WorkerPool
from neve.query.engine.worker_process import WorkerProcess, share_spill_bytes
from neve.query.engine.worker_run import WorkerStatement
from neve.query.limits import Limits
from neve.query.request import Request
from neve.query.service import Ports, QueryService
from neve.query.sql.duckdb_statement import DuckDBStatement
from tests.query.engine.unchecked import run_anything
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.lake.lake import Lake

pytestmark = pytest.mark.slow

COUNT = "SELECT count(*) AS n FROM spans"
LONG = "SELECT count(*) FROM range(3000000) AS a(x), range(300000) AS b(y) WHERE (x * y) % 7 = 3"


@pytest.fixture(scope="module")
def pool(lake: Lake) -> Iterator[WorkerPool]:
    """A pool with one warm worker."""
    made = WorkerPool(lake, QueryConfig(threads=1, memory_limit="300MB", warm_workers=1, spark_bytes=0, cache_bytes=0))
    yield made
    made.close()


@pytest.fixture(scope="module")
def service(lake: Lake, pool: WorkerPool) -> QueryService:
    """A service of that pool."""
    return QueryService(lake, pool.config, ports=Ports(engine=pool))


def ask(service: QueryService, sql: str, organization: str = ACME, **more: Any) -> list[dict[str, Any]]:
    """The rows of an answer."""
    running = service.start(Request(sql, organization, **more))
    rows: list[dict[str, Any]] = pa.Table.from_batches(running.batches(), running.schema).to_pylist()
    return rows


def run_text(pool: WorkerPool, text: str, files: tuple[str, ...] = (), limits: Limits | None = None) -> pa.Table:
    """Run a text as it is, as if it had come past every check of the tree."""
    run = pool.run(lambda root: DuckDBStatement(placed(text, root), {}, files), limits or Limits())
    try:
        run.begin()
        return pa.Table.from_batches(run.batches(), run.schema)
    finally:
        run.close()


def placed(text: str, root: str) -> str:
    """A text with `{root}/path` as the link to that path, and `{root}` alone as the folder of links."""
    return re.sub(r"\{root\}(/tmp[^']*)", lambda found: find_link_path(root, found[1]), text).replace("{root}", root)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch, lake: Lake) -> Iterator[WorkerPool]:
    """Workers that run any text: the wall behind the checks has to hold by itself."""
    run_anything(monkeypatch)
    made = WorkerPool(lake, QueryConfig(threads=1, memory_limit="300MB", warm_workers=0))
    yield made
    made.close()


def files_of(lake: Lake, owner: str) -> list[str]:
    """The data files of an organization's logs."""
    paths = [task.file.file_path.removeprefix("file://") for task in lake.table("logs").scan().plan_files()]
    return [path for path in paths if f"={owner}/" in path]


def stolen_by(pool: WorkerPool, text: str, planned: str) -> int:
    """Rows that a text reads while another file is planned."""
    try:
        return int(run_text(pool, text, (planned,)).num_rows)
    except (duckdb.PermissionException, duckdb.IOException):
        return 0


def test_a_worker_reads_the_planned_files_and_no_others(unchecked: WorkerPool, lake: Lake) -> None:
    """Even where a text gets past every check: not another organization's, not by another path, not by a glob."""
    [mine], [theirs] = files_of(lake, ACME)[:1], files_of(lake, OTHER)
    read = run_text(unchecked, f"SELECT message FROM read_parquet('{{root}}{mine}')", (mine,))
    assert read.num_rows == 2
    warehouse = lake.lake.location.removeprefix("file://")
    for path in (theirs, mine, f"{{root}}{theirs}", f"{warehouse}/**/*.parquet", "{root}/../**", "/etc/hostname"):
        for reader in ("read_parquet", "read_text", "read_blob"):
            assert stolen_by(unchecked, f"SELECT * FROM {reader}('{path}')", mine) == 0
    seen = run_text(unchecked, "SELECT file FROM glob('{root}/**')", (mine,)).column("file").to_pylist()
    assert [Path(path).name for path in seen] == [Path(find_link_path("/x", mine)).name]


def test_the_files_of_the_statement_before_are_gone(unchecked: WorkerPool, lake: Lake) -> None:
    """A worker serves many organizations, one after the other."""
    [mine], [theirs] = files_of(lake, ACME)[:1], files_of(lake, OTHER)
    assert run_text(unchecked, f"FROM read_parquet('{{root}}{theirs}')", (theirs,)).num_rows == 1
    assert stolen_by(unchecked, f"FROM read_parquet('{{root}}{theirs}')", mine) == 0


def test_a_worker_knows_no_secrets_of_its_server(unchecked: WorkerPool) -> None:
    """Its environment and its folder hold nothing that a query could be after."""
    assert not {"HOME", "NEVE_STATE__URL", "AWS_SECRET_ACCESS_KEY"} & unchecked.environment.keys()
    assert all(name.isupper() for name in unchecked.environment)
    with pytest.raises(Exception, match="getenv"):
        run_text(unchecked, "SELECT getenv('PATH')")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT mode(i) FROM range(60000000) AS t(i)",
        "SELECT median(i) FROM range(200000000) AS t(i)",
        "SELECT list(i) FROM range(200000000) AS t(i)",
        # As mode, these two count values in a map.
        pytest.param("SELECT entropy(i) FROM range(60000000) AS t(i)", marks=pytest.mark.long),
        pytest.param("SELECT histogram(i) FROM range(60000000) AS t(i)", marks=pytest.mark.long),
    ],
)
def test_memory_that_duckdb_does_not_count_is_bounded_by_the_system(service: QueryService, sql: str) -> None:
    """The states of these aggregates take gigabytes; the next query is answered."""
    with pytest.raises(LimitExceeded) as caught:
        ask(service, sql)
    assert caught.value.limit == "memory"
    assert ask(service, COUNT) == [{"n": 8}]


def test_a_crash_is_one_failed_query(service: QueryService, pool: WorkerPool) -> None:
    """Also for whoever asks at the same moment."""
    running = service.start(Request("SELECT * FROM range(3000000)", ACME))
    [other] = [worker for worker in busy(pool) if worker is not None]
    with pytest.raises(QueryError, match=r"the engine failed on this statement \(SIGSEGV\); other queries"):
        crash(pool, service)
    assert sum(batch.num_rows for batch in running.batches()) == 3_000_000
    assert other.is_alive
    assert ask(service, COUNT) == [{"n": 8}]


def busy(pool: WorkerPool) -> list[Any]:
    """The workers that run a statement."""
    return [worker for worker in STARTED if worker.is_alive and worker not in pool._idle]


STARTED: list[Any] = []


@pytest.fixture(autouse=True)
def _watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember every worker that a pool hands out."""
    take = WorkerPool.take

    def taken(self: WorkerPool, statement: Any) -> Any:
        worker = take(self, statement)
        STARTED.append(worker)
        return worker

    STARTED.clear()
    monkeypatch.setattr(WorkerPool, "take", taken)


def crash(pool: WorkerPool, service: QueryService) -> None:
    """Ask for something whose worker is hit by what a bug of DuckDB ends in."""
    before = set(map(id, busy(pool)))
    started = threading.Event()

    def hit() -> None:
        while not (new := [worker for worker in busy(pool) if id(worker) not in before]):
            time.sleep(0.001)
        started.set()
        new[0].process.send_signal(signal.SIGSEGV)

    thread = threading.Thread(target=hit)
    thread.start()
    try:
        ask(service, "SELECT count(*) FROM range(3000000) AS a(x), range(300000) AS b(y) WHERE (x * y) % 7 = 3")
    finally:
        thread.join()


def test_what_can_not_be_interrupted_is_killed(service: QueryService) -> None:
    """A worker that is stopped hears no interruption, as one in a loop of native code does not."""
    asked: list[Exception] = []

    def wait() -> None:
        try:
            ask(service, "SELECT count(*) FROM range(3000000) AS a(x), range(300000) AS b(y) WHERE (x * y) % 7 = 3")
        except QueryError as error:
            asked.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not STARTED or not service.running(ACME):
        time.sleep(0.001)
    [worker] = STARTED
    os.kill(worker.process.pid, signal.SIGSTOP)
    [running] = service.running(ACME)
    running.cancel()
    thread.join()
    assert [str(error) for error in asked] == ["the query was cancelled"]
    assert worker.process.wait() == -signal.SIGKILL
    assert ask(service, COUNT) == [{"n": 8}]


def test_a_late_kill_ends_no_other_query(
    service: QueryService, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that ends just when it is killed leaves a worker behind that nobody else may get."""
    run = pool.run(lambda _root: DuckDBStatement("SELECT 1 AS x"), Limits())
    run.begin()
    worker, end = STARTED[-1], WorkerProcess.end
    monkeypatch.setattr(
        WorkerProcess, "end", lambda self, why: None if self is worker and why == "interrupted" else end(self, why)
    )
    run._interrupted_at = 0.0  # it did not obey for long
    run.interrupt()
    assert [batch.num_rows for batch in run.batches()] == [1]
    run.close()
    assert worker not in pool._idle
    assert not worker.is_alive


def test_a_large_batch_comes_in_parts(pool: WorkerPool) -> None:
    """A server holds parts of several results at a time; a row that is too large is refused."""
    run = pool.run(lambda _root: DuckDBStatement("SELECT repeat('x', 20000) AS s FROM range(3000)"), Limits())
    run.begin()
    batches = list(run.batches())
    assert sum(batch.num_rows for batch in batches) == 3000
    assert max(batch.nbytes for batch in batches) <= PART_BYTES
    run.close()


def test_a_row_that_no_server_should_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is cut down to single rows, not further."""
    monkeypatch.setattr("neve.query.engine.worker.PART_BYTES", 1000)
    monkeypatch.setattr("neve.query.engine.worker.ROW_BYTES", 5000)
    texts = pa.RecordBatch.from_pydict({"s": ["a" * 4000, "b" * 10, "c" * 4000]})
    assert pa.Table.from_batches(split_batch(texts)).column("s").to_pylist() == texts.column("s").to_pylist()
    assert [part.num_rows for part in split_batch(texts)] == [1, 1, 1]
    with pytest.raises(QueryError, match="a row of the result has"):
        list(split_batch(pa.RecordBatch.from_pydict({"s": ["x", "y" * 6000]})))


def test_an_idle_worker_lets_go_of_files(service: QueryService, pool: WorkerPool, lake: Lake) -> None:
    """A link would keep on disk what the lake removes."""
    assert ask(service, COUNT) == [{"n": 8}]
    worker = STARTED[-1]
    assert list(Path(worker.root).iterdir())
    worker.rest()
    while list(Path(worker.root).iterdir()):
        time.sleep(0.001)
    assert ask(service, COUNT) == [{"n": 8}]


def test_no_organization_ends_the_idle_workers_of_another(lake: Lake) -> None:
    """One with its own memory limit needs another worker; making room for that costs its own workers only."""
    pool = WorkerPool(lake, QueryConfig(threads=1, memory_limit="300MB", warm_workers=1))

    def take(organization: str, memory: str) -> WorkerProcess:
        worker = pool.take(statement_of(organization, memory))
        pool.give_back(worker, is_good=True)
        return worker

    try:
        honest = take("honest", "300MB")
        first = take("hostile", "200MB")
        second = take("hostile", "250MB")
        assert take("honest", "300MB") is honest
        assert (first.is_alive, second.is_alive) == (False, True)
    finally:
        pool.close()


def test_unused_workers_stay_for_others(lake: Lake) -> None:
    """An organization with a memory limit of its own can't use them, and does not end them to make room."""
    pool = WorkerPool(lake, QueryConfig(threads=1, memory_limit="300MB", warm_workers=1))
    try:
        pool.give_back(pool.take(statement_of("", "300MB")), is_good=True)
        unused = list(pool._idle)
        hostile = pool.take(statement_of("hostile", "200MB"))
        assert unused
        assert all(worker.is_alive for worker in unused)
        pool.give_back(hostile, is_good=True)
    finally:
        pool.close()


def test_a_worker_starts_at_the_priority_of_its_statement(lake: Lake) -> None:
    """The first statement is not above its organization's share. The next one may be, if the system allows that."""
    pool = WorkerPool(lake, QueryConfig(threads=1, memory_limit="300MB", warm_workers=0))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        worker = pool.take(statement_of("hostile", "300MB", niceness=7))
        assert os.getpriority(os.PRIO_PROCESS, worker.process.pid) == min(own + 7, 19)
        assert worker.niceness == 7
        pool.give_back(worker, is_good=True)
        other = pool.take(statement_of("honest", "300MB"))
        assert other is not worker
        pool.give_back(other, is_good=True)
    finally:
        pool.close()


def statement_of(organization: str, memory: str, niceness: int = 0) -> WorkerStatement:
    """A statement that is not run."""
    return WorkerStatement(lambda _root: DuckDBStatement(""), memory, organization, None, niceness)


def test_a_long_statement_gives_way_to_short_ones(pool: WorkerPool) -> None:
    """All threads of its process do, and it runs at full priority again for the next one, or is replaced."""
    run = pool.run(lambda _root: DuckDBStatement(f"{LONG} UNION ALL SELECT * FROM range(1)"), Limits())

    def begin() -> None:
        with suppress(duckdb.InterruptException):
            run.begin()

    thread = threading.Thread(target=begin)
    thread.start()
    while not STARTED:
        time.sleep(0.001)
    pid = STARTED[-1].process.pid
    own = os.getpriority(os.PRIO_PROCESS, 0)
    while os.getpriority(os.PRIO_PROCESS, pid) < min(own + 10, 19):
        time.sleep(0.01)
    while thread.is_alive():
        run.interrupt()
        time.sleep(0.01)
    run.close()
    assert run_text(pool, "SELECT 1 AS x").num_rows == 1
    assert os.getpriority(os.PRIO_PROCESS, STARTED[-1].process.pid) == own


def test_priorities_are_relative_to_that_of_the_server() -> None:
    """A server at a low priority has workers that are not above it, and that still tell long statements apart."""
    code = (
        "import os; os.nice(3); from neve.query.engine.worker import PriorityControl as Control;"
        "own = os.getpriority(os.PRIO_PROCESS, 0); control = Control(own); control.begin(5);"
        "print(os.getpriority(os.PRIO_PROCESS, 0) - own, control.end()['niceness'] in (0, 5),"
        " os.getpriority(os.PRIO_PROCESS, 0) >= own)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["5", "True", "True"]


def test_the_processor_is_bounded_by_the_system(pool: WorkerPool) -> None:
    """Where the server itself can't end a statement any more, the system does."""
    with pytest.raises(LimitExceeded, match="more than 1 seconds of the processor") as caught:
        run_text(
            pool,
            "SELECT count(*) FROM range(3000000) AS a(x), range(300000) AS b(y) WHERE (x * y) % 7 = 3",
            limits=Limits(cpu_seconds=1),
        )
    assert caught.value.limit == "cpu_seconds"


@pytest.mark.parametrize(
    ("memory", "spill"), [("2GB", 1_250_000_000), ("500MB", 312_500_000), ("8GB", 1_250_000_000), ("1MB", 625_000)]
)
def test_less_memory_has_less_spill(memory: str, spill: int) -> None:
    """In proportion, so that a limited organization does not fill the disk; more memory than usual has no more."""
    assert share_spill_bytes(QueryConfig(), memory) == spill
    assert share_spill_bytes(QueryConfig(spill_bytes=0), memory) == 0


def test_statements_of_one_query_share_the_processor(pool: WorkerPool) -> None:
    """A run says what it used, and a later one has the rest. The error names the limit of the query."""
    run = pool.run(lambda _root: DuckDBStatement("SELECT sum(x) FROM range(3000000) AS t(x)"), Limits())
    run.begin()
    assert sum(batch.num_rows for batch in run.batches()) == 1
    run.close()
    assert run.cpu_seconds > 0
    with pytest.raises(LimitExceeded, match="more than 1000 seconds of the processor"):
        run_text(
            pool,
            "SELECT count(*) FROM range(3000000) AS a(x), range(300000) AS b(y) WHERE (x * y) % 7 = 3",
            limits=Limits(cpu_seconds=1000, used_cpu_seconds=1001),
        )


def test_a_worker_ends_with_its_server(pool: WorkerPool) -> None:
    """However the server ends: a closed channel is enough, also while a statement runs."""
    run = pool.run(lambda _root: DuckDBStatement("SELECT * FROM range(100000000)"), Limits())
    run.begin()
    worker = STARTED[-1]
    worker.channel.shut()
    worker.process.wait()
    run.close()


def test_a_folder_of_links_that_a_killed_server_left_is_removed(lake: Lake) -> None:
    """Its links would keep files on disk that the lake removed; the folder of a server at work stays."""
    at_work = WorkerPool(lake, QueryConfig(warm_workers=0))
    assert at_work.links is not None
    dead = at_work.links.path.parent / "dead"
    (dead / "worker").mkdir(parents=True)
    (dead / "lock").touch()
    WorkerPool(lake, QueryConfig(warm_workers=0)).close()
    assert not dead.exists()
    assert at_work.links.path.exists()
    at_work.close()
    assert not at_work.links.path.exists()


def test_results_are_those_of_this_process(lake: Lake, service: QueryService) -> None:
    """Types, nulls, nested values and empty results come through unchanged."""
    local = QueryService(lake, QueryConfig(threads=1, cache_bytes=0))
    for sql in (
        "SELECT * FROM spans ORDER BY trace_id",
        "SELECT * FROM logs WHERE false",
        "SELECT 1::DECIMAL(10, 2) AS a, INTERVAL 1 DAY AS b, [1, NULL] AS c, {'a': 'x'} AS d, MAP {'k': 1} AS e",
        "SELECT i, repeat('x', 100) AS s FROM range(10000) AS t(i)",
    ):
        tables = []
        for one in (local, service):
            running = one.start(Request(sql, ACME))
            tables.append(pa.Table.from_batches(running.batches(), running.schema))
        assert tables[0].equals(tables[1])
    local.close()


def test_a_table_of_another_user_can_not_be_linked(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is whether the tables' own files can be, not files that the server makes."""
    link = os.link

    def refuse(source: str, target: str) -> None:
        if str(source).endswith(".metadata.json"):
            raise PermissionError(1, "Operation not permitted", source)
        link(source, target)

    monkeypatch.setattr("neve.query.engine.worker_pool.os.link", refuse)
    made = WorkerPool(lake, QueryConfig(threads=1, warm_workers=0))
    assert made.links is None
    made.close()


def test_where_files_can_not_be_linked_the_warehouse_is_the_wall(lake: Lake, refuse_links: Callable[[], None]) -> None:
    """As on a file system without hard links; queries are answered all the same."""
    refuse_links()
    made = WorkerPool(lake, QueryConfig(threads=1, warm_workers=0, cache_bytes=0))
    assert made.links is None
    service = QueryService(lake, made.config, ports=Ports(engine=made))
    assert ask(service, COUNT) == [{"n": 8}]
    service.close()


@pytest.fixture
def refuse_links(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let hard links fail."""

    def refuse(*_paths: Any, **_more: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    return lambda: monkeypatch.setattr("neve.query.engine.file_links.os.link", refuse)


def test_the_folder_of_links_is_private(lake: Lake, pool: WorkerPool) -> None:
    """Links to every organization's files are nobody else's to read."""
    assert pool.links is not None
    assert Path(pool.links.path).stat().st_mode & 0o077 == 0


def test_a_worker_loads_little(pool: WorkerPool) -> None:
    """It starts in a third of a CPU second: it needs neither Iceberg nor the parser of the server."""
    names = ("pyiceberg", "sqlglot", "sqlalchemy", "pydantic", "pandas")
    code = f"import sys, neve.query.engine.worker; print([name for name in {names} if name in sys.modules])"
    command = [sys.executable, "-P", "-c", code]
    assert subprocess.run(command, env=pool.environment, capture_output=True, text=True, check=True).stdout == "[]\n"
