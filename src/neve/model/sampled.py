"""The tables that samples of the lake's own records go to: the records' columns, and what was decided about each."""

from dataclasses import replace

import pyarrow as pa

from neve.model.columns import TIMESTAMP, Column, Table

PAYLOAD = "attributes"  # the first column that only those read who have found their rows

COLUMNS = (
    Column("adjusted_count", pa.float64(), "how many records this one stands for", required=True),
    Column("sampling_weight", pa.float64(), "what the record weighed: the count that it stood for before, else 1"),
    Column("sampling_group", pa.string(), "group that the record was drawn from, in its organization and window"),
    Column("sampling_window", TIMESTAMP, "start of the window that the record was drawn from", required=True),
    Column("sampling_window_end", TIMESTAMP, "end of that window", required=True),
    Column("sampling_method", pa.string(), "priority or exact_total"),
    Column("sampler", pa.string(), "name of the sampler, and the policy that it decided by"),
)


def sampled(table: Table) -> Table:
    """The table for samples of a table: not in buckets, as there are few rows."""
    names = [column.name for column in table.columns]
    place = names.index(PAYLOAD)
    return replace(
        table,
        name=f"{table.name}_sample",
        comment=f"samples of {table.name}, each row with the count that it stands for, made by `neve reservoir lake`",
        columns=(*table.columns[:place], *COLUMNS, *table.columns[place:]),
        partition=tuple(part for part in table.partition if "bucket" not in part[1]),
        bounded=(*table.bounded, "sampling_window"),
    )
