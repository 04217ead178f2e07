"""What is in the tables at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from neve.model.commits import DUPLICATES
from neve.model.signals import Signal
from neve.model.tables import QUARANTINE
from tests.chaos.messages import NUMBER
from tests.chaos.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from neve.lake.lake import Lake

RECORD_ID = "record_id"


def judge_numbers(lake: Lake, acknowledged: Mapping[Signal, Iterable[int]]) -> list[Verdict]:
    """Whether each table holds the numbers that were acknowledged, once."""
    return [_judge_table(lake, signal, numbers) for signal, numbers in acknowledged.items()]


def rows(lake: Lake, table: str, *columns: str) -> pa.Table:
    """Some columns of all rows of a table."""
    return lake.table(table).scan(selected_fields=columns).to_arrow()


def quarantined(lake: Lake) -> list[str]:
    """Why records are in quarantine; nothing that these tests send should be there."""
    found = rows(lake, QUARANTINE.name, "reason", "source", "detail").to_pylist()
    return [f"{row['reason']}: {row['source']}: {row['detail']}" for row in found]


def duplicates_dropped(lake: Lake) -> int:
    """How many records were known when they came again, as the commits say; a batch of nothing else makes none."""
    snapshots = [snapshot for signal in Signal for snapshot in lake.table(signal.table).metadata.snapshots]
    said = [snapshot.summary.additional_properties for snapshot in snapshots if snapshot.summary]
    return sum(int(summary.get(DUPLICATES, 0)) for summary in said)


def _judge_table(lake: Lake, signal: Signal, numbers: Iterable[int]) -> Verdict:
    found = rows(lake, signal.table, "attributes", RECORD_ID)
    texts = pc.map_lookup(found.column("attributes"), NUMBER, "first")
    there = [int(text) if text is not None else None for text in texts.to_pylist()]
    return judge(signal.table, numbers, there, found.column(RECORD_ID).to_pylist())
