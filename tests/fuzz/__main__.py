"""Fuzz what reads the bytes and statements of strangers: `python -m tests.fuzz --minutes 30`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.report import Outcome, render, summarize
from tests.fuzz.supervisor import Plan, fuzz, guided_engine, repeat
from tests.fuzz.targets import TARGETS

SECONDS = 300.0


def main() -> int:
    """Fuzz every target, print what was found; 1 when anything was."""
    options = _options()
    names = options.target or list(TARGETS)
    began = time.monotonic()
    if options.repeat:
        plan = Plan(options.seed, memory_mb=options.memory_mb, cpu_seconds=options.cpu_seconds)
        outcomes = [repeat(TARGETS[name], plan, Path(options.repeat).resolve(), _tell) for name in names]
    else:
        outcomes = _fuzz_all(names, options)
    summary = summarize(outcomes, options.seed, time.monotonic() - began)
    sys.stdout.write(render(summary) + "\n")
    return 1 if any(outcome.findings for outcome in outcomes) else 0


def _fuzz_all(names: list[str], options: argparse.Namespace) -> list[Outcome]:
    jobs = min(options.jobs, len(names))
    total = (options.minutes or 0) * 60 + (options.seconds or 0) or (0 if options.inputs else SECONDS)
    plan = Plan(
        options.seed,
        seconds=total * jobs / len(names),
        inputs=options.inputs,
        memory_mb=options.memory_mb,
        cpu_seconds=options.cpu_seconds,
    )
    how = "guided by coverage" if guided_engine() and not options.inputs else "seeded, without coverage"
    _tell(f"{', '.join(names)}: {how}, seed {options.seed}, {plan.memory_mb} MB and {plan.cpu_seconds} CPU s an input")
    with ThreadPoolExecutor(jobs) as threads:
        outcomes = list(threads.map(lambda name: fuzz(TARGETS[name], plan, _tell), names))
    for outcome in outcomes:
        for bomb in outcome.left_out:
            _tell(f"left out in {outcome.target}: {bomb}")
    return outcomes


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long, all targets together")
    parser.add_argument("--seconds", type=float, help="the same in seconds; 300 where nothing is said")
    parser.add_argument("--inputs", type=int, default=0, help="a fixed number of inputs for each target instead")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="one of them; may be repeated")
    parser.add_argument("--seed", type=int, default=1, help="another seed makes other inputs")
    parser.add_argument("--memory-mb", type=int, default=1024, help="how much one input may take beyond the start")
    parser.add_argument("--cpu-seconds", type=int, default=20, help="processor time after which an input hangs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    parser.add_argument("--repeat", metavar="FILE", help="run one input that was found, for one target")
    options = parser.parse_args()
    if options.repeat and len(options.target or ()) != 1:
        parser.error("--repeat needs the one --target that the input is for")
    return options


def _tell(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
