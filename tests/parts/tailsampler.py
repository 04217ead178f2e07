"""The collector's own tail sampling processor as a program that says what it decides: the oracle for Neve's."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.parts import cache, golang
from tests.parts.command import CommandError
from tests.parts.process import scratch

NAME = "tailsampler"
VERSION = "0.160.0"  # of the processor, as go.mod says
SOURCE = Path(__file__).with_name(NAME)


@dataclass(frozen=True)
class Verdict:
    """What the collector decided on a trace, and which policy decided it.

    `composite` is the sub-policy that a composite policy sampled it by, whether or not that policy decided.
    """

    decision: str  # sampled, not_sampled or dropped
    policy: str = ""
    composite: str = ""


@dataclass(frozen=True)
class Judged:
    """What a policy file came to: a verdict for each trace by its id in hex, or the reason for which it was refused."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    refusal: str = ""


def missing() -> str | None:
    """Say why the processor can't be asked here, or None when it can."""
    return None if program().exists() else f"{NAME}: not in the cache (python -m tests.parts.build {NAME})"


def program() -> Path:
    """Return where the cache keeps the program; a change of its source makes another one."""
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sorted(SOURCE.iterdir()))).hexdigest()
    return cache.place(NAME, f"{VERSION}-{digest[:8]}") / NAME


def make(into: Path) -> None:
    """Build the program in its folder of the cache, beside a copy of its source."""
    shutil.copytree(SOURCE, into, dirs_exist_ok=True)
    golang.install(".", into)


def decide(traces: Path, policies: Mapping[str, str]) -> dict[str, Judged]:
    """Ask the processor about the traces of a file, under each policy file by its name."""
    with scratch(NAME) as folder:
        for name, text in policies.items():
            (folder / f"{name}.yaml").write_text(text)
        files = [f"{name}.yaml" for name in policies]
        command = [str(program()), "-traces", str(traces.absolute()), *files]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(f"{NAME} failed: exit={done.returncode}\n{done.stderr[-3000:]}")
    return _judged(done.stdout)


def _judged(said: str) -> dict[str, Judged]:
    """Return what the lines say, by policy file."""
    judged: dict[str, Judged] = {}
    for line in map(json.loads, said.splitlines()):
        name = line["policies"].removesuffix(".yaml")
        if "error" in line:
            judged[name] = Judged(refusal=line["error"])
            continue
        verdict = Verdict(line["decision"], line.get("policy", ""), line.get("composite_policy", ""))
        judged.setdefault(name, Judged()).verdicts[line["trace_id"]] = verdict
    return judged
