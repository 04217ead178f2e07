"""Real telemetry from otel-arrow's exporter, into a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from neve.ingest.config import IngestConfig
from neve.ingest.otap_import import ingest_otap

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake


def test_the_exporters_folder_arrives_whole(spark_lake: Lake, shared_data: Path) -> None:
    """4,974 logs and 14,890 spans, each under an id of its own and with its service; nothing is lost or refused."""
    result = ingest_otap(spark_lake, IngestConfig(), str(shared_data / "otap"), "acme")
    assert (result.ingested.records, result.ingested.rejected, result.losses) == (
        {"logs": 4974, "traces": 14890},
        {},
        {},
    )
    assert result.conventions == {"exporter": 1}
    for name, count in (("logs", 4974), ("spans", 14890)):
        rows = spark_lake.table(name).scan(selected_fields=("service_name", "record_id", "scope_name")).to_arrow()
        assert pc.count_distinct(rows.column("record_id")).as_py() == count
        assert rows.column("service_name").null_count == 0
        assert set(rows.column("scope_name").to_pylist()) == {"nezha"}
