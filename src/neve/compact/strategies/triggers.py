"""Triggers of rewrites: one function for each cause, which returns the level and the files to rewrite, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.compact.plan import Level
from neve.compact.planning.candidates import FileKind
from neve.text import format_bytes, format_count, format_duration, format_share

if TYPE_CHECKING:
    from neve.compact.health import Measure
    from neve.compact.planning.context import Context


@dataclass(frozen=True)
class Trigger:
    """A cause to rewrite some files of a partition."""

    level: Level
    take: FileKind
    reason: str


def repartition(measure: Measure, context: Context) -> Trigger | None:
    """Rewrite files of an older partition spec into the current one."""
    spec_id = measure.stats.spec_id
    if spec_id == context.table.spec_id or not context.config.old_specs or not measure.cold_files:
        return None
    files = format_count(measure.cold_files, "file")
    return Trigger(
        Level.FULL,
        FileKind.EVERYTHING,
        f"{files} of partition spec {spec_id}, and the table has spec {context.table.spec_id} now",
    )


def full(measure: Measure, context: Context) -> Trigger | None:
    """Rewrite the whole partition when it is due or a user requested it, and if there is a gain."""
    is_requested = context.level is Level.FULL
    if not is_requested and not (context.level is None and context.is_full_due(measure.partition)):
        return None
    stats = measure.stats
    fewer = measure.cold_files - measure.sizes.outputs(measure.cold_bytes)
    causes = (
        (fewer > 0, f"{format_count(fewer, 'file')} fewer"),
        (stats.oversized.files > 0, f"{format_count(stats.oversized.files, 'oversized file')} split"),
        (bool(_with_deletes(measure)), f"deletes applied to {format_count(_with_deletes(measure), 'file')}"),
        (stats.unlaid.files > 0, f"{format_count(stats.unlaid.files, 'file')} laid out"),
    )
    gained = [text for is_present, text in causes if is_present]
    if not gained:
        return None
    why = (
        "a full rewrite was requested"
        if is_requested
        else f"a full rewrite is due every {context.config.full_days:g} days"
    )
    return Trigger(Level.FULL, FileKind.EVERYTHING, f"{why}: {', '.join(gained)}")


def packing(measure: Measure, context: Context) -> Trigger | None:
    """Pack too many small files, or split a file that is too large."""
    return _major(measure, context) or _minor(measure, context)


def _major(measure: Measure, context: Context) -> Trigger | None:
    if context.level is Level.MINOR:
        return None
    stats, sizes = measure.stats, measure.sizes
    undersized = stats.undersized
    if stats.oversized.files:
        text = f"{format_count(stats.oversized.files, 'file')} of more than {format_bytes(sizes.large)}"
        return Trigger(Level.MAJOR, FileKind.SIZES, f"{text}, to be split")
    if context.level is Level.MAJOR and undersized.files + stats.fragments.files > 1:
        return Trigger(Level.MAJOR, FileKind.SIZES, "a major rewrite was requested")
    return (
        _pack_undersized(measure, context) if len(stats.smallest) > 1 and sum(stats.smallest) <= sizes.target else None
    )


def _pack_undersized(measure: Measure, context: Context) -> Trigger | None:
    """Pack undersized files of which two fit into one, if there are enough files or bytes."""
    undersized, enough = measure.stats.undersized, context.config.undersized_files
    text = f"{format_count(undersized.files, 'undersized file')}, {format_bytes(undersized.bytes)} together"
    if undersized.bytes >= measure.sizes.target:
        return Trigger(Level.MAJOR, FileKind.SIZES, f"{text}, fill a file of the target size")
    if undersized.files >= enough:
        return Trigger(Level.MAJOR, FileKind.SIZES, f"{text} (threshold: {enough})")
    return None


def _minor(measure: Measure, context: Context) -> Trigger | None:
    fragments, config = measure.stats.fragments.files, context.config
    text = f"{format_count(fragments, 'fragment')} of {format_bytes(measure.sizes.fragment)} or less"
    if fragments >= config.fragments:
        return Trigger(Level.MINOR, FileKind.FRAGMENTS, f"{text} (threshold: {config.fragments})")
    if fragments > 1 and context.level is not None:
        return Trigger(Level.MINOR, FileKind.FRAGMENTS, f"{text}, and a {context.level} rewrite was requested")
    if fragments > 1 and context.is_minor_due(measure.partition):
        past = f"nothing was packed for {format_duration(config.minor_seconds)}"
        return Trigger(Level.MINOR, FileKind.FRAGMENTS, f"{text}, and {past}")
    return None


def deletes(measure: Measure, context: Context) -> Trigger | None:
    """Apply deletes that slow readers down: many of a file's rows, many delete files, many equality deletes."""
    if context.level is Level.MINOR:
        return None
    if context.level is Level.MAJOR and _with_deletes(measure):
        text = f"deletes apply to {format_count(_with_deletes(measure), 'file')}, and a major rewrite was requested"
        return Trigger(Level.MAJOR, FileKind.DELETES, text)
    found = [cause for cause in (_over(measure, context), _positions(measure, context)) if cause]
    equality = _equality(measure, context)
    if equality:
        found.append(equality)
    if not found:
        return None
    take, text = found[0]
    for more, reason in found[1:]:
        take, text = take | more, f"{text}; {reason}"
    return Trigger(Level.MAJOR, take, text)


