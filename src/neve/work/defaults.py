"""What applies where no policy says anything."""

from __future__ import annotations

from neve.work.batch import MB, Batch
from neve.work.policy import Policy, Rule
from neve.work.task import Task

BUILT_IN = "built-in"


def built_in(autopilot_hour: int | None) -> Policy:
    """The policy that comes last; the autopilot changes layouts, so that it runs only for those who set it up."""
    autopilot = Rule(cron=f"0 {autopilot_hour} * * *") if autopilot_hour is not None else Rule(enabled=False)
    return Policy(
        name=BUILT_IN,
        tasks={
            # A commit of spans makes a file for each of its buckets: so many are a dozen commits.
            Task.COMPACT: Rule(every="15m", batch=Batch(count=200, bytes=256 * MB, age_seconds=120)),
            # By the clock too: when no more points come, the last windows still close.
            Task.ROLLUP: Rule(every="5m", batch=Batch(age_seconds=20)),
            Task.SEARCH: Rule(every="10m", batch=Batch(age_seconds=60)),
            Task.MAINTAIN: Rule(cron="30 3 * * *"),
            Task.AUTOPILOT: autopilot,
        },
    )
