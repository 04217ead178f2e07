"""The entry point `neve`: the command tree, and the exit codes and messages of errors.

Modules of this package import nothing heavy at module level, to keep `neve --help` fast.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import click

from neve import __version__
from neve.cli.context import Context
from neve.cli.demo import demo, up
from neve.cli.ingest import ingest
from neve.cli.keys import keys
from neve.cli.lake import doctor, init, tables
from neve.cli.maintenance.autopilot import autopilot
from neve.cli.maintenance.compact import compact
from neve.cli.maintenance.maintain import maintain
from neve.cli.maintenance.rollup import rollup
from neve.cli.maintenance.search import search
from neve.cli.operator_commands import jobs, policies
from neve.cli.otap import otap
from neve.cli.output import print_error
from neve.cli.query import query
from neve.cli.sampling.reservoir import reservoir
from neve.cli.sampling.tail import tail
from neve.cli.serve import serve
from neve.cli.status import plan, status, top
from neve.errors import NeveError

EXTERNAL_PACKAGES = ("botocore", "psycopg2", "pyiceberg", "requests", "sqlalchemy")


class OutputClosed(Exception):
    """Raised when the reader of the output is gone, as in `neve query … | head`: not a failure."""


class CommandGroup(click.Group):
    """The command group that stops on a closed pipe instead of failing."""

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


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--config", "-c", metavar="FILE", help="Configuration file.  [default: neve.yaml, if it exists]")
@click.version_option(__version__, prog_name="neve")
@click.pass_context
def neve(context: click.Context, config: str | None) -> None:
    """A telemetry lakehouse that maintains itself: OpenTelemetry in, Apache Iceberg out.

    Settings come from neve.yaml and from NEVE_… variables (NEVE_SPARK__MASTER sets spark.master).
    """
    context.obj = Context(config)


for command in (
    *(init, ingest, query, tables, compact, maintain, rollup, search, tail, reservoir, otap, autopilot),
    *(keys, serve, status, top, plan, jobs, policies, doctor, demo, up),
):
    neve.add_command(command)


def main() -> None:
    """Run the command; print errors that a user can act on, and exit with 1."""
    try:
        code = neve(standalone_mode=False) or 0
    except OutputClosed:
        with suppress(OSError):  # the rest of the buffer is discarded
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        code = 130
    except NeveError as error:
        print_error(error, as_json="--json" in sys.argv)
        code = 1
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except Exception as error:
        if not _is_external(error):
            raise
        words = (str(error).splitlines() or [""])[0]
        outside = NeveError(f"{type(error).__name__}: {words}", hint="`neve doctor` says what is reachable")
        print_error(outside, as_json="--json" in sys.argv)
        code = 1
    sys.exit(code)


def _is_external(error: Exception) -> bool:
    """Return whether a disk, a network or a server failed, and not Neve."""
    return isinstance(error, OSError) or type(error).__module__.split(".")[0] in EXTERNAL_PACKAGES
