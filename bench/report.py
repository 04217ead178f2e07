"""Output of a benchmark: a table for people, one JSON line for programs.

Both say how busy the machine was: the cores that other processes used while the benchmark ran.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import ClassVar

import psutil

from bench.sizes import is_quick
from bench.usage import tree_cpu

Numbers = dict[str, float]


@dataclass(frozen=True)
class Moment:
    """CPU seconds of the whole machine and of this process tree at a moment."""

    wall_s: float
    busy_s: float
    own_s: float

    @classmethod
    def now(cls) -> Moment:
        """Read the clocks."""
        times = psutil.cpu_times()
        waiting = times.idle + getattr(times, "iowait", 0.0)
        steal = getattr(times, "steal", 0.0)
        guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # in user and nice, too
        return cls(time.monotonic(), sum(times) - waiting - steal - guest, tree_cpu())

    def load_since(self) -> Numbers:
        """Return the cores that other processes used since this moment, and the load average."""
        now = Moment.now()
        others = (now.busy_s - self.busy_s) - (now.own_s - self.own_s)
        return {
            "other_cores": max(0.0, others) / max(now.wall_s - self.wall_s, 1e-9),
            "cores": os.cpu_count() or 1,
            "load_1m": os.getloadavg()[0],
        }


@dataclass
class Report:
    """Numbers of ours and of the baselines, with the unit in each key, and their ratios."""

    bench: str
    ours: Numbers = field(default_factory=dict)
    baselines: dict[str, Numbers] = field(default_factory=dict)
    ratios: Numbers = field(default_factory=dict)

    began: ClassVar[Moment] = Moment.now()  # the start of the benchmark: its module imports this one first

    def show(self) -> None:
        """Print the table, then the JSON object as the last line."""
        print(f"\n{self.bench}{' (quick)' if is_quick() else ''}")
        for name, numbers in {"ours": self.ours, **self.baselines}.items():
            print(f"  {name:<14} " + "  ".join(f"{key} {value:,.4g}" for key, value in numbers.items()))
        print("  ratios         " + "  ".join(f"{key} {value:.2f}" for key, value in self.ratios.items()))
        load = Report.began.load_since()
        print(f"  load           others used {load['other_cores']:.1f} of {load['cores']} cores")
        body = {"bench": self.bench, "ours": self.ours, "baselines": self.baselines, "ratios": self.ratios}
        print(json.dumps(_rounded({**body, "load": load})), flush=True)
        Report.began = Moment.now()


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value
