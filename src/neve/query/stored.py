"""Results that are there already, and results that are kept while they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.query.running import Run


class Stored:
    """A result that nothing has to run for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._table.schema

    def begin(self) -> None:
        """It is there."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result."""
        yield from self._table.to_batches()

    def interrupt(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is held."""


class Collecting:
    """Another run, whose result is handed on when it is whole and no larger than so many bytes."""

    def __init__(self, run: Run, most_bytes: int, keep: Callable[[pa.Table], None]) -> None:
        self._run = run
        self._most = most_bytes
        self._keep = keep

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._run.schema

    def begin(self) -> None:
        """Start it."""
        self._run.begin()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result as it comes."""
        kept: list[pa.RecordBatch] | None = []
        size = 0
        for batch in self._run.batches():
            size += batch.nbytes
            if size > self._most:
                kept = None
            elif kept is not None:
                kept.append(batch)
            yield batch
        if kept is not None:
            self._keep(pa.Table.from_batches(kept, self.schema))

    def interrupt(self) -> None:
        """End it, from any thread."""
        self._run.interrupt()

    def close(self) -> None:
        """Give back what it holds."""
        self._run.close()
