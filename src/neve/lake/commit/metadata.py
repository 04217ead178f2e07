"""Commit changes of a table's metadata alone. The table is read again before every attempt and after an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from neve.errors import CommitConflict, CommitUnknown, NeveError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from neve.lake.lake import Lake

ATTEMPTS = 12
MAX_WAIT_SECONDS = 2


@dataclass(frozen=True)
class MetadataChange:
    """Updates that take effect together, and their requirements."""

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...] = ()


Decide = Callable[["Table"], MetadataChange | None]


def commit_metadata(lake: Lake, name: str, decide: Decide) -> Table:
    """Commit the change that `decide` returns for the current table, and return the changed table.

    `decide` returns None if nothing is left to do, and raises if the change must not be made. So a commit whose
    response was lost is recognised, and a changed table is evaluated again.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(CommitFailedException),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.02, max=MAX_WAIT_SECONDS),
        reraise=True,
    )
    try:
        return attempts(_attempt, lake, name, decide)
    except CommitFailedException as error:
        raise CommitConflict(
            f"other writers committed to {name} first {ATTEMPTS} times: {error}",
            hint="nothing was changed; run it again",
        ) from error


def _attempt(lake: Lake, name: str, decide: Decide) -> Table:
    table = lake.table(name)
    change = decide(table)
    if change is None:
        return table
    try:
        lake.catalog.commit_table(table, change.requirements, change.updates)
    except CommitFailedException:
        raise
    except Exception as error:
        _settle(lake, name, decide, error)
    return lake.table(name)


def _settle(lake: Lake, name: str, decide: Decide, error: Exception) -> None:
    """Find out whether a commit that ended in an error happened."""
    message = f"the change of {name} failed with {type(error).__name__}: {error}"
    try:
        left = decide(lake.table(name))
    except NeveError:
        raise CommitUnknown(message, hint="run it again: a change that succeeded is recognized") from error
    if left is not None:
        raise CommitUnknown(message, hint="run it again: a change that succeeded is recognized") from error
