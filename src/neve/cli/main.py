"""The command `neve`. Modules here import nothing heavy at the top: `neve --help` must answer at once."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import click

from neve import __version__
from neve.cli.autopilot import autopilot
from neve.cli.compact import compact
from neve.cli.context import Context
from neve.cli.demo import demo
from neve.cli.doctor import doctor
from neve.cli.ingest import ingest
from neve.cli.init import init
from neve.cli.jobs import jobs
from neve.cli.keys import keys
from neve.cli.maintain import maintain
from neve.cli.otap import otap
from neve.cli.output import complain
from neve.cli.plan import plan
from neve.cli.policies import policies
from neve.cli.query import query
from neve.cli.reservoir import reservoir
from neve.cli.rollup import rollup
from neve.cli.search import search
from neve.cli.serve import serve
from neve.cli.status import status
from neve.cli.tables import tables
from neve.cli.tail import tail
from neve.cli.top import top
from neve.cli.up import up
from neve.errors import NeveError

OUTSIDE = ("botocore", "psycopg2", "pyiceberg", "requests", "sqlalchemy")


class ReaderGone(Exception):
    """Raised when nobody reads our output any more, as in `neve query … | head`: no error, though click takes it so."""


class Commands(click.Group):
    """The commands, for which a closed pipe is a reason to stop and not a failure."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments; `--help` and `--version` print here."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--config", "-c", metavar="FILE", help="Configuration file.  [default: neve.yaml, where it exists]")
@click.version_option(__version__, prog_name="neve")
@click.pass_context
def neve(context: click.Context, config: str | None) -> None:
    """A telemetry lakehouse that tends itself: OpenTelemetry in, Apache Iceberg out.

    Settings come from neve.yaml and from NEVE_… variables (NEVE_SPARK__MASTER sets spark.master).
    """
    context.obj = Context(config)


for command in (
    *(init, ingest, query, tables, compact, maintain, rollup, search, tail, reservoir, otap, autopilot),
    *(keys, serve, status, top, plan, jobs, policies, doctor, demo, up),
):
    neve.add_command(command)


def main() -> None:
    """Run, and turn what a user can act on into words and an exit code of 1."""
    try:
        code = neve(standalone_mode=False) or 0
    except ReaderGone:
        with suppress(OSError):  # what is left to flush goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        code = 130
    except NeveError as error:
        complain(error, as_json="--json" in sys.argv)
        code = 1
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except Exception as error:
        if not _from_outside(error):
            raise
        words = (str(error).splitlines() or [""])[0]
        outside = NeveError(f"{type(error).__name__}: {words}", hint="`neve doctor` says what is reachable")
        complain(outside, as_json="--json" in sys.argv)
        code = 1
    sys.exit(code)


def _from_outside(error: Exception) -> bool:
    """Whether a disk, a network or a server failed, and not Neve."""
    return isinstance(error, OSError) or type(error).__module__.split(".")[0] in OUTSIDE