def _with_deletes(measure: Measure) -> int:
    stats = measure.stats
    return max(stats.over_deletes.files, stats.with_positions.files, stats.with_equality.files)


def _over(measure: Measure, context: Context) -> tuple[FileKind, str] | None:
    files, config = measure.stats.over_deletes.files, context.config
    if not files:
        return None
    limit = (
        f"{format_count(config.delete_files, 'delete file')} or more, "
        f"or more than {format_share(config.delete_ratio)} of its rows"
    )
    return FileKind.OVER_DELETES, f"{format_count(files, 'file')}, each with {limit} deleted"


def _positions(measure: Measure, context: Context) -> tuple[FileKind, str] | None:
    rows, of = measure.stats.deletes.live_position_rows, measure.stats.with_position_rows
    if not of or rows <= context.config.delete_ratio * of:
        return None
    text = f"{format_count(rows, 'deleted position')} among {format_count(of, 'row')}"
    return FileKind.POSITIONS, f"{text}: more than {format_share(context.config.delete_ratio)}"


def _equality(measure: Measure, context: Context) -> tuple[FileKind, str] | None:
    stats, config = measure.stats, context.config
    files, rows, of = stats.deletes.live_equality_files, stats.deletes.live_equality_rows, stats.with_equality_rows
    if not files or not stats.with_equality.files:
        return None
    applied = (
        f"{format_count(files, 'equality-delete file')} that every reader has to apply to {format_count(of, 'row')}"
    )
    if stats.fragments.files + files >= config.fragments:
        counted = f"with {format_count(stats.fragments.files, 'fragment')} they are {config.fragments} or more"
        return FileKind.EQUALITIES | FileKind.FRAGMENTS, f"{applied}: {counted}"
    if rows > config.delete_ratio * of:
        return (
            FileKind.EQUALITIES,
            f"{applied}: {format_count(rows, 'delete')}, more than {format_share(config.delete_ratio)}",
        )
    return None


def layout(measure: Measure, context: Context) -> Trigger | None:
    """Rewrite files that do not have the table's layout."""
    wanted, unlaid = context.table.layout, measure.stats.unlaid
    if wanted.kind == "keep" or not unlaid.files or context.level is Level.MINOR:
        return None
    if wanted.kind == "zorder" and measure.stats.hot.files:
        return None  # file metadata does not contain a z-order: it is recorded for whole partitions only
    part = unlaid.bytes / measure.cold_bytes if measure.cold_bytes else 1.0
    text = f"{format_count(unlaid.files, 'file')}, {format_share(part)} of the bytes, without the layout {wanted}"
    if context.level is Level.MAJOR or part >= context.config.layout_share:
        return Trigger(Level.MAJOR, FileKind.UNLAID | FileKind.SMALL, text)
    return None
