"""The one that is killed: `python -m tests.race.compactor FOLDER GATE`, which compacts until it dies.

It says what it does in lines of JSON. It starts Spark at once, and waits for the file GATE before its first run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import structlog

from neve.errors import LeaseTaken, NeveError
from tests.race.deaths import Death
from tests.race.house import TABLE, compactor_of, lake_at
from tests.race.points import arm

DEATH = "NEVE_RACE_DEATH"
IDLE_SECONDS, TAKEN_SECONDS = 0.1, 0.4
STARTED = time.monotonic()


def main() -> None:
    """Compact, over and over."""
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    folder, gate = map(Path, sys.argv[1:])
    lake = lake_at(folder, f"spark-{gate.name}.log")
    compactor = compactor_of(lake, folder)
    lake.spark.table(lake.spark_name(TABLE)).count()
    if words := os.environ.get(DEATH):
        arm(Death.of(words), say)
    say("ready")
    while not gate.exists():
        time.sleep(0.02)
    while True:
        say("begin")
        try:
            say("end", **compactor.compact(TABLE).as_document())
        except LeaseTaken:
            say("taken")
            time.sleep(TAKEN_SECONDS)
        except NeveError as error:
            say("error", error=f"{type(error).__name__}: {error}")
        time.sleep(IDLE_SECONDS)


def say(event: str, **more: object) -> None:
    """One line, at once: whoever says it may be dead in a moment."""
    sys.stdout.write(json.dumps({"event": event, "at": round(time.monotonic() - STARTED, 2), **more}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
