"""Ask the collector about every case and keep what it says: `python -m tests.tail.oracle.record`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.parts import tailsampler
from tests.tail.oracle import arrivals, cases, make, real, recording

if TYPE_CHECKING:
    from tests.parts.tailsampler import Judged
    from tests.tail.oracle.cases import Case


def ask() -> dict[str, Judged]:
    """Return what the collector says of the made traces under each case."""
    return _decide(make.frames(), cases.cases())


def ask_arrivals() -> dict[str, Judged]:
    """Return what the collector says of traces whose spans arrive in any order and repeatedly."""
    return _decide(arrivals.frames(), arrivals.cases())


def _decide(frames: bytes, asked: list[Case]) -> dict[str, Judged]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "traces.bin"
        path.write_bytes(frames)
        return tailsampler.decide(path, {case.name: case.yaml for case in asked})


def ask_real(path: Path) -> dict[str, Judged]:
    """Return what the collector says of the real traces under each case for them."""
    return tailsampler.decide(path, {case.name: case.yaml for case in real.cases()})


def main() -> int:
    """Write the recordings: of the made traces, and of the real ones where they are; 1 without the program."""
    if reason := tailsampler.missing():
        sys.stderr.write(f"{reason}\n")
        return 1
    made = recording.Recording(tailsampler.VERSION, cases.digest(), ask())
    recording.write(cases.DECISIONS, made, cases.trace_ids())
    mixed = recording.Recording(tailsampler.VERSION, arrivals.digest(), ask_arrivals())
    recording.write(arrivals.DECISIONS, mixed, arrivals.trace_ids())
    if real.TRACES.exists():
        found = recording.Recording(tailsampler.VERSION, real.digest(), ask_real(real.TRACES))
        recording.write(real.DECISIONS, found, real.trace_ids())
    return 0


if __name__ == "__main__":
    sys.exit(main())
