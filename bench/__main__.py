"""Run one benchmark, or all: `python -m bench decode`."""

import importlib
import sys

NAMES = (
    *("decode", "ingest", "receive", "stream", "compact", "plan", "rollup", "search", "query", "promql"),
    *("logql", "traceql"),
    *("tail", "reservoir", "autopilot", "alerts", "replay", "log_lines", "redact", "serve_start", "start"),
)


def main(wanted: str) -> None:
    """Run what was asked for."""
    if wanted not in (*NAMES, "all"):
        sys.exit(f"no benchmark {wanted!r}: expected all or one of {', '.join(NAMES)}")
    for name in NAMES if wanted == "all" else (wanted,):
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "all")
