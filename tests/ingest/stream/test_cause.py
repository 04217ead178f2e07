"""The cause of an ended stream, as users read it."""

from __future__ import annotations

import pytest

from neve.ingest.stream.job import find_cause

CONNECT = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: \
Task 0 in stage 5.0 failed 1 times, most recent failure: Lost task 0.0 in stage 5.0 (TID 3) (localhost executor \
driver): org.apache.spark.SparkException: Python worker failed to connect back.
\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:203)
Caused by: java.net.SocketTimeoutException: Accept timed out
\t... 15 more

=== Streaming Query ===
Identifier: raw [id = 1, runId = 2]
Current State: ACTIVE
Thread State: RUNNABLE"""
WORKER = """An error occurred while calling o83.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 5.0 failed 1 times: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/usr/lib/worker.py", line 1, in main
    process()
neve.errors.CommitConflict: another writer was faster
hint: run it again

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
\t... 1 more"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (CONNECT, "org.apache.spark.SparkException: Python worker failed to connect back."),
        (WORKER, "neve.errors.CommitConflict: another writer was faster"),
        ("the store is away\nhint: wait", "the store is away"),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_is_the_line_that_names_the_error(words: str, expected: str) -> None:
    """Neither the state of a thread nor a frame of a stack trace is a cause."""
    assert find_cause(RuntimeError(words)) == expected
