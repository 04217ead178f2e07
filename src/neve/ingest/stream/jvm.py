"""Whether the engine of this process lives: the JVM, and Spark in it."""

from __future__ import annotations

import subprocess

from py4j.protocol import Py4JError
from pyspark import SparkContext

DEATH_SECONDS = 1.0  # between the end of a process's connections and its own


def engine_is_gone() -> bool:
    """Whether Spark has ended in this process, with its JVM or without it; there is no way to get another one."""
    return jvm_is_gone() or context_is_stopped()


def context_is_stopped() -> bool:
    """Whether Spark has stopped by itself in a JVM that lives; what this process stopped is not there to ask."""
    context = SparkContext._active_spark_context
    connection = getattr(context, "_jsc", None)
    if connection is None:
        return False
    try:
        return bool(connection.sc().isStopped())
    except (Py4JError, OSError):  # the JVM does not answer: whether it is gone is another question
        return False


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
