"""The worker process: run statements and programs of a server, one at a time, within limits of the operating system.

It has no catalog, no keys and no settings. It opens DuckDB with the settings that it receives, confined to one folder,
into which it links the files that a statement was planned to read. A program (`program.py`) requests the plan of each
of its statements from the server. A failure in here, be it memory, a crash or a loop that nothing interrupts, ends one
query.
"""

from __future__ import annotations

import os
import queue
import resource
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from neve.errors import LimitExceeded, QueryError
from neve.query.engine.channel import Channel, ChannelClosed, Frame, parse_document
from neve.query.engine.duckdb import BATCH_ROWS, InstanceSettings
from neve.query.engine.file_links import LinkedFiles
from neve.query.engine.program import KeptValues, ProgramContext, StatementRequest, find_error_class, load_function
from neve.query.sql.duckdb_statement import DuckDBStatement, check_duckdb_statement
from neve.time_slices import DEFAULT, current_time_slice, request_time_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

# CPU seconds after which a statement lowers its priority, and the niceness: short statements stay fast beside it.
PACES = ((2.0, 10), (10.0, 19))
PACE_SECONDS = 0.25
PART_BYTES, ROW_BYTES = 8 * 1024 * 1024, 128 * 1024 * 1024
RECURSION = 12_000  # a parse tree in JSON is deeper than Python's default limit
TRACE_CHARACTERS = 4000
KEPT_SHARE = 16  # of the memory is for values that programs keep


class StatementRefused(Exception):
    """Raised in a program when the server did not plan its statement. The server knows the reason."""


@dataclass
class RunningStatement:
    """The running statement or program, so that another thread can interrupt it but no later one."""

    number: int = -1
    connection: duckdb.DuckDBPyConnection | None = None
    is_interrupted: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, number: int, connection: duckdb.DuckDBPyConnection) -> None:
        """Start a statement or program."""
        with self.lock:
            self.number, self.connection, self.is_interrupted = number, connection, False

    def interrupt(self, number: int) -> None:
        """Interrupt a statement if it still runs."""
        with self.lock:
            if self.number == number and self.connection is not None:
                self.is_interrupted = True
                with suppress(duckdb.Error):
                    self.connection.interrupt()

    def check(self) -> None:
        """Raise an error if a program was interrupted between its statements."""
        if self.is_interrupted:
            raise duckdb.InterruptException("Query interrupted")

    def end(self) -> None:
        """End it: interrupts have no effect any more."""
        with self.lock:
            self.connection = None


class PriorityControl:
    """Priority of this process for a statement. It is lowered while a long statement runs.

    A niceness is relative to that of the server. The server sets the first one when it starts this process. A process
    of full priority has the server's time slices, which are short. With a lower priority they are those of the system,
    so that it does not preempt others when it wakes up.
    """

    def __init__(self, server_niceness: int, niceness: int = 0) -> None:
        self._began: float | None = None
        self._server = server_niceness
        self._niceness = niceness  # the current value
        self._slice = current_time_slice()
        if niceness:
            set_priority(server_niceness + niceness, DEFAULT)
        self._works = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self, niceness: int) -> None:
        """Start a statement at a niceness."""
        self._lower(niceness)
        self._began = time.process_time()
        self._works.set()

    def end(self) -> dict[str, Any]:
        """End the statement. Return its CPU seconds and the niceness of this process from now on.

        Few systems let a process raise its priority again.
        """
        self._works.clear()
        used = time.process_time() - self._began if self._began is not None else 0.0
        self._began = None
        if self._niceness:
            with suppress(OSError):
                set_priority(self._server, self._slice)
                self._niceness = 0
        return {"cpu_seconds": used, "niceness": self._niceness}

    def _lower(self, niceness: int) -> None:
        if niceness > self._niceness:
            self._niceness = niceness
            set_priority(self._server + niceness, DEFAULT)

    def _watch(self) -> None:
        while self._works.wait():
            time.sleep(PACE_SECONDS)
            began = self._began
            used = time.process_time() - began if began is not None else 0.0
            self._lower(max((niceness for seconds, niceness in PACES if used >= seconds), default=0))


