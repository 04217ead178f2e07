"""The stream job: runs a stream batch by batch until it is stopped or has caught up. The tables store the positions.

`segment_job.py` follows a raw zone without Spark until there is a batch. `query_job.py` follows Kafka with a Structured
Streaming query.
"""

from __future__ import annotations

import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from neve.errors import EnvironmentFault, StreamFailed
from neve.ingest.metrics import FAILURES, QUARANTINE_ROWS, count_batch
from neve.ingest.results import BatchResult, StreamResult
from neve.ingest.spark_crashes import engine_is_gone
from neve.lake.read.history import read_totals
from neve.lake.spark.session import has_spark_started
from neve.logger import get_logger
from neve.model.tables import QUARANTINE, SPANS

if TYPE_CHECKING:
    from neve.ingest.config import IngestConfig
    from neve.lake.lake import Lake

EMBEDDED_SECONDS, CLUSTER_SECONDS = 10, 60
START_POLL_SECONDS = 0.2

log = get_logger("neve.ingest")

BatchCallback = Callable[[BatchResult], None]
Take = Callable[[], BatchResult | None]
StartEngine = Callable[[], bool]  # starts Spark unless it runs, and returns whether it runs


class Stream(Protocol):
    """The common part of all streams."""

    def caught_up(self) -> bool:
        """Return whether a run that stops at the end is done.

        Called after all input that existed at its start was ingested.
        """

    def retry(self, start_engine: StartEngine) -> BatchResult | None:
        """Retry postponed work that is due. Called between batches. Return nothing if there is none.

        `start_engine` is called before work that needs Spark.
        """


@dataclass
class StreamJob(ABC):
    """One run of a stream, until it is stopped or has caught up.

    `tell` gets the result of each batch. `observe` calls the function that ingests a batch, and may measure it.
    """

    lake: Lake
    config: IngestConfig
    name: str
    stream: Stream
    tell: BatchCallback = lambda _result: None
    observe: Callable[[Take], BatchResult | None] = lambda take: take()
    result: StreamResult = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.lake.check_driver("a stream")
        self.result = StreamResult(self.name)

    def run(self, *, until_caught_up: bool = False, well: Callable[[], None] = lambda: None) -> StreamResult:
        """Ingest the stream. Raises `StreamFailed` if a batch fails.

        `well` is called when the stream was checked for data without an error, with or without a result.
        `EnvironmentFault` is raised if Spark or its JVM has ended: the process can't start another and must be
        restarted.
        """
        started = time.monotonic()
        try:
            self._run(until_caught_up, well)
        except Exception as error:
            if engine_is_gone():
                raise EnvironmentFault(f"the engine of the stream {self.name} has ended", hint=GONE_HINT) from error
            raise
        self.result.seconds = time.monotonic() - started
        return self.result

    def stop(self) -> None:
        """Stop after the current batch. Called from another thread."""
        self._stop.set()

    def _start_engine(self) -> bool:
        """Start Spark unless it runs, and return whether it runs; false if the job is stopped before."""
        if has_spark_started():
            return True
        started: Future[object] = Future()

        def start() -> None:
            try:
                started.set_result(self.lake.spark)
            except BaseException as error:
                started.set_exception(error)

        # In a thread that a stop does not wait for: on a busy machine the JVM takes a minute.
        threading.Thread(target=start, name=f"Spark for {self.name}", daemon=True).start()
        while not started.done():
            if self._stop.wait(START_POLL_SECONDS):
                return False
        started.result()
        return True

    @abstractmethod
    def _run(self, until_caught_up: bool, well: Callable[[], None]) -> None:
        """Ingest batches until stopped, or until the stream has caught up."""

    def _retry(self) -> None:
        """Retry postponed work of the stream, unless it is stopped. A failure does not end the run."""
        if self._stop.is_set():
            return
        try:
            result = self.stream.retry(self._start_engine)
        except Exception as error:
            FAILURES.labels(self.name).inc()
            log.warning("another attempt failed", stream=self.name, error=str(error))
            return
        self._count(result)

    def _count(self, result: BatchResult | None) -> None:
        if result is None:
            return
        self.result.add(result)
        count_batch(result)
        QUARANTINE_ROWS.set(read_totals(self.lake.table(QUARANTINE.name)).rows)
        self.tell(result)

    def _failure(self, error: Exception) -> StreamFailed:
        return StreamFailed(f"the stream {self.name} ended: {find_cause(error)}", hint=HINT)

    def _checkpoint(self) -> str:
        """Return the location of the checkpoint. It depends on the table: new tables have no data of the stream."""
        root = self.config.checkpoints
        lake = self.lake.table(SPANS.name).metadata.table_uuid
        return f"{root if '://' in root else Path(root).expanduser().resolve()}/{self.name}-{lake}"


GONE_HINT = "start the command again, it continues from the positions in the tables; check the memory of the machine"
HINT = "start it again: nothing is lost or duplicated; run `neve doctor` to see what is reachable"


def commit_seconds(config: IngestConfig, lake: Lake) -> float:
    """Return the commit interval of a stream."""
    if config.commit_seconds:
        return config.commit_seconds
    return EMBEDDED_SECONDS if lake.spark_config.is_local else CLUSTER_SECONDS


# The last line of a Python traceback, and the class name of a Java error within a line.
PYTHON_ERROR = re.compile(
    r"^(?!(?:java|javax|org|scala|py4j)\.)(?:(?:\w+\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception|Exit))(?:: |$)"
)
JAVA_ERROR = re.compile(r"(?:[a-z]\w*\.)+(?:[A-Z][\w$]*)?(?:Error|Exception)\b")
TRACEBACK = "Traceback (most recent call last)"
STACK_FRAME = re.compile(r"^(?:at |Thread State)")


def find_cause(error: BaseException) -> str:
    r"""Return the line of an error that has its cause.

    Errors of Spark are long: they contain the traceback of a worker, whose last line has the cause, stack traces of the
    JVM, whose first line has it, and the state of its threads.

    >>> find_cause(RuntimeError("Job aborted: java.lang.Exception: no\n\tat a.b(c)\nThread State: RUNNABLE"))
    'java.lang.Exception: no'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(TRACEBACK in line for line in lines):
        causes = [line for line in lines if PYTHON_ERROR.match(line)]
        if causes:
            return causes[-1]
    for line in lines:
        named = [*JAVA_ERROR.finditer(line)]
        if named and not STACK_FRAME.match(line) and TRACEBACK not in line:
            return line[named[-1].start() :]
    return next(iter(lines), type(error).__name__)
