"""The entry point `neve`: the command tree, and the exit codes and messages of errors.

Modules of this package import nothing heavy at module level, to keep `neve --help` fast. The module of a command is
imported when the command is used.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import MutableMapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING, Any, TextIO

import click

from neve import __version__
from neve.cli.context import Context
from neve.cli.output import print_error
from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Iterator

START_THRESHOLD = 300_000  # new objects before the first collection; a query imports 140,000
THRESHOLD = 10_000  # new objects before each later collection; Python's own is 700
SPARK_PACKAGES = ("py4j", "pyspark")
EXTERNAL_PACKAGES = ("botocore", "psycopg2", "pyiceberg", "requests", "sqlalchemy", "sqlite3")
SECTIONS = {  # of `neve --help`: the module of each command
    "Start": {
        "demo": "neve.cli.demo",
        "up": "neve.cli.up",
        "init": "neve.cli.lake",
        "doctor": "neve.cli.lake",
        "setup": "neve.cli.installation",
        "completion": "neve.cli.installation",
        "help": "neve.cli.installation",
    },
    "Ingestion": {
        "ingest": "neve.cli.ingest",
        "otap": "neve.cli.otap",
        "serve": "neve.cli.serve",
    },
    "Queries": {
        "query": "neve.cli.querying.query",
        "logs": "neve.cli.querying.logs",
        "trace": "neve.cli.tracing.trace",
        "map": "neve.cli.tracing.service_map",
        "tables": "neve.cli.lake",
    },
    "Rules and sampling": {
        "rules": "neve.cli.alerting.rules",
        "tail": "neve.cli.sampling.tail",
        "reservoir": "neve.cli.sampling.reservoir",
    },
    "Tables": {
        "compact": "neve.cli.maintenance.compact",
        "maintain": "neve.cli.maintenance.maintain",
        "rollup": "neve.cli.maintenance.rollup",
        "search": "neve.cli.maintenance.search",
        "series": "neve.cli.maintenance.series",
        "traces": "neve.cli.maintenance.traces",
        "autopilot": "neve.cli.maintenance.autopilot",
    },
    "Operation": {
        "status": "neve.cli.status",
        "top": "neve.cli.status",
        "plan": "neve.cli.status",
        "jobs": "neve.cli.operator_commands",
        "policies": "neve.cli.operator_commands",
        "size": "neve.cli.size",
    },
    "Security": {
        "keys": "neve.cli.security.keys",
        "audit": "neve.cli.security.audit",
        "erase": "neve.cli.security.erase",
        "backup": "neve.cli.security.backup",
        "restore": "neve.cli.security.backup",
    },
}
MODULES = {name: module for commands in SECTIONS.values() for name, module in commands.items()}


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name; a command is imported from its module, which defines it under its name, at the first use."""

    def __init__(self, modules: dict[str, str]) -> None:
        self._modules = modules
        self._added: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._added:
            self._added[name] = getattr(import_module(self._modules[name]), name)
        return self._added[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._added[name] = command

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._modules, **self._added})

    def __len__(self) -> int:
        return len({**self._modules, **self._added})


class OutputClosed(Exception):
    """Raised when the reader of the output is gone, as in `neve query … | head`: not a failure."""


class CommandGroup(click.Group):
    """The command group, with commands in sections. It stops on a closed pipe instead of failing."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the arguments; `--help` and `--version` print here."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError as error:
            raise OutputClosed from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosed from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands of each section, with all texts in one column."""
        width = max(map(len, MODULES))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), self.commands[name].get_short_help_str(formatter.width)) for name in names]
                )