class Worker:
    """Worker that responds to requests from a channel until it is closed."""

    def __init__(self, channel: Channel, pace: PriorityControl) -> None:
        self._channel = channel
        self._running = RunningStatement()
        self._pace = pace
        self._requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._plans: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def serve(self) -> None:
        """Open DuckDB, then respond to requests."""
        _, payload = self._channel.receive()
        opening = parse_document(payload)
        recipe = InstanceSettings(opening["memory"], opening["threads"], tuple(opening["statements"]))
        self._instance = recipe.open()
        self._memory_bytes = opening["memory_bytes"]
        self._kept = KeptValues(self._memory_bytes // KEPT_SHARE)
        self._files = LinkedFiles(opening["root"]) if opening["root"] else None
        threading.Thread(target=self._listen, daemon=True).start()
        limit_memory(opening["more_bytes"])
        self._channel.send(Frame.READY)
        while True:
            request = self._requests.get()
            if request is not None:
                self._answer(request)
            elif self._files is not None:
                self._files.offer(())

    def _listen(self) -> None:
        """Receive requests and interrupts. If the server is gone, end this process, even while a statement runs."""
        while True:
            try:
                frame, payload = self._channel.receive()
            except ChannelClosed:
                os._exit(0)
            if frame == Frame.INTERRUPT:
                self._running.interrupt(parse_document(payload)["number"])
            elif frame == Frame.PLANNED:
                self._plans.put(parse_document(payload))
            else:
                self._requests.put(parse_document(payload) if frame == Frame.REQUEST else None)

    def _answer(self, request: dict[str, Any]) -> None:
        limit_processor(request["cpu_seconds"])
        versions = request.get("versions")
        known = None if versions is None else tuple(map(tuple, versions))
        self._kept.enter(request["organization"], known, request.get("grown_from"))
        connection = self._instance.cursor()
        self._running.begin(request["number"], connection)
        self._pace.begin(request["niceness"])
        run = self._run_program if "function" in request else self._run
        try:
            for rows, batch in run(connection, request):
                # DuckDB's batches are full except for the last one, which goes with the end of the result. Those of
                # programs are not counted: small ones wait, large ones are sent at once.
                (self._channel.send if rows >= BATCH_ROWS else self._channel.hold)(Frame.BATCH, batch)
            self._channel.send_json(Frame.END, self._pace.end())
        except ChannelClosed:
            os._exit(0)
        except Exception as error:  # any error of a statement is a response
            self._channel.send_json(Frame.ERROR, {**describe_error(error), **self._pace.end()})
        finally:
            self._running.end()
            connection.close()

    def _run(self, connection: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> Iterator[tuple[int, Any]]:
        """Yield the parts of the result, each with the number of rows of its batch."""
        reader = self._execute(connection, request)
        self._channel.hold(Frame.SCHEMA, reader.schema.serialize())
        for batch in reader:
            yield from ((batch.num_rows, part.serialize()) for part in split_batch(batch))

    def _execute(self, connection: duckdb.DuckDBPyConnection, planned: dict[str, Any]) -> pa.RecordBatchReader:
        """Start a planned statement."""
        written = DuckDBStatement(planned["text"], planned["sources"], time_zone=planned["time_zone"])
        check_duckdb_statement(connection, written)
        for statement in written.session():  # the connection is closed after this statement
            connection.execute(statement)
        for statement in planned["grants"]:
            connection.execute(statement)
        if self._files is not None:
            self._files.offer(planned["files"])
        return connection.execute(written.sql()).to_arrow_reader(BATCH_ROWS)

    def _run_program(self, connection: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> Iterator[tuple[int, Any]]:
        """Yield the parts of a program's result. Nothing is sent before its first batch."""

        def read(wanted: StatementRequest) -> pa.RecordBatchReader:
            self._running.check()
            self._channel.send_json(Frame.PLAN, wanted.as_document())
            planned = self._plans.get()
            if "text" not in planned:
                raise StatementRefused
            return self._execute(connection, planned)

        context = ProgramContext(read, self._memory_bytes, self._running.check, self._kept, request["rollups"])
        is_first = True
        for batch in load_function(request["function"])(request["arguments"], context):
            if is_first:
                self._channel.hold(Frame.SCHEMA, batch.schema.serialize())
                is_first = False
            yield from ((0, part.serialize()) for part in split_batch(batch))


def describe_error(error: Exception) -> dict[str, Any]:
    """Return an error for the server. One that is no error of a query has its traceback, for the server's log."""
    kind, words = type(error).__name__, str(error)
    hint, limit = None, ""
    known = find_error_class(error)
    if known is not None and isinstance(error, QueryError):
        kind, words, hint = known.__name__, error.message, error.hint
        limit = error.limit if isinstance(error, LimitExceeded) else ""
    elif isinstance(error, MemoryError):
        kind = MemoryError.__name__  # numpy and Arrow have classes of their own
    trace = "" if known or isinstance(error, duckdb.Error) else "".join(traceback.format_exception(error))
    return {"kind": kind, "words": words, "hint": hint, "limit": limit, "trace": trace[-TRACE_CHARACTERS:]}


def split_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into parts of which the server can hold several.

    Raises `LimitExceeded` for a row that is too large.
    """
    todo = [batch] if batch.num_rows else []
    while todo:
        part = todo.pop()
        size = pa.ipc.get_record_batch_size(part)
        if size <= PART_BYTES or (part.num_rows == 1 and size <= ROW_BYTES):
            yield part
        elif part.num_rows == 1:
            raise QueryError(
                f"a row of the result has {size:,} bytes, at most {ROW_BYTES:,} are sent", hint="select fewer columns"
            )
        else:
            half = part.num_rows // 2
            todo += [part.slice(half), part.slice(0, half)]


def set_priority(niceness: int, time_slice: int) -> None:
    """Set the niceness and the time slice of all threads. Linux has both for each thread."""
    tasks = Path("/proc/self/task")
    for thread in [int(task.name) for task in tasks.iterdir()] if tasks.is_dir() else [0]:
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, thread, niceness)
            request_time_slices(time_slice, thread)


def limit_memory(more_bytes: int) -> None:
    """Limit the memory of this process to what is mapped now plus so many bytes, and disable core files.

    DuckDB does not count the states of some aggregates, so that its own limit does not hold.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mapped = mapped_bytes()
    if mapped is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (mapped + more_bytes, mapped + more_bytes))


def mapped_bytes() -> int | None:
    """Return the private memory that this process has mapped, or `None` if the system does not report it."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    [line] = [line for line in text.splitlines() if line.startswith("VmData:")]
    return int(line.split()[1]) * 1024


def limit_processor(seconds: float | None) -> None:
    """Let the operating system end this process when a statement has used so much CPU time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft = hard if seconds is None else int(usage.ru_utime + usage.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def main() -> None:
    """Serve on the socket whose number is the first argument. The others are the niceness of the server and its own."""
    sys.setrecursionlimit(RECURSION)
    number, server_niceness, niceness = map(int, sys.argv[1:])
    with suppress(ChannelClosed, KeyboardInterrupt):
        Worker(Channel(socket.socket(fileno=number)), PriorityControl(server_niceness, niceness)).serve()


if __name__ == "__main__":
    main()
