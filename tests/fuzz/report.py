"""What a run found: a table for people, one JSON line for programs, and inputs that can be run again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAME_DIGITS = 16


class Kind(StrEnum):
    """How an input misbehaved."""

    CRASH = "crash"  # it raised what its target does not document, or ended the process
    HANG = "hang"  # it took more of the processor than an input may, or waits for ever
    MEMORY = "memory"  # it took more memory than an input may


@dataclass(frozen=True)
class Finding:
    """One input that misbehaved."""

    target: str
    kind: Kind
    words: str
    data: bytes
    label: str = ""  # of a bomb

    @property
    def name(self) -> str:
        """A name for its file, the same one each time."""
        return hashlib.sha256(self.data).hexdigest()[:NAME_DIGITS]

    def save(self, folder: Path) -> Path:
        """Keep the input, and beside it what happened."""
        path = folder / self.target / "found" / f"{self.kind}-{self.name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".bin").write_bytes(self.data)
        path.with_suffix(".txt").write_text(f"{self.label}\n{self.words}\n")
        return path.with_suffix(".bin")


@dataclass
class Outcome:
    """What came of one target."""

    target: str
    engine: str
    inputs: int = 0
    bombs: int = 0
    left_out: list[str] = field(default_factory=list)  # bombs that this version has no bound against
    peak_mb: float = 0.0
    cpu_seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    unrepeated: list[Finding] = field(default_factory=list)  # alone, in a new process, nothing happened

    def count(self, kind: Kind) -> int:
        """How many findings of a kind there are."""
        return sum(finding.kind is kind for finding in self.findings)

    @property
    def numbers(self) -> dict[str, Any]:
        """For the JSON line."""
        return {
            "engine": self.engine,
            "inputs": self.inputs,
            "bombs": self.bombs,
            "left_out": len(self.left_out),
            "crashes": self.count(Kind.CRASH),
            "hangs": self.count(Kind.HANG),
            "over_memory": self.count(Kind.MEMORY),
            "unrepeated": len(self.unrepeated),
            "peak_mb": round(self.peak_mb),
            "cpu_s": round(self.cpu_seconds, 1),
        }


def summarize(outcomes: Sequence[Outcome], seed: int, seconds: float) -> dict[str, Any]:
    """All numbers of a run; `total` adds them up, but for the peak, which is the highest."""
    total: dict[str, Any] = {"targets": len(outcomes)}
    for name in ("inputs", "bombs", "left_out", "crashes", "hangs", "over_memory", "unrepeated", "cpu_s"):
        total[name] = round(sum(outcome.numbers[name] for outcome in outcomes), 1)
    total["peak_mb"] = max((outcome.numbers["peak_mb"] for outcome in outcomes), default=0)
    total["seconds"] = round(seconds, 1)
    return {
        "bench": "fuzz",
        "seed": seed,
        "targets": {outcome.target: outcome.numbers for outcome in outcomes},
        "ours": total,
    }


def render(summary: dict[str, Any]) -> str:
    """The table, then the JSON line."""
    rows = {**summary["targets"], "all": summary["ours"]}
    columns = ("inputs", "bombs", "left_out", "crashes", "hangs", "over_memory", "unrepeated", "peak_mb", "cpu_s")
    lines = [f"{'target':<10}" + "".join(f"{column:>13}" for column in columns)]
    lines += [f"{name:<10}" + "".join(f"{row[column]:>13,}" for column in columns) for name, row in rows.items()]
    return "\n".join([*lines, json.dumps(summary)])
