"""Which writer a row goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.ingest.assignment import Assignment
from neve.ingest.config import IngestConfig
from neve.ingest.decoder import route_rows
from neve.lake.config import S3Config
from neve.lake.write.table_writer import Target
from neve.model.columns import TIMESTAMP
from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL
from tests.telemetry import NOW, decoded, logs, traces

if TYPE_CHECKING:
    from neve.lake.lake import Lake

DAY = 86_400_000_000
MAKERS = {Signal.TRACES: traces, Signal.LOGS: logs}


def rows_over_days(signal: Signal, days: list[int]) -> pa.Table:
    """A row for each of some days before today."""
    table = pa.Table.from_batches([decoded(signal, MAKERS[signal](len(days))).batch])
    times = pa.array([NOW // 1000 - day * DAY for day in days], TIMESTAMP)
    return table.set_column(table.column_names.index("timestamp"), table.schema.field("timestamp"), times)


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> dict[str, Target]:
    """Every table of a lake, as tasks see it."""
    from neve.lake.config import CatalogConfig, LakeConfig
    from neve.lake.lake import Lake
    from neve.lake.tables import init_tables

    folder = tmp_path_factory.mktemp("route")
    lake: Lake = Lake(LakeConfig(warehouse=str(folder / "w")), CatalogConfig(path=str(folder / "c.db")))
    init_tables(lake)
    return {table.name: Target.of(lake.table(table.name)) for table in BY_SIGNAL.values()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    signal=st.sampled_from(list(MAKERS)),
    days=st.lists(st.integers(0, 400), min_size=1, max_size=60),
    writers=st.integers(1, 9),
    cut=st.integers(0, 60),
)
def test_rows_of_an_old_partition_meet(
    targets: dict[str, Target], signal: Signal, days: list[int], writers: int, cut: int
) -> None:
    """However the rows came to the tasks: every row goes to one writer, and an old day's rows to the same."""
    name = BY_SIGNAL[signal].name
    assignment = Assignment("b", NOW, IngestConfig(), S3Config(), targets, writers)
    rows = rows_over_days(signal, days)
    pieces = [piece for piece in (rows.slice(0, cut), rows.slice(cut)) if piece.num_rows]
    sent = [(writer, part) for piece in pieces for writer, part in route_rows(assignment, name, piece)]
    assert sorted(value for _writer, part in sent for value in part.column("record_id").to_pylist()) == sorted(
        rows.column("record_id").to_pylist()
    )
    places: dict[object, set[int]] = {}
    for writer, part in sent:
        assert 0 <= writer < writers
        for time, trace in zip(part.column("timestamp").to_pylist(), part.column("trace_id").to_pylist(), strict=True):
            age = NOW // 1000 - time.timestamp() * 1e6
            if age > 2 * DAY:
                places.setdefault((time.date(), trace if signal is Signal.TRACES else None), set()).add(writer)
    assert all(len(found) == 1 for found in places.values())
