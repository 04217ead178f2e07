"""The process that runs inputs: within limits of memory and processor time, and with a note of what it runs now.

The note is a file that is mapped into memory, so that the process that started this one can read it however this one
ends. An input that raises what its target does not document is printed as one line of JSON, and the next one runs.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import mmap
import os
import random
import struct
import sys
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.fuzz.bombs import Bomb

HEADER = struct.Struct("<QQdQ")  # inputs, kilobytes at the peak, processor seconds, length of the input that runs
TARGETS = "tests.fuzz.targets"
MOST_INPUT = 96 * 1024 * 1024
MOST_GUIDED = 64 * 1024  # an input that libFuzzer makes
MOST_CHANGES = 4
NEVER = 10**6  # seconds of wall time until libFuzzer takes an input for hanging; a busy machine is no hang
SPARE_MB = 512  # above the bound, so that what breaks it is measured and not only refused
KILO = 1024


@dataclass(frozen=True)
class Target:
    """A reader of what strangers send, inputs to begin with, and how to change them."""

    name: str
    run: Callable[[bytes], None]
    allowed: tuple[type[Exception], ...]
    seeds: Callable[[], Sequence[bytes]]
    mutate: Callable[[random.Random, bytes], bytes]
    bombs: Callable[[], Sequence[Bomb]] = field(default=tuple)


@dataclass
class Note:
    """What runs, and what came of it so far."""

    memory: mmap.mmap
    inputs: int = 0
    peak_kb: int = 0

    @classmethod
    def at(cls, path: Path) -> Note:
        """Open or make the file."""
        with path.open("a+b") as file:
            file.truncate(HEADER.size + MOST_INPUT)
            return cls(mmap.mmap(file.fileno(), HEADER.size + MOST_INPUT))

    def begin(self, data: bytes) -> None:
        """Note an input before it runs."""
        self.memory[HEADER.size : HEADER.size + len(data)] = data
        self._write(len(data))

    def end(self) -> None:
        """Note that it ended."""
        self.inputs += 1
        self._write(0)

    def read(self) -> tuple[int, int, float, bytes]:
        """Inputs that ended, the peak in kilobytes, processor seconds so far, and the input that runs."""
        inputs, peak, seconds, length = HEADER.unpack_from(self.memory)
        return inputs, peak, seconds, self.memory[HEADER.size : HEADER.size + length]

    def _write(self, length: int) -> None:
        HEADER.pack_into(self.memory, 0, self.inputs, self.peak_kb, time.process_time(), length)


@dataclass
class Runner:
    """Runs inputs of one target."""

    target: Target
    note: Note
    memory_mb: int
    cpu_seconds: int
    base_kb: int = 0  # after the warm-up
    start_kb: int = 0  # before the input that runs
    label: str = ""  # of the bomb that runs
    is_spent: bool = False  # an input took too much memory
    seen: set[str] = field(default_factory=set)

    def limit(self) -> None:
        """Warm up, then let the operating system hold the limits."""
        from neve.query.engine.worker import limit_memory

        for data in self.target.seeds()[:30]:
            self.run(data)
        self.base_kb = _memory_kb("VmHWM")
        limit_memory((self.memory_mb + SPARE_MB) * KILO * KILO)
        self.note.inputs = self.note.peak_kb = 0

    def run(self, data: bytes) -> None:
        """Run an input; what it raises is printed."""
        from neve.query.engine.worker import limit_processor

        self._begin_measuring()
        self.note.begin(data)
        limit_processor(self.cpu_seconds)
        try:
            self.target.run(data)
        except self.target.allowed:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._report("memory" if isinstance(error, MemoryError) else "crash", error, data)
        self._judge_memory(data)
        self.note.end()
        if self.is_spent:
            os._exit(0)  # what was taken is not all given back: the next input begins in a new process

    def _begin_measuring(self) -> None:
        """Reset the peak of the process, so that an input is charged for its own memory only.

        Cycles that earlier inputs left are collected first. What remains of earlier inputs is a leak.
        """
        self.start_kb = _memory_kb("VmRSS")
        if self.base_kb and self.start_kb - self.base_kb > self.memory_mb * KILO // 2:
            gc.collect()
            self.start_kb = _memory_kb("VmRSS")
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

    def _judge_memory(self, data: bytes) -> None:
        peak = _memory_kb("VmHWM")
        self.note.peak_kb = max(self.note.peak_kb, peak)
        if not self.base_kb:
            return
        if peak - self.start_kb > self.memory_mb * KILO:
            grown = MemoryError(f"{(peak - self.start_kb) // KILO} MB beyond {self.start_kb // KILO} MB")
            self._report("memory", grown, data)
        elif self.start_kb - self.base_kb > self.memory_mb * KILO:
            left = MemoryError(f"{(self.start_kb - self.base_kb) // KILO} MB are left of the inputs before this one")
            self._report("memory", left, data)

    def _report(self, kind: str, error: BaseException, data: bytes) -> None:
        self.is_spent |= kind == "memory"
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        signature = f"{kind} {type(error).__name__} {where}"
        if signature in self.seen and not self.label:
            return
        self.seen.add(signature)
        words = "".join(traceback.format_exception(error))[-4000:]
        line = {"kind": kind, "label": self.label, "words": words, "input": data.hex()}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def _memory_kb(key: str) -> int:
    """Read memory of this process: VmRSS now, VmHWM at its peak. `getrusage` would begin with the parent's peak."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0


