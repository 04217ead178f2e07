"""Starts the processes that run inputs, outlives them, and tells how each of them ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.child import TARGETS, Note, Target, ready_bombs
from tests.fuzz.report import Finding, Kind, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


ROOT = Path(__file__).parents[2]
LOOK_SECONDS = 0.25
BLOCKED_SECONDS = 120.0  # without a new input and without work of the processor: nothing will come any more
BLOCKED_CPU_SECONDS = 0.05
PAUSED_SECONDS = 10.0  # between two looks: this process was stopped meanwhile, and so was the other one
MOST_FINDINGS = 20  # of one target; then it is clear that there is work to do
OUT_OF_MEMORY = ("memory allocation of", "bad_alloc", "MemoryError", "out of memory", "Cannot allocate memory")
TAIL_BYTES = 4000


@dataclass(frozen=True)
class Plan:
    """How long and within which limits; `inputs` counts instead of seconds."""

    seed: int = 1
    seconds: float = 0.0
    inputs: int = 0
    memory_mb: int = 1024
    cpu_seconds: int = 20
    folder: Path = ROOT / ".make" / "fuzz"
    module: str = TARGETS  # that has the targets


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, what it reported, how far it came, and what ran at its end."""

    code: int
    lines: list[dict[str, str]]
    inputs: int
    peak_mb: float
    cpu_seconds: float
    running: bytes
    tail: str
    blocked: bool = False
    paused: float = 0.0  # seconds in which the fuzzer itself was stopped

    @property
    def tried(self) -> int:
        """How many inputs ran; one that ended the process counts, and the next process begins behind it."""
        return self.inputs + bool(self.running and self.death)

    @property
    def death(self) -> tuple[Kind, str] | None:
        """Why it did not come to its end by itself; nothing where it did."""
        if self.code == 0:
            return None
        if self.blocked:
            return Kind.HANG, f"no work for {BLOCKED_SECONDS:g} s"
        if self.code in (-signal.SIGXCPU, -signal.SIGKILL):
            return Kind.HANG, "more processor time than an input may take"
        if any(words in self.tail for words in OUT_OF_MEMORY):
            return Kind.MEMORY, f"exit code {self.code}\n{self.tail}"
        return Kind.CRASH, f"exit code {self.code}\n{self.tail}"


class ChildError(RuntimeError):
    """Raised when a process ends before it ran anything: that is no finding, but a mistake here."""


def guided_engine() -> bool:
    """Whether inputs can be guided by coverage here."""
    return find_spec("atheris") is not None


def fuzz(target: Target, plan: Plan, tell: Callable[[str], None]) -> Outcome:
    """Bombs first, then inputs without end, or as many as are planned."""
    guided = guided_engine() and not plan.inputs
    outcome = Outcome(target.name, "coverage" if guided else "seeded")
    outcome.left_out = [f"{bomb.name} (needs {bomb.missing})" for bomb in target.bombs() if bomb.missing]
    bombs = [bomb.name for bomb in ready_bombs(target)]
    while outcome.bombs < len(bombs) and len(outcome.findings) < MOST_FINDINGS:
        ended = _run(target, plan, ["--bombs", str(outcome.bombs)])
        label = bombs[min(outcome.bombs + ended.inputs, len(bombs) - 1)]
        _note(outcome, ended, tell, plan, label=label, confirm=partial(_repeats, target, plan))
        outcome.bombs += ended.tried
    _run_inputs(target, plan, outcome, tell, guided)
    return outcome


def repeat(target: Target, plan: Plan, path: Path, tell: Callable[[str], None]) -> Outcome:
    """Run one input that was kept."""
    outcome = Outcome(target.name, "repeated")
    _note(outcome, _run(target, plan, ["--repeat", str(path)]), tell, plan)
    return outcome


def _run_inputs(target: Target, plan: Plan, outcome: Outcome, tell: Callable[[str], None], guided: bool) -> None:
    """Start processes, one after the other, until the time is over or all inputs ran."""
    began, paused, done, lives = time.monotonic(), 0.0, 0, 0
    while len(outcome.findings) < MOST_FINDINGS:
        left = plan.seconds - (time.monotonic() - began - paused)
        if done >= plan.inputs if plan.inputs else left < 1:
            return
        arguments = ["--first", str(done), "--count", str(plan.inputs - done if plan.inputs else 10**9)]
        if guided:
            corpus = plan.folder / target.name / "corpus"
            corpus.mkdir(parents=True, exist_ok=True)
            arguments = ["--guided", str(int(left)), "--corpus", str(corpus)]
        ended = _run(
            target, plan, [*arguments, "--seed", str(plan.seed + lives * guided)], None if plan.inputs else left
        )
        done += ended.tried
        paused += ended.paused
        lives += 1
        _note(outcome, ended, tell, plan, confirm=partial(_repeats, target, plan))


