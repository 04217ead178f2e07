"""Who rewrites a group, and how its rows will lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.compact.context import KEEP
from neve.compact.plan import Executor
from neve.compact.words import number
from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.candidate import Candidate
    from neve.compact.context import Context, TableFacts
    from neve.compact.plan import InputFile, Layout, Partition
    from neve.compact.verdict import Verdict

FIRST_VERSION_WITH_LINEAGE = 3


def layout_of(files: Sequence[Candidate], verdict: Verdict, table: TableFacts) -> Layout:
    """The layout of a group's outputs: what the verdict says, else what all of the inputs have."""
    if verdict.layout is not None:
        return verdict.layout
    has_order = table.sort_order_id is not None and table.sorting.kind == "sort"
    is_sorted = has_order and all(candidate.file.sort_order_id == table.sort_order_id for candidate in files)
    return table.sorting if is_sorted else KEEP


def choose_executor(
    partition: Partition, files: Sequence[InputFile], layout: Layout, context: Context, *, deduplicate: bool = False
) -> tuple[Executor, str]:
    """Who rewrites the files, and why; raises `ConfigError` where it is to be Arrow and can't."""
    needed = _needs_spark(partition, files, layout, context.table, deduplicate=deduplicate)
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


def _needs_spark(
    partition: Partition, files: Sequence[InputFile], layout: Layout, table: TableFacts, *, deduplicate: bool
) -> str | None:
    """What of a group only Spark can do."""
    with_deletes = sum(1 for file in files if file.delete_files)
    foreign = sorted({file.format for file in files if file.format != "parquet"})
    unsortable = [name for name in layout.columns if name not in table.arrow_columns]
    causes = (
        (deduplicate, "duplicates are removed"),
        (with_deletes, f"deletes apply to {number(with_deletes, 'file')}"),
        (foreign, f"files are {', '.join(foreign)}, not parquet"),
        (
            table.format_version >= FIRST_VERSION_WITH_LINEAGE,
            f"format version {table.format_version} keeps the lineage of rows",
        ),
        (
            partition.spec_id != table.spec_id,
            f"files of partition spec {partition.spec_id} go to spec {table.spec_id}",
        ),
        (table.foreign_type, f"the table has a column of type {table.foreign_type}"),
        (layout.kind == "zorder", "rows are laid along a z-order curve"),
        (unsortable, f"Arrow can't sort by {', '.join(unsortable)}"),
    )
    return next((words for is_there, words in causes if is_there), None)