@click.group(
    cls=CommandGroup,
    commands=LazyCommands(MODULES),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("--config", "-c", metavar="FILE", help="Configuration file.  [default: neve.yaml, if it exists]")
@click.version_option(__version__, prog_name="neve")
@click.pass_context
def neve(context: click.Context, config: str | None) -> None:
    """A telemetry lakehouse that maintains itself: OpenTelemetry in, Apache Iceberg out.

    Settings come from neve.yaml and from NEVE_… variables (NEVE_SPARK__MASTER sets spark.master).
    """
    context.obj = Context(config)


# What a user can do after Ctrl+C. Other commands have nothing to continue.
NEXT_STEPS = {
    "init": "run it again to create the other tables",
    "ingest": "nothing is lost; run the same command again, it adds only what is missing",
    "compact": "every table is whole; the next run removes unpublished files and continues",
    "maintain": "every table is whole; run it again to continue",
    "rollup": "run it again, it continues with the windows that are not done",
    "search": "run it again, it continues with the files that are not indexed",
    "series": "run it again, it continues with the files that were not read",
    "traces": "run it again, it continues with the files that were not read",
    "tail": "run it again, it continues after the last cycle",
    "reservoir": "run it again, it continues with the windows that are not done",
    "otap": "run it again to complete it",
    "autopilot": "no table is changed by half; run it again to continue",
    "erase": "no table is changed by half; run it again to erase the rest",
    "backup": "a backup without a manifest is not used; run it again with --force",
    "restore": "run it again with --force",
    "demo": "run it again, steps that are done are quick",
    "setup": "run it again to fetch the other files",
}


# Processes that use these have threads and servers of their own, which end in their own way.
SLOW_EXITS = ("pyspark", "grpc", "uvicorn")
_exit_codes: list[int] = []  # of the commands of this process


def run() -> None:
    """Run the command as a program: `main`, and a quick end of the process."""
    atexit.register(_exit_at_once)  # handlers that are registered later run before it
    _spare_collections()
    main()


def _exit_at_once() -> None:
    """End the process without freeing what was imported, which takes 0.03 CPU seconds."""
    if any(name in sys.modules for name in SLOW_EXITS):
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(_exit_codes[-1] if _exit_codes else 1)  # without a code, an error was raised and printed


def main() -> None:
    """Run the command; print errors that a user can act on, and exit with 1."""
    with _watch_interrupts() as interrupted:
        try:
            code = neve(prog_name="neve", standalone_mode=False) or 0
        except OutputClosed:
            _discard(sys.stdout)
            code = 0
        except (click.Abort, KeyboardInterrupt):
            code = _report_interrupt()
        except Exception as error:
            # What was interrupted may fail in its own words, such as a JVM that is still starting.
            code = _report_interrupt() if interrupted.is_set() else _report_error(error)
    _exit_codes.append(code)
    sys.exit(code)


def _spare_collections() -> None:
    """Collect no garbage while modules are imported, and none at the end: a sixth of the CPU time of a command.

    Imported modules are no garbage, and at its end the process frees its memory anyway.
    """
    gc.set_threshold(START_THRESHOLD)
    gc.callbacks.append(_end_start)
    atexit.register(gc.freeze)


def _end_start(phase: str, _info: object) -> None:
    """After the first collection, exempt what was imported from later ones, which are frequent again."""
    if phase == "stop":
        gc.freeze()
        gc.set_threshold(THRESHOLD)
        gc.callbacks.remove(_end_start)


@contextmanager
def _watch_interrupts() -> Iterator[Event]:
    """Yield an event that Ctrl+C sets, beside the exception that it raises."""
    interrupted = Event()
    before = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or before in (signal.SIG_IGN, None):
        yield interrupted
        return

    def interrupt(_number: int, _frame: object) -> None:
        interrupted.set()
        logging.disable(logging.CRITICAL)  # libraries log the traceback of the call that is interrupted
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


def _report_interrupt() -> int:
    """Print one line with the next step. What libraries print on their way out is discarded."""
    command = next((word for word in sys.argv[1:] if word in MODULES), "")
    step = NEXT_STEPS.get(command)
    click.echo(f"interrupted: {step}" if step else "stopped", err=True)
    _discard(sys.stderr)
    return 130


def _report_error(error: Exception) -> int:
    """Print an error that a user can act on, and return the exit code; raise any other."""
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if type(error).__module__.split(".")[0] in SPARK_PACKAGES:
        error = _summarize_spark_failure(error)
    if not isinstance(error, NeveError):
        if not _is_external(error):
            raise error
        words = (str(error).splitlines() or [""])[0]
        error = NeveError(f"{type(error).__name__}: {words}", hint="run `neve doctor` to see what is reachable")
    print_error(error, as_json="--json" in sys.argv)
    return 1


def _summarize_spark_failure(error: Exception) -> NeveError:
    """Keep the whole error in a file of the user, and return its cause in one line."""
    from neve.lake.spark.failures import find_cause
    from neve.local_folders import user_folder

    path = Path(user_folder("neve-errors")) / f"spark-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    with suppress(OSError):
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return NeveError(f"Spark failed: {find_cause(str(error))}", hint=f"the whole error is in {path}")


def _discard(stream: TextIO) -> None:
    """Send the rest of a stream nowhere."""
    with suppress(OSError, ValueError):
        stream.flush()
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_external(error: Exception) -> bool:
    """Return whether a disk, a network or a server failed, and not Neve."""
    return isinstance(error, OSError) or type(error).__module__.split(".")[0] in EXTERNAL_PACKAGES
