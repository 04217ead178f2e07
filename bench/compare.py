"""Compare a benchmark of this tree with that of another commit: `python -m bench.compare REV decode --rounds 3`.

Both run in turn on this machine, each with the benchmark code of its own tree and the packages of this environment.
For each number the best round counts, because other load only makes a run slower. A ratio is new to old.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.report import Numbers, Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
MORE_IS_BETTER = ("per_s", "per_cpu_s", "per_s_core", "pruned_bytes_share")


def main(arguments: Sequence[str]) -> None:
    """Run both trees in turn and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("revision", help="commit to compare with")
    parser.add_argument("benchmark", help="name of the benchmark")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each tree")
    parser.add_argument("--quick", action="store_true", help="small sizes; both commits must have them")
    given = parser.parse_args(arguments)
    options = ("--quick",) if given.quick else ()
    rounds: dict[str, list[Numbers]] = {"new": [], "old": []}
    with other_tree(given.revision) as (tree, python):
        for number in range(given.rounds):
            for name, where, interpreter in (("old", tree, python), ("new", ROOT, Path(sys.executable))):
                load = os.getloadavg()[0]
                print(f"round {number + 1} of {given.rounds}, {name}: the load is {load:.1f}", flush=True)
                rounds[name].append(run_benchmark(where, interpreter, given.benchmark, *options))
    summarize(given.benchmark, given.revision, best_of(rounds["new"]), best_of(rounds["old"])).show()


@contextmanager
def other_tree(revision: str) -> Iterator[tuple[Path, Path]]:
    """Check a commit out into a temporary folder, with an interpreter that imports its package."""
    with tempfile.TemporaryDirectory(prefix="neve-bench-compare-") as folder:
        tree, environment = Path(folder, "tree"), Path(folder, "environment")
        _git("worktree", "add", "--quiet", "--detach", str(tree), revision)
        try:
            venv.create(environment, with_pip=False)
            python = environment / "bin" / "python"
            packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
            (packages / "paths.pth").write_text(f"{tree / 'src'}\n{sysconfig.get_path('purelib')}\n")
            yield tree, python
        finally:
            _git("worktree", "remove", "--force", str(tree))


def run_benchmark(tree: Path, python: Path, name: str, *options: str) -> Numbers:
    """Run a benchmark and return the numbers of Neve's own way; its output goes on to standard error."""
    command = [str(python), "-m", "bench", name, *options]
    with subprocess.Popen(command, cwd=tree, stdout=subprocess.PIPE, text=True) as running:
        last = ""
        for line in running.stdout or ():
            sys.stderr.write(line)
            last = line.strip() or last
    if running.returncode:
        sys.exit(f"{' '.join(command)} ended with {running.returncode}")
    numbers: Numbers = json.loads(last)["ours"]
    return numbers


def best_of(rounds: Sequence[Numbers]) -> Numbers:
    """Take the best of each number over all rounds.

    >>> best_of([{"cpu_s": 2.0, "rows_per_cpu_s": 10}, {"cpu_s": 3.0, "rows_per_cpu_s": 12}])
    {'cpu_s': 2.0, 'rows_per_cpu_s': 12}
    """
    return {
        key: (max if key.endswith(MORE_IS_BETTER) else min)(numbers[key] for numbers in rounds if key in numbers)
        for key in rounds[0]
    }


def summarize(benchmark: str, revision: str, new: Numbers, old: Numbers) -> Report:
    """Put both sides and their ratios into a report."""
    both = [key for key in new if old.get(key) and new[key]]
    report = Report(f"compare {benchmark}", ours=new, baselines={revision: old})
    report.ratios = {key: new[key] / old[key] for key in both}
    return report


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1:])
