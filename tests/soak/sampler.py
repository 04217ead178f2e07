"""The sampler: looks at the services every few seconds, from outside."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from neve.model.decision_tables import DECISIONS
from neve.model.levels import LEVELS
from neve.model.signals import Signal
from tests.soak.processes import members, memory_by_role
from tests.soak.sample import Sample
from tests.soak.watermark import Watermarks, data_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.lake import Lake
    from tests.soak.house import House

MINUTES = LEVELS[0]
COUNTED = (*(signal.table for signal in Signal), MINUTES.table, DECISIONS.name)


class Sampler(threading.Thread):
    """Samples since sending began; what it could not see is counted, since a table may change while it is read."""

    def __init__(self, houses: Sequence[House], every_seconds: float) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[Sample] = []
        self.errors: list[str] = []
        self._houses = houses
        self._every = every_seconds
        self._watermarks = Watermarks()
        self._ended = threading.Event()
        self._began = time.time()

    def run(self) -> None:
        """Look, again and again."""
        while not self._ended.wait(self._every):
            try:
                self.samples.append(self._look(self._houses[0].lake))
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()

    def _look(self, lake: Lake) -> Sample:
        memory = memory_by_role([member for house in self._houses for member in members(house.service.pid)])
        tables = {name: lake.table(name) for name in COUNTED}
        now = time.time()
        newest = {name: self._watermarks.newest(tables[name], "timestamp") for name in COUNTED[:-1]}
        decided = self._watermarks.newest(tables[DECISIONS.name], "decided_at")
        minute = newest[MINUTES.table]
        return Sample(
            at=now - self._began,
            memory=memory,
            lags={signal.table: now - (newest[signal.table] or self._began) for signal in Signal},
            files={name: data_files(table) for name, table in tables.items()},
            rollup_lag=None if minute is None else now - minute - MINUTES.seconds,
            decision_lag=None if decided is None else now - decided,
        )