def seeded_inputs(target: Target, seed: int, first: int, count: int) -> Iterator[bytes]:
    """Inputs that a seed and their number make; the first ones are the seeds themselves."""
    seeds = target.seeds()
    for number in range(first, first + count):
        if number < len(seeds):
            yield seeds[number]
            continue
        chance = random.Random(f"{seed}/{target.name}/{number}")
        data = chance.choice(seeds)
        for _ in range(chance.randint(1, MOST_CHANGES)):
            data = target.mutate(chance, data)[:MOST_INPUT]
        yield data


def run_bombs(runner: Runner, first: int) -> None:
    """Run the bombs from a number on."""
    for bomb in ready_bombs(runner.target)[first:]:
        runner.label = bomb.name
        data = bomb.make()
        # Making it took some, too.
        runner.base_kb = max(runner.base_kb, _memory_kb("VmRSS") - runner.memory_mb * KILO // 2)
        runner.run(data)


def ready_bombs(target: Target) -> list[Bomb]:
    """The bombs that this version has a bound against."""
    return [bomb for bomb in target.bombs() if not bomb.missing]


def run_guided(runner: Runner, seed: int, seconds: int, corpus: Path) -> None:
    """Let libFuzzer choose what to change by what it reaches; this never returns."""
    import atheris

    target = runner.target
    for number, data in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(data)

    def change(data: bytes, most: int, own_seed: int) -> bytes:
        chance = random.Random(own_seed)
        if chance.random() < 0.4:
            changed: bytes = atheris.Mutate(data, most)
            return changed
        return target.mutate(chance, data)[:most]

    handlers = [f"-handle_{signal}=0" for signal in ("segv", "bus", "abrt", "ill", "fpe", "int", "term")]
    limits = [
        "-rss_limit_mb=0",
        "-malloc_limit_mb=0",
        f"-timeout={NEVER}",
        f"-max_len={MOST_GUIDED}",
        f"-artifact_prefix={corpus.parent}/",
    ]
    options = [f"-seed={seed}", f"-max_total_time={seconds}", "-print_final_stats=1", *limits, *handlers]
    atheris.Setup(["fuzz", *options, str(corpus)], runner.run, custom_mutator=change)
    atheris.Fuzz()


def load_target(module: str, name: str, guided: bool) -> Target:
    """Import a target; guided, with every branch of Neve counted."""
    with ExitStack() as counted:
        if guided:
            import atheris

            counted.enter_context(atheris.instrument_imports(include=["neve"]))
        target: Target = import_module(module).TARGETS[name]
    return target


def main() -> None:
    """Run what the command line says."""
    faulthandler.enable()  # a crash in native code says where Python was
    options = _options()
    runner = Runner(
        load_target(options.module, options.target, options.guided > 0),
        Note.at(Path(options.note)),
        options.memory_mb,
        options.cpu_seconds,
    )
    runner.limit()
    if options.guided:
        run_guided(runner, options.seed, options.guided, Path(options.corpus))
    if options.bombs is not None:
        run_bombs(runner, options.bombs)
    if options.repeat:
        runner.run(Path(options.repeat).read_bytes())
    for data in seeded_inputs(runner.target, options.seed, options.first, options.count):
        runner.run(data)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.child", description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--module", default=TARGETS, help="module that has the target")
    parser.add_argument("--note", required=True, help="file that says what runs")
    parser.add_argument("--memory-mb", type=int, required=True)
    parser.add_argument("--cpu-seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--count", type=int, default=0, help="how many inputs")
    parser.add_argument("--guided", type=int, default=0, help="seconds for which coverage guides")
    parser.add_argument("--corpus", default="")
    parser.add_argument("--bombs", type=int, default=None, help="number of the first bomb")
    parser.add_argument("--repeat", default="", help="file with one input")
    return parser.parse_args()


if __name__ == "__main__":
    main()
