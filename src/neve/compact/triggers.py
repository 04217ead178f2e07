"""When there is something to do, at which level, and which files it takes: one function for each kind of cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.compact.candidate import Take
from neve.compact.plan import Level
from neve.compact.words import number, share, size

if TYPE_CHECKING:
    from neve.compact.context import Context
    from neve.compact.measure import Measure


@dataclass(frozen=True)
class Trigger:
    """A cause to rewrite some files of a partition."""

    level: Level
    take: Take
    reason: str


def repartition(measure: Measure, context: Context) -> Trigger | None:
    """Files of an older partition spec become files of today's."""
    spec_id = measure.stats.spec_id
    if spec_id == context.table.spec_id or not context.config.old_specs or not measure.cold_files:
        return None
    files = number(measure.cold_files, "file")
    return Trigger(
        Level.FULL,
        Take.EVERYTHING,
        f"{files} of partition spec {spec_id}, and the table has spec {context.table.spec_id} now",
    )


def full(measure: Measure, context: Context) -> Trigger | None:
    """The whole partition, when it is time for it, or when a person asked, and when anything is gained."""
    asked = context.level is Level.FULL
    if not asked and not (context.level is None and context.is_full_due(measure.partition)):
        return None
    stats = measure.stats
    fewer = measure.cold_files - measure.sizes.outputs(measure.cold_bytes)
    causes = (
        (fewer > 0, f"{number(fewer, 'file')} fewer"),
        (stats.oversized.files > 0, f"{number(stats.oversized.files, 'oversized file')} split"),
        (bool(_with_deletes(measure)), f"deletes applied to {number(_with_deletes(measure), 'file')}"),
        (stats.unlaid.files > 0, f"{number(stats.unlaid.files, 'file')} laid out"),
    )
    gained = [words for is_there, words in causes if is_there]
    if not gained:
        return None
    why = "a full rewrite was asked for" if asked else f"every {context.config.full_days:g} days all is rewritten"
    return Trigger(Level.FULL, Take.EVERYTHING, f"{why}: {', '.join(gained)}")


def packing(measure: Measure, context: Context) -> Trigger | None:
    """Too many small files, or a file that is too large."""
    return _major(measure, context) or _minor(measure, context)


def _major(measure: Measure, context: Context) -> Trigger | None:
    if context.level is Level.MINOR:
        return None
    stats, sizes = measure.stats, measure.sizes
    undersized = stats.undersized
    if stats.oversized.files:
        words = f"{number(stats.oversized.files, 'file')} of more than {size(sizes.large)}"
        return Trigger(Level.MAJOR, Take.SIZES, f"{words}, to be split")
    if context.level is Level.MAJOR and undersized.files + stats.fragments.files > 1:
        return Trigger(Level.MAJOR, Take.SIZES, "a major rewrite was asked for")
    return _undersized(measure, context) if len(stats.smallest) > 1 and sum(stats.smallest) <= sizes.target else None


def _undersized(measure: Measure, context: Context) -> Trigger | None:
    """Undersized files of which two fit into one: enough of them, or enough bytes."""
    undersized, enough = measure.stats.undersized, context.config.undersized_files
    words = f"{number(undersized.files, 'undersized file')}, {size(undersized.bytes)} together"
    if undersized.bytes >= measure.sizes.target:
        return Trigger(Level.MAJOR, Take.SIZES, f"{words}, fill a file of the target size")
    if undersized.files >= enough:
        return Trigger(Level.MAJOR, Take.SIZES, f"{words}: {enough} are enough to pack them")
    return None


