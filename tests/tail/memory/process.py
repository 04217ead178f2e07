"""A selector in memory as a process of its own: `python -m tests.tail.memory.process neve.yaml`."""

import json
import sys

from neve.app.settings import load_settings
from neve.app.tail_memory import run_memory
from tests.tail.memory.doors import open_doors


def main() -> None:
    """Run until it is told to stop; a line says where the doors are, another what was done."""
    run = run_memory(load_settings(sys.argv[1], {}), doors=open_doors, ready=_say, tell=lambda _result: None)
    _say({"decided": run.decided.traces, "sampled": run.sampled.spans, "undelivered": run.undelivered})


def _say(words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
