"""Rows on their way through parsing, checks and decoding: what is refused falls out, with its reason."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from neve.otlp.parse import Indices, others, parse
from neve.otlp.unreadable import unreadable
from neve.otlp.values import UnreadableValue

Refused = tuple[int, str, str]  # a row, the reason, the detail
T = TypeVar("T")

MALFORMED = "malformed_record"


@dataclass(frozen=True)
class Sieve:
    """The rows that are still in, the place of each in the column that they came from, and what fell out of it."""

    batch: pa.RecordBatch
    index: Indices
    refused: tuple[Refused, ...] = ()

    @classmethod
    def parse(cls, name: str, column: pa.BinaryArray) -> "Sieve":
        """The messages `name` of a column that can be parsed."""
        parsed = parse(name, column)
        return cls(parsed.batch, parsed.index, tuple((row, MALFORMED, bad) for row, bad in parsed.malformed.items()))

    def without(self, refused: Iterable[Refused]) -> "Sieve":
        """The same without rows of the batch that are refused."""
        out = list(refused)
        if not out:
            return self
        keep = others(self.batch.num_rows, (row for row, *_why in out))
        placed = ((int(self.index[row]), reason, detail) for row, reason, detail in out)
        return Sieve(self.batch.take(pa.array(keep)), self.index[keep], (*self.refused, *placed))

    def decode(self, decode: Callable[[pa.RecordBatch], T]) -> tuple["Sieve", T]:
        """What decoding makes of the rows whose nested values can be read, and those rows."""
        try:
            return self, decode(self.batch)
        except UnreadableValue:
            readable = self.without((row, MALFORMED, bad) for row, bad in unreadable(self.batch).items())
        return readable, decode(readable.batch)
