"""How rows find their resource and their scope: the two conventions of ids, and which of them a part follows.

To the specification, the `parent_id` of a resource's attributes is the `resource.id` of the rows. otel-arrow's Parquet
exporter (0.51 to 0.62) puts many batches into a part: it moves the ids and the parent ids of every batch out of the
way of those before, by the batch's offset, but leaves `resource.id` and `scope.id` as they were. There a row finds its
resource at its batch's offset plus its `resource.id`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.otap.batches import batch_starts
from neve.otap.runs import ABSENT, Runs, steps_back

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from neve.otap.runs import Ints

LEFT_OVER = -math.log(0.01)  # one parent in a hundred may have lost the rows that referred to it
SPECIFICATION, EXPORTER = "specification", "exporter"


@dataclass(frozen=True)
class Offsets:
    """The batches of a part: the offset of each, which is also the smallest id that its rows may have."""

    starts: Ints

    def of(self, ids: Ints) -> Ints:
        """The offset of the batch that each id is of; ids before all batches are taken to be of the first."""
        if not len(self.starts):
            return np.zeros(len(ids), np.int64)
        return self.starts[np.maximum(np.searchsorted(self.starts, ids, side="right") - 1, 0)]


@dataclass(frozen=True)
class Reference:
    """What rows refer to, -1 where to nothing, and the distinct parent ids that are there, in order."""

    nested: Ints
    parents: Ints


@dataclass(frozen=True)
class Readings:
    """What was found out about a part, and how many rows find no parent if it is read in the one way or the other.

    There is a count for each kind of reference. A row may rightly find no parent: a resource without attributes has no
    row in the table of attributes. `guessed` are rows without an id of which nothing tells the batch.
    """

    offsets: Offsets | None
    unmatched_specification: tuple[int, ...]
    unmatched_exporter: tuple[int, ...]
    guessed: int = 0

    @property
    def convention(self) -> str:
        """The convention that the part follows."""
        return EXPORTER if self.offsets else SPECIFICATION

    @property
    def unmatched(self) -> tuple[int, ...]:
        """Rows that find no parent as the part is to be read."""
        return self.unmatched_exporter if self.offsets else self.unmatched_specification


def find_offsets(ids: Ints, nested: Ints, parents: Ints) -> Offsets | None:
    """The offsets of a part's batches; none where ids are to the specification.

    `ids` and `nested` are those of all root rows of a part, logs and spans together, with -1 for null; `parents` are
    the distinct parent ids of the table that `nested` refers to.
    """
    return offsets_of(Runs.of(ids, [nested]), [np.unique(parents.astype(np.int64))])


def readings(ids: Ints, references: Sequence[Reference]) -> Readings:
    """Which convention holds for rows in the order of their files, and what stays unmatched under both."""
    nested, parents = [one.nested for one in references], [one.parents for one in references]
    runs = Runs.of(ids, nested)
    offsets = offsets_of(runs, parents)
    shift, guessed = placed(ids, nested, Offsets(batch_starts(runs, parents)))
    return Readings(
        offsets,
        tuple(int(unmatched(one.nested, one.parents).sum()) for one in references),
        tuple(int(unmatched(one.nested, one.parents, shift).sum()) for one in references),
        int(guessed.sum()) if offsets else 0,
    )


def offsets_of(runs: Runs, parents: Sequence[Ints]) -> Offsets | None:
    """The offsets of a part's batches, from all its references at once; none where ids are to the specification."""
    if not len(runs) or not any(map(len, parents)):
        return None
    plain = _fit(runs.nested, np.zeros(len(runs), np.int64), parents)
    if plain.used == sum(map(len, parents)):
        return None  # nothing is left over that could speak against it
    starts = batch_starts(runs, parents)
    offsets = Offsets(starts)
    cut = runs.cut_at(starts)
    shifted = _fit(cut.nested, offsets.of(cut.first), parents)
    is_better = shifted.used > plain.used and shifted.surprise < plain.surprise
    return offsets if is_better and not _may_be_unused(runs, parents, starts) else None


def unmatched(nested: Ints, parents: Ints, shift: Ints | int = 0) -> npt.NDArray[np.bool_]:
    """The rows that refer to something that is not there; what is null refers to nothing. `parents` are sorted."""
    return (nested >= 0) & ~np.isin(nested + shift, parents)


def placed(ids: Ints, nested: Sequence[Ints], offsets: Offsets) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The offset of every row's batch, rows in the order of their file, and for which of them it is a guess.

    A row without an id is of the batch of the rows beside it. Where these are of two batches, a step back in what rows
    refer to tells where the second begins. Nothing tells it where there is no such step, or where ids are left out
    between the two, as a batch without any id leaves one out: then the row is taken to be of the batch before it.
    """
    has_id = ids >= 0
    known = offsets.of(ids)
    if has_id.all() or not has_id.any() or len(offsets.starts) < 2:
        return known, ~has_id & (len(offsets.starts) > 1)
    places = np.arange(len(ids))
    before = np.maximum.accumulate(np.where(has_id, places, -1))
    after = np.minimum.accumulate(np.where(has_id, places, len(ids))[::-1])[::-1]
    stretch = np.cumsum(steps_back(np.vstack(nested)))
    first, last = np.maximum(before, 0), np.minimum(after, len(ids) - 1)
    follows = (before >= 0) & (stretch == stretch[first])
    leads = (after < len(ids)) & (stretch == stretch[last])
    between = (before >= 0) & (after < len(ids)) & (known[first] != known[last])
    guessed = (~follows & ~leads) | (between & ((follows & leads) | (ids[last] - ids[first] > 1)))
    return np.where((leads & ~follows) | (before < 0), known[last], known[first]), guessed & ~has_id


@dataclass(frozen=True)
class _Fit:
    """How well a reading fits: the parents that something refers to, and how surprising all that is left would be."""

    used: int
    surprise: float


def _fit(nested: Ints, shift: Ints, parents: Sequence[Ints]) -> _Fit:
    """Parents that are left over are rare. What has no attributes is not, but then it is so in every batch alike."""
    used, surprise = 0, 0.0
    for line, known in zip(nested, parents, strict=True):
        meant = np.unique((line + shift)[line != ABSENT])
        found = int(np.isin(meant, known).sum())
        used += found
        surprise += LEFT_OVER * (len(known) - found) + _entropy(found, len(meant))
    return _Fit(used, surprise)


def _entropy(found: int, all_of_them: int) -> float:
    """How much there is to tell, in nats, about which of them were found."""
    shares = np.array([found, all_of_them - found]) / max(all_of_them, 1)
    return float(-all_of_them * (shares * np.log(shares, where=shares > 0, out=np.zeros(2))).sum())


def _may_be_unused(runs: Runs, parents: Sequence[Ints], starts: Ints) -> bool:
    """Whether a few parents that nothing refers to explain as much as batches of a single row before a larger one.

    Parents are then numbered without gaps from 0, as one batch does it, and nothing steps back.
    """
    everything = np.unique(np.concatenate([known for known in parents if len(known)]))
    dense = everything[0] == 0 and everything[-1] == len(everything) - 1
    single = bool(np.all(np.diff(starts) == 1)) and starts[0] == 0 and runs.last[-1] > starts[-1]
    return bool(dense and single and not steps_back(runs.nested).any())
