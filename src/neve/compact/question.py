"""How the files of a table are told apart, for what its strategy wants to know."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from neve.lake.partition_stats import Question

if TYPE_CHECKING:
    from neve.compact.context import Context
    from neve.lake.file_index import FileIndex
    from neve.lake.partition_stats import PartitionId

MICROS = 1_000_000


def question_of(index: FileIndex, context: Context, strategy: str) -> Question:
    """The question of a strategy; adaptive leaves hot files alone where a column tells the time."""
    table, config = context.table, context.config
    heeds = strategy == "time_series" or (strategy == "adaptive" and table.time_column is not None)
    hot_from = context.now.astimezone(UTC) - timedelta(seconds=config.hot_seconds)
    return Question(
        sizes=table.sizes,
        hot_from_us=int(hot_from.timestamp() * MICROS) if heeds and config.hot_seconds else None,
        delete_files=config.delete_files,
        delete_ratio=config.delete_ratio,
        wants_layout=table.layout.kind != "keep",
        sort_order_id=table.sort_order_id if table.layout.kind == "sort" else None,
        laid_out=_laid_out(index, context) if table.layout.kind != "keep" else {},
    )


def _laid_out(index: FileIndex, context: Context) -> dict[PartitionId, int]:
    """Up to which sequence number files are known to have the layout that the table wants now."""
    if not context.memories:
        return {}
    known = {
        key: memory.sequence for key, memory in context.memories.items() if memory.layout == str(context.table.layout)
    }
    return {id_: known[key] for id_, key in index.partition_ids().items() if key in known}
