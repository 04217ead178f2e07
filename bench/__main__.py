"""Run one benchmark, or all: `python -m bench decode --quick`."""

import argparse
import importlib
import os

from bench.sizes import QUICK

NAMES = (
    *("decode", "ingest", "records", "receive", "stream", "compact", "plan", "rollup", "search", "query", "promql"),
    *("logql", "traceql", "log_files"),
    *("tail", "reservoir", "autopilot", "alerts", "replay", "log_lines", "redact", "serve_start", "start"),
)


def main() -> None:
    """Run what the arguments select."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run benchmarks.")
    parser.add_argument("benchmark", nargs="?", default="all", help=f"all (the default), or one of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute each, for use while developing")
    given = parser.parse_args()
    if given.benchmark not in (*NAMES, "all"):
        parser.error(f"no benchmark {given.benchmark!r}: expected all or one of {', '.join(NAMES)}")
    if given.quick:
        os.environ[QUICK] = "1"  # before the modules are imported: their sizes are constants
    for name in NAMES if given.benchmark == "all" else (given.benchmark,):
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()
