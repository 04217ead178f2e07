"""Runs: where a query reads its rows from.

A run is a statement in an engine, a result that is stored already, or another run whose rows are collected for the
cache or counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from neve.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Run(Protocol):
    """A statement in an engine."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""

    def begin(self) -> None:
        """Start the statement."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result as it arrives."""

    def interrupt(self) -> None:
        """Interrupt the statement, from any thread."""

    def close(self) -> None:
        """Release resources."""


class StoredRun:
    """A stored result that needs no execution."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._table.schema

    def begin(self) -> None:
        """Do nothing: the result exists already."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result."""
        yield from self._table.to_batches()

    def interrupt(self) -> None:
        """Do nothing: no statement runs."""

    def close(self) -> None:
        """Do nothing: no resources are held."""


class CollectingRun:
    """Wrapper of a run that passes on its result once it is complete, if it has at most so many bytes."""

    def __init__(self, run: Run, most_bytes: int, keep: Callable[[pa.Table], None]) -> None:
        self._run = run
        self._most = most_bytes
        self._keep = keep

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._run.schema

    def begin(self) -> None:
        """Start the run."""
        self._run.begin()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result as it arrives."""
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
        """Interrupt the run, from any thread."""
        self._run.interrupt()

    def close(self) -> None:
        """Release resources."""
        self._run.close()


class RowLimitRun:
    """Wrapper of a run that fails if its result has more rows than are allowed."""

    def __init__(self, run: Run, most_rows: int, setting: str) -> None:
        self._run = run
        self._most, self._setting = most_rows, setting

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._run.schema

    def begin(self) -> None:
        """Start the run."""
        self._run.begin()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result as it arrives."""
        rows = 0
        for batch in self._run.batches():
            rows += batch.num_rows
            if rows > self._most:
                raise LimitExceeded(
                    f"the result has more than {self._most:,} rows ({self._setting})",
                    limit="rows",
                    hint="select fewer rows, for example with LIMIT",
                )
            yield batch

    def interrupt(self) -> None:
        """Interrupt the run, from any thread."""
        self._run.interrupt()

    def close(self) -> None:
        """Release resources."""
        self._run.close()
