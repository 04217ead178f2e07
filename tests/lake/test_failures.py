"""The cause of a failure of Spark in one line."""

from __future__ import annotations

import pytest

from neve.lake.spark.failures import MOST_CHARACTERS, find_cause

STACK = "\tat org.apache.spark.Thing.run(Thing.scala:42)\n" * 60
TASK = f"""\
An error occurred while calling o93.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 10, in main
    raise ValueError: no
Traceback (most recent call last):
  File "serializers.py", line 5, in loads
    return cloudpickle.loads(obj)
ModuleNotFoundError: No module named 'neve'

{STACK}
Caused by: org.apache.spark.api.python.PythonException: Traceback
"""
JVM = f"""\
An error occurred while calling o12.save.
: org.apache.spark.SparkException: Job aborted.
{STACK}Caused by: java.util.concurrent.ExecutionException: java.io.IOException: x
{STACK}Caused by: java.io.FileNotFoundException: /tmp/blockmgr-1/shuffle_0_0_0.data (No such file or directory)
{STACK}"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (TASK, "ModuleNotFoundError: No module named 'neve'"),
        (JVM, "FileNotFoundException: /tmp/blockmgr-1/shuffle_0_0_0.data (No such file or directory)"),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `x` can't be found.\n\n== SQL ==\nx",
            "[TABLE_OR_VIEW_NOT_FOUND] The table `x` can't be found.",
        ),
        ("Traceback (most recent call last):\n  no end of it", "Traceback (most recent call last):"),
        ("\n  \n", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_innermost_error_is_the_cause(text: str, cause: str) -> None:
    """A traceback of a task comes before the JVM's causes, and those before the first line."""
    assert find_cause(text) == cause


def test_a_cause_is_never_long() -> None:
    """An error may quote a whole record."""
    assert len(find_cause("x" * 10_000)) == MOST_CHARACTERS
    assert len(find_cause(f"Caused by: java.lang.Error: {'x' * 10_000}")) == MOST_CHARACTERS
