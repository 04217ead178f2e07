"""The benchmarks' telemetry as exporters send it: messages of some hundred records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.telemetry import START_UNIX_NANO, hour, messages
from neve.otlp import Intake, decode, encode
from neve.otlp.json import to_protobuf

if TYPE_CHECKING:
    from neve.model.signals import Signal

RECORDS = 500


@dataclass(frozen=True)
class Exports:
    """Messages of one signal and how many records they hold."""

    signal: Signal
    messages: tuple[bytes, ...]
    records: int

    @property
    def size(self) -> int:
        """All bytes."""
        return sum(map(len, self.messages))


@cache
def exports(signal: Signal, seeds: tuple[int, ...] = (7,)) -> Exports:
    """Generated hours of one signal, cut into exports."""
    rows = pa.Table.from_batches([batch for seed in seeds for batch in _batches(signal, seed)])
    cut = [rows.slice(start, RECORDS) for start in range(0, rows.num_rows, RECORDS)]
    return Exports(
        signal, tuple(encode(signal, piece.combine_chunks().to_batches()[0]) for piece in cut), rows.num_rows
    )


def _batches(signal: Signal, seed: int) -> list[pa.RecordBatch]:
    intake = Intake("bench", START_UNIX_NANO + 10**14)
    wires: list[bytes] = []
    for text in messages(hour(seed) / signal.value):
        is_json = text.lstrip().startswith(b"{")
        wires += to_protobuf(signal, text).messages.to_pylist() if is_json else [text]
    return [decode(signal, [wire], intake).batch for wire in wires]