def _repeats(target: Target, plan: Plan, path: Path) -> bool:
    """Run an input alone in a new process, and return whether it misbehaves again.

    Earlier inputs of a process leave memory behind, and libFuzzer watches threads that it does not know.
    """
    again = _run(target, plan, ["--repeat", str(path)])
    return again.death is not None or bool(again.lines)


def _note(
    outcome: Outcome,
    ended: Ended,
    tell: Callable[[str], None],
    plan: Plan,
    *,
    label: str = "",
    confirm: Callable[[Path], bool] = lambda _path: True,
) -> None:
    found = [
        Finding(outcome.target, Kind(line["kind"]), line["words"], bytes.fromhex(line["input"]), line["label"])
        for line in ended.lines
    ]
    if ended.death is not None:
        kind, words = ended.death
        if not ended.running:
            raise ChildError(f"the process for {outcome.target} ended before it ran an input: {words}")
        found.append(Finding(outcome.target, kind, words, ended.running, label))
    for finding in found:
        path = finding.save(plan.folder)
        where = f"{outcome.target}, {finding.label}" if finding.label else outcome.target
        tell(f"{finding.kind} in {where} (seed {plan.seed}): {finding.words.strip().splitlines()[-1]}")
        tell(f"  again: python -m tests.fuzz --target {outcome.target} --repeat {path}")
        if confirm(path):
            outcome.findings.append(finding)
        else:
            tell("  alone, in a new process, nothing happened")
            outcome.unrepeated.append(finding)
    outcome.inputs += ended.tried
    outcome.cpu_seconds += ended.cpu_seconds
    outcome.peak_mb = max(outcome.peak_mb, ended.peak_mb)


def _run(target: Target, plan: Plan, arguments: Sequence[str], seconds: float | None = None) -> Ended:
    """Run one process to its end; after `seconds` it is told to stop, which is a good end."""
    with tempfile.TemporaryDirectory(prefix="neve-fuzz-") as folder:
        note, log, out = (Path(folder) / name for name in ("note", "log", "out"))
        limits = ["--memory-mb", str(plan.memory_mb), "--cpu-seconds", str(plan.cpu_seconds)]
        command = [sys.executable, "-m", "tests.fuzz.child", "--target", target.name, "--note", str(note)]
        command += ["--module", plan.module]
        environment = {**os.environ, "RUST_BACKTRACE": "0", "TMPDIR": folder, "MALLOC_ARENA_MAX": "2"}
        with log.open("wb") as errors, out.open("wb") as printed:
            process = subprocess.Popen(
                [*command, *limits, *arguments], cwd=ROOT, env=environment, stdout=printed, stderr=errors
            )
            how, paused = _watch(process, note, seconds)
        inputs, peak_kb, cpu, running = Note.at(note).read()
        code = 0 if how == "stopped" else process.returncode
        lines = [json.loads(line) for line in out.read_text().splitlines() if line.startswith("{")]
        tail = log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
        return Ended(code, lines, inputs, peak_kb / 1024, cpu, running if code else b"", tail, how == "blocked", paused)


def _watch(process: subprocess.Popen[bytes], note: Path, seconds: float | None) -> tuple[str, float]:
    """Wait for the end, and tell how it came and for how long both were stopped meanwhile.

    A process that neither works nor gets on is ended.
    """
    began = changed = looked = time.monotonic()
    paused = 0.0
    state: tuple[int, float] = (-1, 0.0)
    while process.poll() is None:
        time.sleep(LOOK_SECONDS)
        now = time.monotonic()
        if now - looked > PAUSED_SECONDS:  # a pause is no hang
            changed, paused = now, paused + now - looked
        looked = now
        if seconds is not None and now - began - paused > seconds + 5:
            process.kill()
            process.wait()
            return "stopped", paused
        cpu, inputs = _cpu_seconds(process.pid), Note.at(note).read()[0] if note.exists() else 0
        if inputs != state[0] or cpu - state[1] > BLOCKED_CPU_SECONDS or waits_for_processor(process.pid):
            state, changed = (inputs, cpu), now
        elif now - changed > BLOCKED_SECONDS:
            process.kill()
            process.wait()
            return "blocked", paused
    return "ended", paused


def waits_for_processor(pid: int) -> bool:
    """Whether a thread could go on if it had a processor, or was stopped from outside: that is no hang."""
    states = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            states.add(thread.read_text().rpartition(")")[2].split()[0])
    return not states.isdisjoint("RTt")


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
