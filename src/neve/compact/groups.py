"""Files that are rewritten together, as the plan has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

from neve.compact.executor import choose_executor, layout_of
from neve.compact.packing import expected_bytes
from neve.compact.plan import Group, Level
from neve.compact.words import number, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.context import Context
    from neve.compact.packing import Bin
    from neve.compact.plan import InputFile, Layout, Partition
    from neve.compact.verdict import Verdict

DEDUPLICATE = "deduplicate"


def group_of(files: Bin, verdict: Verdict, context: Context) -> Group:
    """The group of a bin."""
    inputs = tuple(candidate.file for candidate in files)
    partition, layout = verdict.measure.partition, layout_of(files, verdict, context.table)
    executor, why = choose_executor(partition, inputs, layout, context)
    expected = expected_bytes(files)
    outputs = context.table.sizes.outputs(expected)
    total = sum(file.bytes for file in inputs)
    deletes = max(file.delete_files for file in inputs)
    becomes = f"here {number(len(inputs), 'file')} of {size(total)} become {outputs:,} of {size(expected / outputs)}"
    return Group(
        id=group_id(context.table.uuid, inputs, layout),
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


def dedupe_group(
    partition: Partition, files: Sequence[InputFile], duplicates: int, context: Context, layout: Layout | None = None
) -> Group:
    """All files of a partition that was looked through, in one group that leaves out what is there twice.

    Without a layout they get the table's sort order, where it has one.
    """
    inputs = tuple(files)
    wanted = layout or context.table.sorting
    executor, why = choose_executor(partition, inputs, wanted, context, deduplicate=True)
    total, rows = sum(file.bytes for file in inputs), max(1, sum(file.rows for file in inputs))
    expected = round(total * max(0.0, 1 - duplicates / rows))
    outputs = context.table.sizes.outputs(expected)
    return Group(
        id=group_id(context.table.uuid, inputs, wanted, deduplicate=True),
        partition=partition,
        files=inputs,
        level=Level.FULL,
        strategy=DEDUPLICATE,
        layout=wanted,
        executor=executor,
        executor_reason=why,
        reason=f"{number(duplicates, 'record')} of {rows:,} are there more than once, and the partition is closed",
        estimate=context.cost.estimate(len(inputs), total, outputs, expected, executor),
        deduplicate=True,
    )


def group_id(uuid: str, files: Sequence[InputFile], layout: Layout, *, deduplicate: bool = False) -> str:
    """The name of a rewrite: the same for the same files, rewritten in the same way."""
    digest = xxhash.xxh3_128()
    for part in (uuid, str(layout), str(deduplicate), *sorted(file.path for file in files)):
        digest.update(part.encode() + b"\0")
    return str(digest.hexdigest())
