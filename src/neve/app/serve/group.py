"""The process group: a household whose parts are processes of ours."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.app.serve.child import Child
from neve.app.serve.choice import RECEIVER
from neve.app.serve.household import Household

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.lifeline import Lifeline
    from neve.work.board import Board

# Of the time in which all must have ended: that a process may take to say what did not end in time, before it is
# killed, and that the group may take to say it.
GRACE_SECONDS = 5.0
GRACE_SHARE = 0.25  # at most, where there is little time
DRAIN = "NEVE_SERVE__DRAIN_SECONDS"


@dataclass(frozen=True)
class Launch:
    """How the processes are started: by which configuration file, as which instance, with which settings beside it.

    `spark_port` is where they share one Spark; none where each has its own.
    """

    config: str | None
    instance: str
    environment: Mapping[str, str] = field(default_factory=dict)
    spark_port: int | None = None

    def command(self, parts: Sequence[str], far_end: int) -> list[str]:
        """`neve serve` for the parts of one process, by the same interpreter."""
        return [
            *(sys.executable, "-m", "neve"),
            *(("--config", self.config) if self.config else ()),
            *("serve", "--json", "--only", ",".join(parts)),
            *("--instance", self.instance, "--lifeline", str(far_end)),
            # The port of those who watch is that of `tend`; a receiver that needs one says which it got.
            *(("--health-port", "0") if RECEIVER in parts else ()),
            *(("--spark-port", str(self.spark_port)) if self.spark_port else ()),
        ]


def build_group(
    processes: Mapping[str, Sequence[str]],
    config: ServeConfig,
    launch: Launch,
    lifeline: Lifeline,
    board: Board | None = None,
) -> Household:
    """Processes that are kept running, each with its parts, and told of on the board; they end when the lifeline does.

    A process that can't start says nothing there by itself. Told to stop, all of it ends within `drain_seconds`: the
    processes have a little less for what they have begun.
    """
    grace = min(GRACE_SECONDS, GRACE_SHARE * config.drain_seconds)
    patience = config.drain_seconds - grace
    environment = {**os.environ, **launch.environment, DRAIN: str(patience - grace)}
    children = [
        Child(process, launch.command(parts, lifeline.far_end), environment, lifeline.far_end, patience)
        for process, parts in processes.items()
    ]
    return Household(children, config, board)
