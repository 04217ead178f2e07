"""Layouts made for real: rows in their order, cut into Parquet files of an Iceberg table."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.transforms import parse_transform

from neve.autopilot.estimate.simulator import BITS, interleave_bits
from neve.lake.commit.append import append_once
from neve.lake.read.partition_stats import TargetSizes
from neve.lake.write.data_file_writer import DataFileOptions, DataFileWriter
from neve.lake.write.file_schema import build_file_schema, conform_to_schema
from neve.lake.write.layout import find_sort_index, split_partitions
from neve.lake.write.table_writer import Target

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

    from neve.autopilot.layout import Layout


def written(catalog: SqlCatalog, name: str, rows: pa.Table, layout: Layout, rows_per_file: int) -> Table:
    """An Iceberg table of these rows in a layout, in files of as many rows in each partition."""
    table = catalog.create_table(f"made.{name}", rows.schema)
    with table.update_spec() as update:
        for field in layout.partition:
            update.add_field(field.column, parse_transform(field.transform))
    target = Target.of(table.refresh())
    metadata, files = target.metadata, []
    shaped = conform_to_schema(rows, build_file_schema(metadata.schema(), rows.schema))
    for piece in split_partitions(shaped, metadata.schema(), metadata.spec(), metadata.sort_order()):
        in_order = ordered(piece.rows, layout)
        outputs = TargetSizes(rows_per_file).outputs(in_order.num_rows)
        ends = np.rint(np.linspace(0, in_order.num_rows, outputs + 1)).astype(int).tolist()
        for start, end in pairwise(ends):
            with DataFileWriter(metadata, target.io, piece.key, DataFileOptions(None)) as writer:
                writer.write(in_order.slice(start, end - start))
            files += writer.files
    append_once(table, files, batch_id=name, operation="bench")
    return table.refresh()


def ordered(rows: pa.Table, layout: Layout) -> pa.Table:
    """The rows of a partition in the order of a layout."""
    if layout.zorder:
        numbers = [_range_numbers(rows, name) for name in layout.zorder]
        return rows.take(pa.array(np.argsort(interleave_bits(numbers), kind="stable")))
    return rows.take(pa.array(find_sort_index(rows, layout.sort))) if layout.sort else rows


def _range_numbers(rows: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """A column cut into ranges of as many rows."""
    order = find_sort_index(rows, (name,))
    ranks = np.empty(len(order), dtype=np.int64)
    sorted_values = rows[name].combine_chunks().take(pa.array(order)).dictionary_encode().indices
    ranks[order] = sorted_values.to_numpy(zero_copy_only=False)
    present = np.sort(ranks)
    cuts = np.unique(present[[len(present) * number >> BITS for number in range(1, 1 << BITS)]])
    return np.searchsorted(cuts, ranks, side="right").astype(np.int64)
