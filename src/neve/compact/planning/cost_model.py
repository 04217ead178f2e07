"""Cost model: cost and savings of a rewrite in seconds, requests and dollars, calibrated by past runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.compact.plan import Estimate, Executor
from neve.lake.config import PricesConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MB = 1024 * 1024
GB = 1024 * MB
TB = 1024 * GB
SPEEDS = {Executor.ARROW: 22.0 * MB, Executor.SPARK: 6.0 * MB}  # bytes per second of one core, measured on spans
START_SECONDS = {Executor.ARROW: 0.1, Executor.SPARK: 2.0}
OPEN_SECONDS = 0.005
READS_A_FILE = 2  # footer and data
PART_BYTES = 16 * MB
COMMIT_CALLS = 4  # manifest, manifest list, metadata, and the catalog's own
PAGE_FILES = 1000  # entries that one request lists
DAYS_A_MONTH = 30
ENOUGH_RUNS, ENOUGH_BYTES = 3, MB
RATIOS = (0.1, 1.2)


@dataclass(frozen=True)
class Measurement:
    """Actual cost of one group."""

    bytes_in: int
    bytes_out: int
    files_in: int
    files_out: int
    seconds: float
    executor: Executor


@dataclass(frozen=True)
class Calibration:
    """Learned values: bytes per second of each executor on one core, and output bytes per input byte."""

    speeds: dict[Executor, float] = field(default_factory=lambda: dict(SPEEDS))
    ratio: float = 1.0
    runs: int = 0


def calibrate(history: Sequence[Measurement]) -> Calibration:
    """Return medians of past rewrites, weighted by their bytes, so that a few outliers have no effect."""
    usable = [run for run in history if run.bytes_in >= ENOUGH_BYTES and run.seconds > 0]
    speeds = dict(SPEEDS)
    for executor in Executor:
        own = [(run.bytes_in / run.seconds, run.bytes_in) for run in usable if run.executor is executor]
        if len(own) >= ENOUGH_RUNS:
            speeds[executor] = weighted_median(own)
    if len(usable) < ENOUGH_RUNS:
        return Calibration(speeds, runs=len(usable))
    low, high = RATIOS
    ratio = weighted_median((run.bytes_out / run.bytes_in, run.bytes_in) for run in usable)
    return Calibration(speeds, min(high, max(low, ratio)), len(usable))


def weighted_median(values: Iterable[tuple[float, float]]) -> float:
    """Return the value that half of the weight is below.

    >>> weighted_median([(1.0, 1), (2.0, 1), (99.0, 1)])
    2.0
    """
    ordered = sorted(values)
    half, passed = sum(weight for _value, weight in ordered) / 2, 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= half:
            return value
    raise ValueError("no values, expected one at least")


@dataclass(frozen=True)
class Savings:
    """Daily savings of a rewrite, and its one-time cost."""

    dollars_per_day: float
    dollars: float

    @property
    def payback_days(self) -> float:
        """Days until the savings equal the cost."""
        return self.dollars / self.dollars_per_day if self.dollars_per_day > 0 else float("inf")


@dataclass(frozen=True)
class CostModel:
    """Prices, and known speed and compression."""

    prices: PricesConfig = field(default_factory=PricesConfig)
    calibration: Calibration = field(default_factory=Calibration)

    def estimate(
        self, files: int, size: int, outputs: int, output_bytes: int, executor: Executor, *, deletes: int = 0
    ) -> Estimate:
        """Estimate the cost of rewriting files into outputs on one core."""
        seconds = START_SECONDS[executor] + size / self.calibration.speeds[executor] + OPEN_SECONDS * (files + deletes)
        reads, writes = READS_A_FILE * files + deletes, _count_writes(outputs, output_bytes)
        requests = (reads * self.prices.get_per_1000 + (writes + COMMIT_CALLS) * self.prices.put_per_1000) / 1000
        return Estimate(
            output_files=outputs,
            output_bytes=output_bytes,
            seconds=seconds,
            api_calls=reads + writes + COMMIT_CALLS,
            dollars=requests + seconds / 3600 * self.prices.compute_per_core_hour,
        )

    def savings(self, files: int, size: int, estimate: Estimate, queries_per_day: float) -> Savings:
        """Return the savings of queries that read all of the files, and of storage."""
        fewer, less = files - estimate.output_files, max(0, size - estimate.output_bytes)
        a_query = (
            fewer * READS_A_FILE * self.prices.get_per_1000 / 1000
            + fewer / PAGE_FILES * self.prices.list_per_1000 / 1000
            + less / TB * self.prices.scan_per_tb
        )
        storage = less / GB * self.prices.storage_gb_month / DAYS_A_MONTH
        return Savings(queries_per_day * a_query + storage, estimate.dollars)


def _count_writes(outputs: int, size: int) -> int:
    """Count the requests that write objects: one for a small object, for a large one its parts, a start and an end."""
    parts = -(-size // outputs // PART_BYTES) if outputs else 0
    return outputs * (1 if parts <= 1 else parts + 2)