def _minor(measure: Measure, context: Context) -> Trigger | None:
    fragments, config = measure.stats.fragments.files, context.config
    words = f"{number(fragments, 'fragment')} of {size(measure.sizes.fragment)} or less"
    if fragments >= config.fragments:
        return Trigger(Level.MINOR, Take.FRAGMENTS, f"{words}: {config.fragments} are enough to pack them")
    if fragments > 1 and context.level is not None:
        return Trigger(Level.MINOR, Take.FRAGMENTS, f"{words}, and a {context.level} rewrite was asked for")
    if fragments > 1 and context.is_minor_due(measure.partition):
        past = f"nothing was packed here for {config.minor_seconds / 60:g} minutes"
        return Trigger(Level.MINOR, Take.FRAGMENTS, f"{words}, and {past}")
    return None


def deletes(measure: Measure, context: Context) -> Trigger | None:
    """Deletes that cost readers too much: many of a file's rows, many delete files, many equality deletes."""
    if context.level is Level.MINOR:
        return None
    if context.level is Level.MAJOR and _with_deletes(measure):
        words = f"deletes apply to {number(_with_deletes(measure), 'file')}, and a major rewrite was asked for"
        return Trigger(Level.MAJOR, Take.DELETES, words)
    found = [cause for cause in (_over(measure, context), _positions(measure, context)) if cause]
    equality = _equality(measure, context)
    if equality:
        found.append(equality)
    if not found:
        return None
    take, words = found[0]
    for more, reason in found[1:]:
        take, words = take | more, f"{words}; {reason}"
    return Trigger(Level.MAJOR, take, words)


def _with_deletes(measure: Measure) -> int:
    stats = measure.stats
    return max(stats.over_deletes.files, stats.with_positions.files, stats.with_equality.files)


def _over(measure: Measure, context: Context) -> tuple[Take, str] | None:
    files, config = measure.stats.over_deletes.files, context.config
    if not files:
        return None
    limit = (
        f"{number(config.delete_files, 'delete file')} or more, or more than {share(config.delete_ratio)} of its rows"
    )
    return Take.OVER_DELETES, f"{number(files, 'file')}, each with {limit} deleted"


def _positions(measure: Measure, context: Context) -> tuple[Take, str] | None:
    rows, of = measure.stats.deletes.live_position_rows, measure.stats.with_position_rows
    if not of or rows <= context.config.delete_ratio * of:
        return None
    words = f"{number(rows, 'deleted position')} among {number(of, 'row')}"
    return Take.POSITIONS, f"{words}: more than {share(context.config.delete_ratio)}"


def _equality(measure: Measure, context: Context) -> tuple[Take, str] | None:
    stats, config = measure.stats, context.config
    files, rows, of = stats.deletes.live_equality_files, stats.deletes.live_equality_rows, stats.with_equality_rows
    if not files or not stats.with_equality.files:
        return None
    applied = f"{number(files, 'equality-delete file')} that every reader has to apply to {number(of, 'row')}"
    if stats.fragments.files + files >= config.fragments:
        counted = f"with {number(stats.fragments.files, 'fragment')} they are {config.fragments} or more"
        return Take.EQUALITIES | Take.FRAGMENTS, f"{applied}: {counted}"
    if rows > config.delete_ratio * of:
        return Take.EQUALITIES, f"{applied}: {number(rows, 'delete')}, more than {share(config.delete_ratio)}"
    return None


def layout(measure: Measure, context: Context) -> Trigger | None:
    """Files that are not laid out as the table wants it."""
    wanted, unlaid = context.table.layout, measure.stats.unlaid
    if wanted.kind == "keep" or not unlaid.files or context.level is Level.MINOR:
        return None
    if wanted.kind == "zorder" and measure.stats.hot.files:
        return None  # no file says that it has a z-order: it is remembered of whole partitions only
    part = unlaid.bytes / measure.cold_bytes if measure.cold_bytes else 1.0
    words = f"{number(unlaid.files, 'file')}, {share(part)} of the bytes, without the layout {wanted}"
    if context.level is Level.MAJOR or part >= context.config.layout_share:
        return Trigger(Level.MAJOR, Take.UNLAID | Take.SMALL, words)
    return None
