"""A table of kept spans in the lake itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from neve.lake.commits import append_once, find_batch
from neve.lake.writer import Target, write_files
from neve.model.commits import RECORDS
from neve.tail.export.port import Delivery, DestinationAway

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.tail.export.config import DestinationConfig

OPERATION = "tail-export"


class IcebergTable:
    """Appends each batch in one snapshot that carries its id, so that a batch that is brought again is there once."""

    def __init__(self, config: DestinationConfig, lake: Lake) -> None:
        self.name = config.name
        self._table, self._lake = config.table, lake

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Write the batch's files and commit them, unless the table has the batch."""
        if batch.num_rows == 0:
            return Delivery()
        try:
            return self._append(batch, batch_id)
        except Exception as error:  # whatever the catalog, its driver and the storage have for "not now"
            raise DestinationAway(
                f"the destination {self.name} can't append to {self._table}: {_first_line(error)}",
                hint="what was kept for it waits; a batch that did arrive is known by its id",
            ) from error

    def close(self) -> None:
        """Nothing is open."""

    def _append(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        table = self._lake.table(self._table)
        if find_batch(table, batch_id) is not None:
            return Delivery(accepted=batch.num_rows)
        try:
            files = write_files(Target.of(table), pa.Table.from_batches([batch]))
        except (ValueError, TypeError, pa.ArrowNotImplementedError) as error:  # a null in a required column, say
            message = f"the spans don't fit the table {self._table}: {_first_line(error)}"
            return Delivery(rejected=batch.num_rows, messages=(message,), attempts=1)
        summary = {RECORDS: str(batch.num_rows)}
        commit = append_once(table, files, batch_id=batch_id, operation=OPERATION, summary=summary)
        if not commit.new:
            _remove(table, files)  # another one was quicker with the same batch
        return Delivery(accepted=batch.num_rows, bytes_sent=sum(file.file_size_in_bytes for file in files), attempts=1)


def _remove(table: Table, files: list[DataFile]) -> None:
    for file in files:
        table.io.delete(file.file_path)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
