"""What the collector decided, as it is kept: for each case one letter a trace."""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.parts.tailsampler import Judged, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LETTERS = string.digits + string.ascii_letters  # one for each outcome of a case


@dataclass(frozen=True)
class Recording:
    """What the collector said of each case; `digest` is that of the traces, in the order of `ids`."""

    collector: str
    digest: str
    judged: Mapping[str, Judged]


def write(path: Path, recording: Recording, ids: Sequence[str]) -> None:
    """Write a recording, a line for each case."""
    lines = [f"{json.dumps(name)}: {_case(judged, ids)}" for name, judged in sorted(recording.judged.items())]
    head = {"collector": recording.collector, "digest": recording.digest}
    path.write_text(f'{json.dumps(head)[:-1]}, "cases": {{\n' + ",\n".join(lines) + "\n}}\n")


def read(path: Path, ids: Sequence[str]) -> Recording:
    """Read a recording of the traces with these ids, in the order in which they were sent."""
    found = json.loads(path.read_text())
    judged = {name: _judged(case, ids) for name, case in found["cases"].items()}
    return Recording(found["collector"], found["digest"], judged)


def _case(judged: Judged, ids: Sequence[str]) -> str:
    """Return one case as JSON: its outcomes, and for each trace which of them it is."""
    if judged.refusal:
        return json.dumps({"refusal": judged.refusal})
    verdicts = [judged.verdicts[each] for each in ids]
    outcomes = sorted(set(verdicts), key=lambda each: (each.decision, each.policy, each.composite))
    letters = dict(zip(outcomes, LETTERS[: len(outcomes)], strict=True))
    kept = [[each.decision, each.policy, each.composite] for each in outcomes]
    return json.dumps({"outcomes": kept, "traces": "".join(letters[each] for each in verdicts)})


def _judged(case: dict[str, object], ids: Sequence[str]) -> Judged:
    """Return one case as the collector said it."""
    if "refusal" in case:
        return Judged(refusal=str(case["refusal"]))
    outcomes = {letter: Verdict(*each) for letter, each in zip(LETTERS, case["outcomes"], strict=False)}  # type: ignore[call-overload]
    return Judged({each: outcomes[letter] for each, letter in zip(ids, str(case["traces"]), strict=True)})
