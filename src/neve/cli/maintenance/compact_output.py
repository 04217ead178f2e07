"""Documents and terminal output of compaction plans, health and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.cli.output import print_paragraph, print_text
from neve.text import format_bytes, format_count, format_dollars, format_duration

if TYPE_CHECKING:
    from neve.compact.health import TableHealth
    from neve.compact.plan import Plan
    from neve.compact.result import CompactResult

SHOWN = 20


def plan_document(planned: Plan) -> dict[str, Any]:
    """Return a plan as a JSON document."""
    from pydantic import TypeAdapter

    from neve.compact.plan import Plan

    document: dict[str, Any] = TypeAdapter(Plan).dump_python(planned, mode="json")
    return document | {"estimate": vars(planned.estimate), "snapshot_id": str(planned.snapshot_id or "")}


def _describe_files(files: int, size: int) -> str:
    return f"{format_count(files, 'file')}, {format_bytes(size)}"


def show_plan(planned: Plan) -> None:
    """Print a plan: its groups with their reasons, then the skipped work and the cost."""
    print_text(f"{planned.table}: health {planned.health:.0f}, {_describe_files(planned.files, planned.bytes)}")
    print_paragraph(planned.reason, 2)
    for group in planned.groups[:SHOWN]:
        estimate = group.estimate
        print_paragraph(
            f"{group.partition.label or 'the whole table'}: {_describe_files(len(group.files), group.bytes)}"
            f" → {format_count(estimate.output_files, 'file')}, {format_bytes(estimate.output_bytes)}"
            f" [{group.level.value}, {group.strategy}, {group.layout}, by {group.executor.value}]",
            2,
        )
        print_paragraph(group.reason, 4)
        print_paragraph(f"{group.executor.value}: {group.executor_reason}", 4)
    if len(planned.groups) > SHOWN:
        print_paragraph(f"… and {len(planned.groups) - SHOWN:,} more groups (--json lists all)", 2)
    _show_rest(planned)
    if planned.groups:
        total, groups = planned.estimate, format_count(len(planned.groups), "group")
        print_paragraph(
            f"total: {groups}, about {format_duration(total.seconds)} of one core, "
            f"{total.api_calls:,} calls, {format_dollars(total.dollars)}",
            2,
        )


def _show_rest(planned: Plan) -> None:
    """Print the skipped work with its reason; print equal reasons once."""
    for one in planned.cut[:SHOWN]:
        print_paragraph(
            f"beyond the limit: {one.partition.label}: {_describe_files(one.files, one.bytes)}: {one.reason}",
            2,
        )
    if len(planned.cut) > SHOWN:
        print_paragraph(f"… and {len(planned.cut) - SHOWN:,} more partitions beyond a limit", 2)
    for left in planned.left_alone[:SHOWN]:
        print_paragraph(
            f"unchanged: {left.partition.label or 'the whole table'} (health {left.health:.0f}): {left.reason}",
            2,
        )
    if len(planned.left_alone) > SHOWN:
        print_paragraph(
            f"… and {len(planned.left_alone) - SHOWN:,} more partitions without work (`neve compact explain`)",
            2,
        )
    if planned.check_duplicates:
        partitions = format_count(len(planned.check_duplicates), "closed partition")
        print_paragraph(f"{partitions} will be checked for duplicates", 2)


def list_verdicts(planned: Plan, health: dict[str, float]) -> list[dict[str, Any]]:
    """Return whether and why each partition would be rewritten, least healthy first."""
    found = [
        {"partition": group.partition.label, "key": group.partition.key, "verdict": "rewrite", "reason": group.reason}
        for group in planned.groups
    ]
    found += [
        {
            "partition": one.partition.label,
            "key": one.partition.key,
            "verdict": f"cut by {one.limit}",
            "reason": one.reason,
        }
        for one in planned.cut
    ]
    found += [
        {"partition": one.partition.label, "key": one.partition.key, "verdict": "leave alone", "reason": one.reason}
        for one in planned.left_alone
    ]
    scored = [{**one, "health": round(health.get(str(one.pop("key")), 100.0), 1)} for one in found]
    return sorted(scored, key=lambda one: (one["health"], one["partition"]))


def health_document(health: TableHealth) -> dict[str, Any]:
    """Return the health of a table as a JSON document."""
    return {
        "table": health.table,
        "health": round(health.score, 1),
        "files": health.files,
        "bytes": health.bytes,
        "rows": health.rows,
        "partitions": len(health.partitions),
        "fragments": health.fragments,
        "undersized": health.undersized_files,
        "delete_files": health.delete_files,
        "snapshots": health.snapshot.snapshots,
        "manifests": health.snapshot.manifests,
        "target_bytes": health.target_bytes,
    }


def show_result(result: CompactResult) -> None:
    """Print the result of a run."""
    for run_id in result.continued:
        print_text(f"{result.table}: finished the interrupted run {run_id}")
    if result.published_for_dead or result.orphans:
        print_text(
            f"  published {format_count(result.published_for_dead, 'group')} that it had written, "
            f"removed {format_count(result.orphans, 'unused file')}"
        )
    if not result.planned:
        print_text(f"{result.table}: {result.reason}")
        return
    print_text(
        f"{result.table}: {format_count(result.files_in, 'file')} became {result.files_out:,}, "
        f"{format_bytes(result.bytes_in)} became {format_bytes(result.bytes_out)}, "
        f"health {result.health_before:.0f} → {result.health_after:.0f}, "
        f"in {format_duration(result.seconds)}, about {format_dollars(result.dollars)}"
    )
    print_text(f"  {format_count(result.rows, 'row')} read, written and read back: equal; {format_outcome(result)}")
    if result.duplicates:
        print_text(f"  {format_count(result.duplicates, 'duplicate')} removed")
    for error in result.errors:
        print_text(f"  {error}")


def format_outcome(result: CompactResult) -> str:
    """Format the number of published groups and of those that were not."""
    parts = [f"{result.committed:,} of {format_count(result.planned, 'group')} published"]
    for count, words in (
        (result.conflicts, "lost to other writers"),
        (result.failed, "failed"),
        (result.unknown, "in doubt"),
        (result.not_begun, "not begun in time"),
    ):
        if count:
            parts.append(f"{count:,} {words}")
    return ", ".join(parts)
