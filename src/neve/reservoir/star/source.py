"""The source folder as a run sees it: its files, what each holds, and which windows that makes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import ConfigError, InputError
from neve.lake.filesystem import filesystem_of
from neve.lake.lane import parallelism
from neve.otap.folder import Listing, list_folder
from neve.otap.joins import NONE
from neve.otap.part_ids import id_columns, offsets_of_part
from neve.otap.tables import STARS
from neve.reservoir.star.files import look_into, scheme_of
from neve.reservoir.star.plan import Plan, plan_windows
from neve.reservoir.star.tasks import run_told
from neve.reservoir.star.views import Parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from neve.lake.config import S3Config
    from neve.lake.lake import Lake
    from neve.otap.folder import OtapFile
    from neve.otap.ids import Offsets
    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.star.files import RootFile
    from neve.reservoir.star.ledger import Ledger, Sampled
    from neve.reservoir.star.plan import Turn, Wanted

FEW = 2  # files that are sooner looked into than handed out


@dataclass
class Source:
    """A folder of OTAP Parquet; parts are checked, and offsets of their batches found, once."""

    lake: Lake
    signal: str
    listing: Listing
    files: tuple[RootFile, ...] = ()
    offsets: dict[str, Offsets | None] = field(default_factory=dict)

    @classmethod
    def of(cls, lake: Lake, folder: str, signal: str) -> Source:
        """The folder as it is now."""
        folder = folder.rstrip("/")
        filesystem, base = filesystem_of(folder, lake.s3)
        listing, scheme = list_folder(base, filesystem), scheme_of(folder)
        if signal not in listing:
            raise InputError(f"{folder} has no folder {signal}", hint="name the signal: --signal logs or spans")
        files = {
            table: tuple(replace(file, path=scheme + file.path) for file in found) for table, found in listing.items()
        }
        return cls(lake, signal, Listing(files, listing.ignored))

    def looked_into(
        self, seconds: int, known: Mapping[tuple[str, int, int], RootFile], progress: Callable[[str, int, int], None]
    ) -> tuple[RootFile, ...]:
        """The root files, with the windows of their records; those that are known are not read again."""
        found = self.listing[self.signal]
        new = [file for file in found if _identity(file) not in known]
        s3 = self.lake.s3
        if len(new) <= FEW:
            looked = [look_into(file, seconds, s3) for file in new]
        else:
            work = partial(look_into, seconds=seconds, s3=s3)
            spark = self.lake.spark
            looked = run_told(spark, work, new, partial(progress, "new files"), slices=4 * parallelism(spark))
        all_of_them = {**known, **{file.identity: file for file in looked}}
        self.files = tuple(all_of_them[_identity(file)] for file in found)
        return self.files

    def parts_of(self, turn: Turn) -> Parts:
        """The parts that a window has records of."""
        parts = sorted({file.part for file in turn.files})
        for part in parts:
            if part not in self.offsets:
                self._check_ids(part)
                self.offsets[part] = offsets_of_part(self.lake.s3, self._files(part, tuple(self.listing)))
        files = {part: self._files(part, STARS[self.signal].tables) for part in parts}
        return Parts(files, {part: self.offsets[part] for part in parts})

    def _check_ids(self, part: str) -> None:
        """Refuse a part in which two records have one id: nothing tells whose the attributes are."""
        mine = [file for file in self.files if file.part == part]
        twice = next((file.twice for file in mine if file.twice is not None), None)
        if twice is None:
            twice = _shared_id(overlapping(mine), self.lake.s3)
        if twice is not None:
            raise InputError(
                f"two records of {self.signal} have the id {twice} in the part {part or 'of the flat folder'}",
                hint="`neve otap check` names all of them; nothing of the window was published",
            )

    def _files(self, part: str, tables: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        return {
            table: tuple(file.path for file in self.listing.get(table, ()) if file.part == part) for table in tables
        }


def plan_source(config: ReservoirConfig, files: Sequence[RootFile], ledger: Ledger, wanted: Wanted) -> Plan:
    """Which windows of a source are to be sampled into a target."""
    known = ledger.sampled()
    _check_length(config, known)
    return plan_windows(files, known, config.policy, wanted)


def _check_length(config: ReservoirConfig, known: Mapping[int, Sampled]) -> None:
    other = next((one for one in known.values() if one.seconds != config.window_seconds), None)
    if other is not None:
        raise ConfigError(
            f"{config.target} holds windows of {other.seconds} s, reservoir.window_seconds is {config.window_seconds}",
            hint="name another target: a record would be in two windows",
        )


def overlapping(files: Iterable[RootFile]) -> list[str]:
    """The files that may have an id which another has too, by the least and the largest of each."""
    found: set[str] = set()
    widest = (NONE, NONE, "")
    for stretch in sorted((*file.ids, file.path) for file in files if file.ids):
        if stretch[0] <= widest[1]:
            found |= {stretch[2], widest[2]}
        widest = max(widest, stretch, key=lambda one: one[1])
    return sorted(found)


def _shared_id(paths: Sequence[str], s3: S3Config) -> int | None:
    """An id that records of two files have."""
    ids = np.sort(np.concatenate([np.zeros(0, np.int64), *(id_columns(path, s3)[0] for path in paths)]))
    again = ids[1:][(ids[1:] == ids[:-1]) & (ids[1:] != NONE)]
    return int(again[0]) if len(again) else None


def _identity(file: OtapFile) -> tuple[str, int, int]:
    return file.path, file.size, file.modified_ms
