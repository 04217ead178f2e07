"""Advice on Neve's own spans, written as ingestion writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.autopilot.config import RecommendConfig
from neve.autopilot.layout import PartField
from neve.autopilot.recommend.advisor import advise
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.predicate.filters import AllOf
from neve.predicate.filters import Test as Ask
from tests.autopilot.recommend.made import NOW, asked
from tests.telemetry import NOW as RECEIVED
from tests.telemetry import traces

if TYPE_CHECKING:
    from neve.lake.lake import Lake

CONFIG = RecommendConfig(
    min_table_bytes=0, min_queries=5, sample_rows=2000, ranking_rows=1000, resamples=4, payback_days=1e9
)


def test_spans_keep_their_organization_first(lake: Lake) -> None:
    """Look-ups by service and time in spans: candidates are estimated, and none moves the tenant from its place."""
    table = lake.table("spans")
    for commit in range(4):
        wires = [traces(5, first=1000 * commit + 10 * number, service=f"s{number % 6}") for number in range(60)]
        batch = pa.Table.from_batches([decode(Signal.TRACES, wires, Intake("acme", RECEIVED)).batch])
        append_once(table, write_files(Target.of(table), batch), batch_id=f"b{commit}", operation="test")
    table.refresh()
    low = datetime(2020, 1, 1, tzinfo=UTC)
    wanted = [
        AllOf(
            (
                Ask("organization_id", "eq", ("acme",)),
                Ask("service_name", "eq", (f"s{number % 6}",)),
                Ask("timestamp", "range", (), low, low + timedelta(days=365 * 20)),
                Ask("trace_id", "eq", (bytes([number]) * 16,)),
            )
        )
        for number in range(12)
    ]
    advice = advise(table, asked("telemetry.spans", *wanted), CONFIG, now=NOW)
    assert advice.current.partition == (
        PartField("organization_id", "identity"),
        PartField("timestamp", "day"),
        PartField("trace_id", "bucket[16]"),
    )
    assert advice.candidates > 20
    layouts = [one.layout for one in advice.rejected] + [one.after for one in advice.recommendations]
    assert all(layout.partition[0].column == "organization_id" for layout in layouts)
    assert not any("trace_id" in layout.blooms for layout in layouts)
    assert all(PartField("timestamp", "day") in one.after.partition for one in advice.recommendations)
    given_up = [one for one in advice.rejected if PartField("timestamp", "day") not in one.layout.partition]
    assert given_up
    assert all("need the partition by" in one.reason for one in given_up)
    assert advice.as_document()["table"] == "telemetry.spans"
