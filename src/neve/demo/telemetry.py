"""The summary of generated telemetry: where it is, how much it is, and what is to be found in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from neve.demo.incident import Incident
    from neve.demo.interval import Interval
    from neve.demo.truth import Truth


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What was written, and the truth that questions can be checked against."""

    out: Path
    files: tuple[Path, ...]
    bytes: int
    run: Interval
    traces: int
    spans: int
    logs: int
    points: int
    incident: Incident
    truth: Truth
