"""What a sampler must keep of a folder, by the reference in plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.reservoir.otap.root_files import WITHOUT_ID
from neve.reservoir.sampling.methods import make_salt, sample_exact_total, sample_priority
from tests.reservoir.otap.contents import Told, contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.sampling.methods import Key

Sample = dict[str, float]
DAY = 86_400


def service_of(record: Told) -> str | None:
    """The name of a record's service."""
    return dict(record.resource).get("service.name")


def expected(
    folder: Path, config: ReservoirConfig, group_of: Callable[[Told], str | None] = service_of, signal: str = "logs"
) -> Sample:
    """The names of the records that are kept of the first day, and what each stands for.

    Every part has one root file; records without an id are told by its place among these and by theirs in it.
    """
    records = contents(folder, signal)
    parts = sorted({record.part for record in records})
    salt = make_salt("reservoir", config.name, signal, 0, DAY, *parts)
    groups: dict[str | None, list[tuple[Key, float]]] = {}
    names: dict[Key, str] = {}
    for part in parts:
        for place, record in enumerate(one for one in records if one.part == part):
            told = -1 - parts.index(part) * WITHOUT_ID - place if record.id is None else record.id
            names[part, told] = record.name
            weight = float(record.count) if config.weights == "adjusted_count" and record.count is not None else 1.0
            groups.setdefault(group_of(record), []).append(((part, told), weight))
    found: Sample = {}
    for group, items in groups.items():
        if config.method == "priority":
            kept = sample_priority(items, config.k or 1, salt)
        else:
            kept = sample_exact_total(items, config.k or 1, salt, group or "")
        found |= {names[one.key]: one.adjusted for one in kept}
    return found


def counts(folder: Path | str, signal: str = "logs") -> Sample:
    """The names of the records of a sample, and what each stands for."""
    found = contents(folder, signal)
    assert len({one.name for one in found}) == len(found)
    return {one.name: float(one.count) for one in found}
