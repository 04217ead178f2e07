"""Make the groups of a plan: files that are rewritten together, with their layout, executor and estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

from neve.compact.plan import Executor, Group, Level
from neve.compact.planning.candidates import sum_expected_bytes
from neve.compact.planning.context import KEEP
from neve.errors import ConfigError
from neve.text import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.plan import InputFile, Layout, Partition
    from neve.compact.planning.candidates import Bin, Candidate
    from neve.compact.planning.context import Context, TableFacts
    from neve.compact.strategies.verdict import Verdict


FIRST_VERSION_WITH_LINEAGE = 3


def choose_layout(files: Sequence[Candidate], verdict: Verdict, table: TableFacts) -> Layout:
    """Return the layout of a group's outputs: that of the verdict, else the common layout of all inputs."""
    if verdict.layout is not None:
        return verdict.layout
    has_order = table.sort_order_id is not None and table.sorting.kind == "sort"
    is_sorted = has_order and all(candidate.file.sort_order_id == table.sort_order_id for candidate in files)
    return table.sorting if is_sorted else KEEP


def choose_executor(
    partition: Partition, files: Sequence[InputFile], layout: Layout, context: Context, *, deduplicate: bool = False
) -> tuple[Executor, str]:
    """Return the executor of a group, and the reason. Raises `ConfigError` if Arrow is required but unsuitable."""
    needed = _find_need_for_spark(partition, files, layout, context.table, deduplicate=deduplicate)
    match context.config.executor, needed:
        case "arrow", str():
            raise ConfigError(
                f"compact.executor is 'arrow', but in {partition.label or 'the table'} {needed}",
                hint="set it to auto or spark",
            )
        case "spark", None:
            return Executor.SPARK, "compact.executor is spark"
        case _, None:
            return Executor.ARROW, "plain Parquet files without deletes"
        case _:
            return Executor.SPARK, str(needed)


def _find_need_for_spark(
    partition: Partition, files: Sequence[InputFile], layout: Layout, table: TableFacts, *, deduplicate: bool
) -> str | None:
    """Return the feature of a group that only Spark supports."""
    with_deletes = sum(1 for file in files if file.delete_files)
    foreign = sorted({file.format for file in files if file.format != "parquet"})
    unsortable = [name for name in layout.columns if name not in table.arrow_columns]
    causes = (
        (deduplicate, "duplicates are removed"),
        (with_deletes, f"deletes apply to {format_count(with_deletes, 'file')}"),
        (foreign, f"files are {', '.join(foreign)}, not parquet"),
        (
            table.format_version >= FIRST_VERSION_WITH_LINEAGE,
            f"format version {table.format_version} keeps the lineage of rows",
        ),
        (
            partition.spec_id != table.spec_id,
            f"files of partition spec {partition.spec_id} are rewritten to spec {table.spec_id}",
        ),
        (table.foreign_type, f"the table has a column of type {table.foreign_type}"),
        (layout.kind == "zorder", "rows are sorted along a z-order curve"),
        (unsortable, f"Arrow can't sort by {', '.join(unsortable)}"),
    )
    return next((feature for is_present, feature in causes if is_present), None)


DEDUPLICATE = "deduplicate"


def make_group(files: Bin, verdict: Verdict, context: Context) -> Group:
    """Return the group of a bin."""
    inputs = tuple(candidate.file for candidate in files)
    partition, layout = verdict.measure.partition, choose_layout(files, verdict, context.table)
    executor, why = choose_executor(partition, inputs, layout, context)
    expected = sum_expected_bytes(files)
    outputs = context.table.sizes.outputs(expected)
    total = sum(file.bytes for file in inputs)
    deletes = max(file.delete_files for file in inputs)
    becomes = (
        f"here {format_count(len(inputs), 'file')} of {format_bytes(total)} "
        f"become {outputs:,} of {format_bytes(expected / outputs)}"
    )
    return Group(
        id=make_group_id(context.table.uuid, inputs, layout),
        partition=partition,
        files=inputs,
        level=verdict.level or Level.MINOR,
        strategy=verdict.strategy,
        layout=layout,
        executor=executor,
        executor_reason=why,
        reason=f"{verdict.reason}; {becomes}",
        estimate=context.cost.estimate(len(inputs), total, outputs, expected, executor, deletes=deletes),
    )


def make_dedupe_group(
    partition: Partition, files: Sequence[InputFile], duplicates: int, context: Context, layout: Layout | None = None
) -> Group:
    """Put all files of a searched partition into one group that drops duplicates.

    Without a layout they get the table's sort order, if it has one.
    """
    inputs = tuple(files)
    wanted = layout or context.table.sorting
    executor, why = choose_executor(partition, inputs, wanted, context, deduplicate=True)
    total, rows = sum(file.bytes for file in inputs), max(1, sum(file.rows for file in inputs))
    expected = round(total * max(0.0, 1 - duplicates / rows))
    outputs = context.table.sizes.outputs(expected)
    return Group(
        id=make_group_id(context.table.uuid, inputs, wanted, deduplicate=True),
        partition=partition,
        files=inputs,
        level=Level.FULL,
        strategy=DEDUPLICATE,
        layout=wanted,
        executor=executor,
        executor_reason=why,
        reason=(f"{format_count(duplicates, 'record')} of {rows:,} are duplicates, and the partition is closed"),
        estimate=context.cost.estimate(len(inputs), total, outputs, expected, executor),
        deduplicate=True,
    )


def make_group_id(uuid: str, files: Sequence[InputFile], layout: Layout, *, deduplicate: bool = False) -> str:
    """Return the id of a rewrite. It is the same for the same files, rewritten in the same way."""
    digest = xxhash.xxh3_128()
    for part in (uuid, str(layout), str(deduplicate), *sorted(file.path for file in files)):
        digest.update(part.encode() + b"\0")
    return str(digest.hexdigest())
