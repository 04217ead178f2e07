"""What commands that operate a lake share: its control, who is at the terminal, and jobs as JSON."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.app.control import Control
    from neve.cli.context import Context
    from neve.work.job import Job

TASKS = ("compact", "maintain", "rollup", "search", "autopilot")


@contextmanager
def controlling(context: Context) -> Iterator[Control]:
    """The control of the lake that the configuration describes."""
    from neve.app.control import open_control

    with open_control(context.settings, context.lake) as control:
        yield control


def user() -> str:
    """Who is at the terminal."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that nobody has a name for
        return "someone"


def job_document(job: Job) -> dict[str, object]:
    """A job for programs."""
    from neve.app.reports import JobReport

    return JobReport.model_validate(job).plain
