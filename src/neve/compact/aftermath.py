"""What a partition will be when some of its files are rewritten."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.compact.candidate import Take
from neve.compact.executor import layout_of
from neve.compact.packing import output_sizes
from neve.lake.partition_stats import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.compact.candidate import Candidate
    from neve.compact.context import Context
    from neve.compact.packing import Bin
    from neve.compact.verdict import Verdict
    from neve.lake.partition_stats import PartitionStats


def aftermath(
    verdict: Verdict, candidates: Sequence[Candidate], bins: Sequence[Bin], context: Context
) -> PartitionStats:
    """The counts that are expected; every file that anything is wrong with must be among the candidates."""
    stats, sizes = verdict.measure.stats, context.table.sizes
    gone = {candidate.file.path for files in bins for candidate in files}
    rest = [candidate for candidate in candidates if candidate.file.path not in gone]
    outputs = [size for files in bins for size in output_sizes(files, sizes)]
    unlaid = [size for files in bins if not _lays_out(files, verdict, context) for size in output_sizes(files, sizes)]
    everything = [candidate.bytes for candidate in rest] + outputs
    undersized = [size for size in everything if sizes.fragment < size <= sizes.small]
    positions = [candidate for candidate in rest if candidate.kinds & Take.POSITIONS]
    equalities = [candidate for candidate in rest if candidate.kinds & Take.EQUALITIES]
    deletes = replace(
        stats.deletes,
        live_position_rows=stats.deletes.live_position_rows if positions else 0,
        live_equality_files=stats.deletes.live_equality_files if equalities else 0,
        live_equality_rows=stats.deletes.live_equality_rows if equalities else 0,
    )
    return replace(
        stats,
        files=stats.files - len(gone) + len(outputs),
        bytes=stats.bytes - sum(candidate.bytes for files in bins for candidate in files) + sum(outputs),
        fragments=_share(size for size in everything if size <= sizes.fragment),
        undersized=_share(undersized),
        oversized=_share(size for size in everything if size > sizes.large),
        smallest=tuple(sorted(undersized)[:2]),
        unlaid=_share([*unlaid, *(candidate.bytes for candidate in rest if candidate.kinds & Take.UNLAID)]),
        over_deletes=_share(candidate.bytes for candidate in rest if candidate.kinds & Take.OVER_DELETES),
        with_positions=_share(candidate.bytes for candidate in positions),
        with_position_rows=sum(candidate.file.rows for candidate in positions),
        with_equality=_share(candidate.bytes for candidate in equalities),
        with_equality_rows=sum(candidate.file.rows for candidate in equalities),
        deletes=deletes,
    )


def _share(sizes: Iterable[int]) -> Share:
    found = list(sizes)
    return Share(len(found), sum(found))


def _lays_out(files: Bin, verdict: Verdict, context: Context) -> bool:
    """Whether the outputs of a bin count as laid out afterwards."""
    wanted = context.table.layout
    if wanted.kind == "keep":
        return True
    return layout_of(files, verdict, context.table) == wanted and (wanted.kind == "sort" or verdict.whole)
