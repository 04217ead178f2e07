"""What otel-arrow's exporter wrote of real telemetry, sampled and written back, where it stands beside the clone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb
import pyarrow.dataset as ds
import pytest

from neve.reservoir.config import ReservoirConfig
from neve.reservoir.otap.job import FolderSampler
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.otap.lake.test_real_data import IDS
from tests.reservoir.otap.contents import check_valid, contents

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.reservoir.results import RunResult

WEEK = 604_800


def sampled(lake: Lake, source: Path, folder: Path, signal: str) -> RunResult:
    """Sample what the exporter wrote."""
    config = ReservoirConfig(
        source=str(source / "otap"),
        target=str(folder / "out"),
        signal=signal,
        k=30,
        window_seconds=WEEK,
    )
    return FolderSampler(lake, config, SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))).run()


@pytest.mark.parametrize(("signal", "records"), [("logs", 4974), ("spans", 14890)])
def test_real_otap_is_sampled_and_is_valid_otap_again(
    folder_lake: Lake, shared_data: Path, tmp_path: Path, signal: str, records: int
) -> None:
    """Every kept record is one of the originals, with all that hangs on it; DuckDB and pyarrow read the files."""
    result = sampled(folder_lake, shared_data, tmp_path, signal)
    assert result.records == records
    assert {one.convention for one in result.windows} == {"exporter"}
    check_valid(tmp_path / "out", signal)
    found = contents(tmp_path / "out", signal)
    assert len(found) == result.kept_records
    services = {dict(one.resource)["service.name"] for one in found}
    assert len(services) > 5
    assert sum(one.count for one in found) == pytest.approx(records, rel=0.5)
    files = f"{tmp_path}/out/{signal}/*/*.parquet"
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{files}')").fetchone() == (result.kept_records,)
    paths = [str(path) for path in (tmp_path / "out" / signal).rglob("*.parquet")]
    assert ds.dataset(paths).count_rows() == result.kept_records
    if signal == "logs":
        check_traces(files)


def check_traces(files: str) -> None:
    """Trace ids are the true ones, which bodies name: readers that believe the exporter's footer have others."""
    rows = duckdb.sql(f"SELECT body.str, hex(trace_id), hex(span_id) FROM read_parquet('{files}')").fetchall()
    named = [(re.search(IDS, body), trace, span) for body, trace, span in rows]
    told = [(name.groups(), (trace.lower(), span.lower())) for name, trace, span in named if name]
    assert len(told) > 30
    assert all(said == held for said, held in told)
