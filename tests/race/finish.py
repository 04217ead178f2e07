"""The end of a race: compaction is let alone, and everything that the dead left is settled."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from neve.compact.journal import GROUPS, Journal
from neve.errors import LeaseTaken
from neve.maintain.job import Maintainer
from neve.maintain.orphans import remove_orphans
from tests.race import table
from tests.race.house import LEASE_SECONDS, TABLE, compactor_of, documents_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.compact import Compactor, CompactResult
    from neve.lake.lake import Lake
    from tests.race.outcome import Outcome

RUNS = 4  # two groups of one partition leave two files, which are another group


def finish(lake: Lake, folder: Path, judge: Callable[[str, int], None], outcome: Outcome) -> list[str]:
    """Compact until there is nothing to do, and look at what is left; gives what is wrong with it."""
    compactor = compactor_of(lake, folder)
    results = [_when_free(compactor)]
    while results[-1].planned and len(results) <= RUNS:
        results.append(compactor.compact(TABLE))
    outcome.count_runs(result.as_document() for result in results)
    for result in results:
        outcome.settled.update(runs=len(result.continued), published=result.published_for_dead, orphans=result.orphans)
    outcome.refused = _remove_refused(lake)
    judge("the end", 0)
    return [trouble for trouble in (*_of_runs(results), *_left(lake, folder)) if trouble]


def _remove_refused(lake: Lake) -> int:
    """What dead runs wrote and the table refused: compaction leaves it alone, as the dead may be about to commit it."""
    step = partial(remove_orphans, older_than=timedelta(), force_young=True)
    (result,) = Maintainer(lake).run(TABLE, ["orphans"], how={"orphans": step})
    return result.outcome.gain.files


def _when_free(compactor: Compactor) -> CompactResult:
    """The first run; the last compactor died with its lease."""
    deadline = time.monotonic() + 3 * LEASE_SECONDS
    while True:
        try:
            return compactor.compact(TABLE)
        except LeaseTaken:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _of_runs(results: list[CompactResult]) -> list[str]:
    last = results[-1]
    return [
        f"no fixed point after {len(results)} runs: {last.reason}" if last.planned else "",
        *(f"an undisturbed run: {result}" for result in results if not result.is_whole or result.conflicts),
    ]


def _left(lake: Lake, folder: Path) -> list[str]:
    now = lake.table(TABLE)
    files, documents = table.files_of(now), documents_at(folder)
    runs = [run.id for run in Journal(documents, TABLE).runs()]
    groups = [key for key, _document in documents.entries(GROUPS)]
    return [
        f"{len(files.orphans)} files of compaction that no snapshot knows: {files.orphans[:5]}"
        if files.orphans
        else "",
        f"{len(runs)} runs that are not settled: {runs[:5]}" if runs else "",
        f"{len(groups)} groups in the journal that nobody will look at: {groups[:5]}" if groups else "",
    ]
