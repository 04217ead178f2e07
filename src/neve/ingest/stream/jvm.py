"""Whether the JVM of this process lives."""

from __future__ import annotations

import subprocess

from pyspark import SparkContext

DEATH_SECONDS = 1.0  # between the end of a process's connections and its own


def jvm_is_gone() -> bool:
    """Whether this process started a JVM that has ended; asked when something failed, so it may take its time."""
    started: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if started is None:
        return False
    try:
        started.wait(DEATH_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
