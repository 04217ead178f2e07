"""The process group of one `neve serve`: its name and token, its child processes, and the watch for a dead parent.

A child detects the exit of its parent by a pipe without writes, which closes with the parent.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from neve.app.serve.config import RECEIVER
from neve.app.serve.supervisor import Supervisor
from neve.errors import NeveError
from neve.local_folders import remove_secret_files
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.part import ReportDetails
    from neve.jobs.status_board import StatusBoard


GROUP_TOKEN = "_NEVE_GROUP_TOKEN"  # noqa: S105 - the variable that has it: command lines are for everyone to read
GROUP_HEADER = "x-neve-group"  # with the token, a process returns details to its group that it hides from other callers


def new_instance() -> str:
    """Return a name that contains the host and the process.

    Containers share host names and process ids, so a random part is added.
    """
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:4]}"


def new_group_token() -> str:
    """Return a token that only the processes of one group know."""
    return secrets.token_urlsafe(32)


def group_token() -> str:
    """Return the token of the group that this process belongs to; empty if it runs alone."""
    return os.environ.get(GROUP_TOKEN, "")


# Time limit for the exit of an orphan: the successor of its parent waits for its ports and its leases.
ORPHAN_SECONDS = 10.0
ORPHAN_EXIT_CODE = 75  # exit code of an orphan that exceeded it

log = get_logger("neve.serve")


class ParentPipe:
    """The parent's end of the pipe.

    Children inherit `far_end`, and read end-of-file when the parent is gone, for whatever reason.
    """

    def __init__(self) -> None:
        self.far_end, self._near_end = os.pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._near_end)
        os.close(self.far_end)


def stop_with_parent(far_end: int, orphan_seconds: float = ORPHAN_SECONDS) -> None:
    """Stop this process, as by SIGTERM, when its parent is gone; kill it if that takes too long."""

    def wait() -> None:
        os.read(far_end, 1)
        log.warning("parent process ended, stopping", seconds=orphan_seconds)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(orphan_seconds)
        log.error("drain timeout exceeded, running work was cancelled")
        remove_secret_files()
        sys.stderr.flush()
        os._exit(ORPHAN_EXIT_CODE)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


POLL_SECONDS = 0.1
# A process that the signal kills or interrupts has not started any work yet, or has ended all of it already.
CLEAN_EXIT_CODES = (0, -signal.SIGTERM, 128 + signal.SIGINT)


@dataclass(frozen=True)
class ChildProcess:
    """A command that prints a line of JSON when it is ready, and exits with code 0 when it is asked to stop.

    `inherited` is a file descriptor that it gets from this process. `patience_seconds` is the time limit for its exit.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    inherited: int
    patience_seconds: float

    def run(self, stop: threading.Event, report: ReportDetails) -> None:
        """Run the process until the event is set; raises `NeveError` if it exits by itself, or with an error."""
        process = self._spawn()
        log.info("process started", process=self.name, pid=process.pid)
        try:
            threading.Thread(target=self._listen, args=(process, report), daemon=True).start()
            while process.poll() is None and not stop.wait(POLL_SECONDS):
                pass
            if process.poll() is None:
                self._end(process)
        finally:
            if process.poll() is None:
                process.kill()
        code = process.wait()
        if code not in CLEAN_EXIT_CODES or not stop.is_set():
            raise NeveError(f"the process {self.name} ended: {describe_exit(code)}", hint="see its log")

    def _spawn(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                pass_fds=[self.inherited],
            )
        except OSError as error:
            raise NeveError(f"the process {self.name} can't be started: {error.strerror}") from error

    def _listen(self, process: subprocess.Popen[bytes], report: ReportDetails) -> None:
        """Report the ready line of the process; any other output is forwarded to the logs."""
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        with process.stdout as lines:
            for line in lines:
                ready = _parse_line(line)
                if ready is not None and process.poll() is None:
                    report({**ready, "pid": process.pid})
                else:
                    sys.stderr.write(line.decode(errors="replace"))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(self.patience_seconds)
        except subprocess.TimeoutExpired:
            log.error("process killed, it did not end in time", process=self.name, seconds=self.patience_seconds)
            process.kill()


def describe_exit(code: int) -> str:
    """Describe how a process ended.

    >>> describe_exit(1), describe_exit(-9)
    ('exit code 1', 'SIGKILL')
    """
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# Part of the drain time that is reserved for reports: a process reports what did not end in time before it is killed,
# and so does the group.
GRACE_SECONDS = 5.0
GRACE_SHARE = 0.25  # at most, if the drain time is short
DRAIN_VARIABLE = "NEVE_SERVE__DRAIN_SECONDS"


@dataclass(frozen=True)
class Launch:
    """The launch parameters of the processes: the configuration file, the instance, and additional settings.

    `spark_port` is the port of their shared Spark; none if each process has its own.
    """

    config: str | None
    instance: str
    environment: Mapping[str, str] = field(default_factory=dict)
    spark_port: int | None = None

    def command(self, parts: Sequence[str], far_end: int) -> list[str]:
        """Return the `neve serve` command for the parts of one process, with the same interpreter."""
        return [
            *(sys.executable, "-m", "neve"),
            *(("--config", self.config) if self.config else ()),
            *("serve", "--json", "--only", ",".join(parts)),
            *("--instance", self.instance, "--lifeline", str(far_end)),
            # The health port is that of `tend`; a receiver that needs one reports the port that it got.
            *(("--health-port", "0") if RECEIVER in parts else ()),
            *(("--spark-port", str(self.spark_port)) if self.spark_port else ()),
        ]


def build_group(
    processes: Mapping[str, Sequence[str]],
    config: ServeConfig,
    launch: Launch,
    lifeline: ParentPipe,
    board: StatusBoard | None = None,
) -> Supervisor:
    """Build the supervisor of the processes, each with its parts, which are reported on the status board.

    The group reports them, because a process that can't start reports nothing itself. The processes end when the pipe
    of the parent closes. When the group is stopped, all of it ends within `drain_seconds`: the processes have a little
    less for their work in progress.
    """
    grace = min(GRACE_SECONDS, GRACE_SHARE * config.drain_seconds)
    patience = config.drain_seconds - grace
    environment = {**os.environ, **launch.environment, DRAIN_VARIABLE: str(patience - grace)}
    children = [
        ChildProcess(process, launch.command(parts, lifeline.far_end), environment, lifeline.far_end, patience)
        for process, parts in processes.items()
    ]
    return Supervisor(children, config, board)
