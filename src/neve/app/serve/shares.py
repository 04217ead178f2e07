"""What those who share one embedded Spark get of its cores and memory, so that ingestion never waits for a long task.

Spark takes no core back from a task that runs. So there is one task's place more than there are cores, and those who
work for long at a time leave it free between them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.lake.config import SparkConfig

ALL_CORES = "local[*]"
SORT_MEMORY_BYTES = 256 * 1024 * 1024  # 256 MB: a machine that receives and answers, too, has other uses for its memory


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover - not on Linux


def with_a_spare_place(spark: SparkConfig, count: int) -> SparkConfig:
    """The embedded default with one place more; whoever names a number, or a cluster, gets that.

    >>> from neve.lake.config import SparkConfig
    >>> with_a_spare_place(SparkConfig(), 4).master
    'local[5]'
    """
    if spark.connect or spark.master != ALL_CORES:
        return spark
    return spark.model_copy(update={"master": f"local[{count + 1}]"})


def with_shares(settings: Settings, count: int) -> Settings:
    """Compaction with the cores of one worker and half of its memory, where Spark is embedded and nothing was said."""
    if not settings.spark.is_local:
        return settings
    own = {"cores": max(1, count // settings.serve.workers), "sort_memory_bytes": SORT_MEMORY_BYTES}
    unsaid = {key: value for key, value in own.items() if key not in settings.compact.model_fields_set}
    return settings.model_copy(update={"compact": settings.compact.model_copy(update=unsaid)})
