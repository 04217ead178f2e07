"""A process that runs statements of a server on DuckDB, one at a time, within limits of the operating system.

It knows no catalog, no keys and no settings. It opens DuckDB as it is told, confined to one folder, into which it links
the files that a statement was planned to read. What goes wrong in here, be it memory, a crash or a loop that nothing
interrupts, costs one statement.
"""

from __future__ import annotations

import os
import queue
import resource
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from neve.errors import QueryError
from neve.query.engine.channel import Channel, ChannelClosed, Frame, document_of
from neve.query.engine.duckdb import BATCH_ROWS, Recipe
from neve.query.engine.links import LinkedFiles
from neve.query.sql.written import Written, check_written

if TYPE_CHECKING:
    from collections.abc import Iterator

# Seconds of the processor after which a statement gives way to others, and how far: short ones stay quick beside it.
PACES = ((2.0, 10), (10.0, 19))
PACE_SECONDS = 0.25
PART_BYTES, ROW_BYTES = 8 * 1024 * 1024, 128 * 1024 * 1024
RECURSION = 12_000  # a parse tree in JSON is deeper than Python usually goes


@dataclass
class Running:
    """The statement that runs, so that another thread can interrupt it and no later one."""

    number: int = -1
    connection: duckdb.DuckDBPyConnection | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def interrupt(self, number: int) -> None:
        """End a statement, if it is still the one that runs."""
        with self.lock:
            if self.number == number and self.connection is not None:
                with suppress(duckdb.Error):
                    self.connection.interrupt()


class Pace:
    """Lowers the priority of this process while a statement of it runs for long."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._niceness = 0
        self._works = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self) -> None:
        """A statement begins."""
        self._began = time.process_time()
        self._works.set()

    def end(self) -> bool:
        """The statement ended; whether this process is as quick as before. Few systems let one raise its priority."""
        self._works.clear()
        self._began = None
        if self._niceness:
            try:
                set_niceness(0)
            except OSError:
                return False
            self._niceness = 0
        return True

    def _watch(self) -> None:
        while self._works.wait():
            time.sleep(PACE_SECONDS)
            began = self._began
            used = time.process_time() - began if began is not None else 0.0
            niceness = max((niceness for seconds, niceness in PACES if used >= seconds), default=0)
            if niceness > self._niceness:
                self._niceness = niceness
                set_niceness(niceness)


class Worker:
    """Answers requests from a channel until it is closed."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._running = Running()
        self._pace = Pace()
        self._requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def serve(self) -> None:
        """Open DuckDB, then answer."""
        _, payload = self._channel.receive()
        opening = document_of(payload)
        recipe = Recipe(opening["memory"], opening["threads"], tuple(opening["statements"]))
        self._instance = recipe.open()
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
        """Take requests and interruptions; a server that is gone ends this process, whatever it does."""
        while True:
            try:
                frame, payload = self._channel.receive()
            except ChannelClosed:
                os._exit(0)
            if frame == Frame.INTERRUPT:
                self._running.interrupt(document_of(payload)["number"])
            else:
                self._requests.put(document_of(payload) if frame == Frame.REQUEST else None)

    def _answer(self, request: dict[str, Any]) -> None:
        limit_processor(request["cpu_seconds"])
        connection = self._instance.cursor()
        with self._running.lock:
            self._running.number, self._running.connection = request["number"], connection
        self._pace.begin()
        try:
            for batch in self._run(connection, request):
                self._channel.send(Frame.BATCH, batch)
            self._channel.send_json(Frame.END, {"is_worn": not self._pace.end()})
        except ChannelClosed:
            os._exit(0)
        except Exception as error:  # any error of a statement is an answer
            hint = error.hint if isinstance(error, QueryError) else None
            words = error.message if isinstance(error, QueryError) else str(error)
            told = {"kind": type(error).__name__, "words": words, "hint": hint, "is_worn": not self._pace.end()}
            self._channel.send_json(Frame.ERROR, told)
        finally:
            with self._running.lock:
                self._running.connection = None
            connection.close()

    def _run(self, connection: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> Iterator[Any]:
        written = Written(request["text"], request["sources"])
        check_written(connection, written)
        for statement in request["grants"]:
            connection.execute(statement)
        if self._files is not None:
            self._files.offer(request["files"])
        reader = connection.execute(written.sql()).to_arrow_reader(BATCH_ROWS)
        self._channel.send(Frame.SCHEMA, reader.schema.serialize())
        for batch in reader:
            yield from (part.serialize() for part in slices_of(batch))


def slices_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts that its server can hold, several at a time; raises `LimitExceeded` for a row that it can't."""
    todo = [batch] if batch.num_rows else []
    while todo:
        part = todo.pop()
        size = pa.ipc.get_record_batch_size(part)
        if size <= PART_BYTES or (part.num_rows == 1 and size <= ROW_BYTES):
            yield part
        elif part.num_rows == 1:
            raise QueryError(
                f"a row of the result has {size:,} bytes, at most {ROW_BYTES:,} are sent", hint="ask for fewer columns"
            )
        else:
            half = part.num_rows // 2
            todo += [part.slice(half), part.slice(0, half)]


def set_niceness(niceness: int) -> None:
    """Set the priority of all threads; Linux keeps one for each."""
    tasks = Path("/proc/self/task")
    for thread in [int(task.name) for task in tasks.iterdir()] if tasks.is_dir() else [0]:
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, thread, niceness)


def limit_memory(more_bytes: int) -> None:
    """Let the operating system refuse memory beyond what is mapped now and so much more; write no core files.

    DuckDB does not count the states of some aggregates, so that its own limit does not hold.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mapped = mapped_bytes()
    if mapped is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (mapped + more_bytes, mapped + more_bytes))


def mapped_bytes() -> int | None:
    """Private memory that this process has mapped; `None` where the system does not tell."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    [line] = [line for line in text.splitlines() if line.startswith("VmData:")]
    return int(line.split()[1]) * 1024


def limit_processor(seconds: float | None) -> None:
    """Let the operating system end this process when a statement has used so much of the processor."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft = hard if seconds is None else int(usage.ru_utime + usage.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def main() -> None:
    """Serve on the socket whose number is the first argument."""
    sys.setrecursionlimit(RECURSION)
    with suppress(ChannelClosed, KeyboardInterrupt):
        Worker(Channel(socket.socket(fileno=int(sys.argv[1])))).serve()


if __name__ == "__main__":
    main()
