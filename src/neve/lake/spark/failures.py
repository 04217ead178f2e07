"""The cause of a failure of Spark, in one line.

Errors of Spark have up to a hundred lines: where Python called the JVM, the stack of the JVM, and, if a task failed,
the traceback of the task as text inside of it. The cause is at the end of the innermost part.
"""

from __future__ import annotations

import re

TRACEBACK = "Traceback (most recent call last):"
MOST_CHARACTERS = 300

# `ModuleNotFoundError: No module named 'x'` at the end of a traceback, not indented as its frames are.
PYTHON_ERROR = re.compile(
    r"^(?P<name>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Fault|Timeout)\w*)(?:: (?P<words>.*))?$"
)
JAVA_ERROR = re.compile(r"^(?:Caused by: |: )(?P<name>[\w.$]+(?:Exception|Error)\w*)(?:: (?P<words>.*))?$")


def find_cause(text: str) -> str:
    r"""Return the cause from the text of an error.

    >>> find_cause("An error occurred while calling o1.collect.\n: java.io.IOException: disk full\n\tat x")
    'IOException: disk full'
    """
    lines = text.splitlines()
    innermost = max((number for number, line in enumerate(lines) if line.strip() == TRACEBACK), default=-1)
    if innermost >= 0:
        for line in lines[innermost + 1 :]:
            if found := PYTHON_ERROR.match(line):
                return _describe(found)
    causes = [found for line in lines if (found := JAVA_ERROR.match(line))]
    if causes:
        return _describe(causes[-1])
    return next((line.strip() for line in lines if line.strip()), "unknown")[:MOST_CHARACTERS]


def _describe(found: re.Match[str]) -> str:
    name = found["name"].rpartition(".")[2]
    return (f"{name}: {found['words']}" if found["words"] else name)[:MOST_CHARACTERS]
