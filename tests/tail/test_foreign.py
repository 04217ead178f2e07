"""Tables of spans that others write: other names, ids as text, times in other units, attributes as JSON."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from neve.errors import ConfigError
from neve.tail.config import DestinationConfig
from neve.tail.export.exporter import Exporter
from neve.tail.export.kept_spans import KeptSpans
from neve.tail.export.storage_destinations import IcebergDestination
from tests.tail.lakes import ERRORS, SLOW, Span, policies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.tail.lakes import Desk

GOLD = {"name": "gold", "type": "string_attribute", "string_attribute": {"key": "tier", "values": ["gold"]}}
SOME = (
    Span(1, 1, root=True, error=True),
    Span(2, 1, root=True, seconds=5),
    Span(3, 1, root=True, attributes={"tier": "gold"}),
    Span(3, 2, at=0.5),
    Span(4, 1, root=True),
)
EXPECTED = {
    1: [("decided", "sampled", "errors")],
    2: [("decided", "sampled", "slow")],
    3: [("decided", "sampled", "gold")],
    4: [("decided", "not_sampled", None)],
}


def test_the_table_of_the_seed(desk: Desk) -> None:
    """Binary ids, milliseconds, a duration instead of an end, Kafka's time for arrivals."""
    rows = [
        {
            "trace_id": row["trace_id"],
            "span_id": row["span_id"],
            "parent_span_id": row["parent_span_id"] or b"\x00" * 8,
            "status_code": row["status_code"],
            "duration_ms": round(row["duration_ms"]),
            "timestamp_ms": row["start_time_unix_nano"] // 10**6,
            "service_name": row["service_name"],
            "operation_name": row["operation_name"],
            "span_kind": row["span_kind"],
            "attributes": row["attributes"],
            "_kafka_metadata": {"partition": 0, "offset": 1, "timestamp": int(row["ingested_at"].timestamp() * 1000)},
        }
        for row in map(Span.row, SOME)
    ]
    _foreign(desk, rows, _SEED)
    desk.set(source={"table": "others.otel_spans", "organization": "acme"})
    desk.policies = policies(ERRORS, SLOW, GOLD)
    desk.run(at=250)
    assert desk.told() == {}
    desk.run(at=400)
    assert desk.told() == EXPECTED
    assert {row["service_name"] for row in desk.decisions()} == {"cart"}


def test_hexadecimal_ids_microseconds_and_json(desk: Desk) -> None:
    """A table of a Flink job, whose commits are when its spans arrived."""
    rows = [
        {
            "traceId": row["trace_id"].hex(),
            "spanId": row["span_id"].hex(),
            "parentSpanId": row["parent_span_id"].hex() if row["parent_span_id"] else "",
            "statusCode": "STATUS_CODE_ERROR" if row["status_code"] == 2 else "STATUS_CODE_UNSET",
            "began": row["start_time_unix_nano"] // 1000,
            "took": row["duration_ms"] / 1000,
            "serviceName": row["service_name"],
            "name": row["operation_name"],
            "attributes": '{"tier": "gold"}' if row["attributes"] else "{}",
            "tenant_id": "acme",
        }
        for row in map(Span.row, SOME)
    ]
    _foreign(desk, rows, _FLINK)
    desk.set(
        source={
            "table": "others.otel_spans",
            "columns": {"start": "began", "duration": "took"},
            "units": {"start": "us", "duration": "s"},
        }
    )
    desk.policies = policies(ERRORS, SLOW, GOLD)
    # Its commits are of today: nothing is ready at a time before them, and everything is long after them.
    assert desk.run(at=1000).decided.traces == 0
    desk.run(at=timedelta(days=3650).total_seconds())
    assert desk.told() == EXPECTED


def test_kept_spans_of_a_foreign_table_are_rows_of_ours(desk: Desk) -> None:
    """Kept spans of a foreign table are rows of ours."""
    test_the_table_of_the_seed(desk)
    selector = desk.selector(at=500)
    kept = KeptSpans(desk.lake, selector.source, desk.config, desk.lake.table("trace_decisions"))
    destination = IcebergDestination(DestinationConfig(name="table", kind="iceberg"), desk.lake)
    (result,) = Exporter(kept, selector.documents, [destination]).run()

    assert result.delivery.accepted == 4
    found = desk.lake.table("sampled_spans").scan().to_arrow().to_pylist()
    assert {row["trace_id"] for row in found} == {span.trace_id for span in SOME if span.trace != 4}
    one = next(row for row in found if row["trace_id"] == SOME[2].trace_id and row["parent_span_id"] is None)
    expected = SOME[2].row()
    assert dict(one["attributes"]) == {"tier": "gold", "sampling.adjusted_count": "1"}
    assert dict(one["resource_attrs"]) == {"service.name": "cart"}
    for name in ("start_time_unix_nano", "end_time_unix_nano", "span_id", "operation_name", "timestamp"):
        assert one[name] == expected[name], name


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"columns": {"start": "nowhere"}}, r"tail\.source\.columns\.start: the table has no column 'nowhere'"),
        ({"columns": {"colour": "x"}}, r"tail\.source\.columns\.colour: expected one of organization_id, trace_id"),
        ({"units": {"trace_id": "ms"}}, r"tail\.source\.units\.trace_id: expected one of start, end"),
        ({"columns": {"trace_id": "began"}}, r"the column 'began' is long, expected binary, text in hexadecimal"),
        ({"columns": {"start": "began"}}, r"units\.start: the column 'began' is a number without a unit in its name"),
        ({"columns": {"start": "began", "attributes": "took"}, "units": {"start": "us"}}, "expected a map with texts"),
    ],
)
def test_columns_that_do_not_fit_are_refused_at_start(desk: Desk, source: dict[str, Any], message: str) -> None:
    """Columns that do not fit are refused at start."""
    _foreign(desk, [], _FLINK)
    desk.set(source={"table": "others.otel_spans", **source})
    with pytest.raises(ConfigError, match=message):
        desk.run(at=1)


def test_policies_that_ask_for_what_is_not_there_are_refused_at_start(desk: Desk) -> None:
    """Policies that ask for what is not there are refused at start."""
    _foreign(desk, [], _FLINK)
    desk.set(
        source={"table": "others.otel_spans", "columns": {"start": "began", "duration": "took"}}
        | {"units": {"start": "us", "duration": "s"}}
    )
    flags = {"name": "flagged", "type": "trace_flags"}
    desk.policies = policies(flags)
    with pytest.raises(ConfigError, match=r"the policies need flags, which others\.otel_spans does not have"):
        desk.run(at=1)


def _foreign(desk: Desk, rows: Sequence[dict[str, Any]], schema: pa.Schema) -> None:
    desk.lake.catalog.create_namespace_if_not_exists("others")
    table = desk.lake.catalog.create_table("others.otel_spans", schema)
    if rows:
        table.append(pa.Table.from_pylist(list(rows), schema))


_SEED = pa.schema(
    [
        ("trace_id", pa.binary()),
        ("span_id", pa.binary()),
        ("parent_span_id", pa.binary()),
        ("status_code", pa.int32()),
        ("duration_ms", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("service_name", pa.string()),
        ("operation_name", pa.string()),
        ("span_kind", pa.int32()),
        ("attributes", pa.map_(pa.string(), pa.string())),
        (
            "_kafka_metadata",
            pa.struct([("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.int64())]),
        ),
    ]
)
_FLINK = pa.schema(
    [
        ("traceId", pa.string()),
        ("spanId", pa.string()),
        ("parentSpanId", pa.string()),
        ("statusCode", pa.string()),
        ("began", pa.int64()),
        ("took", pa.float64()),
        ("serviceName", pa.string()),
        ("name", pa.string()),
        ("attributes", pa.string()),
        ("tenant_id", pa.string()),
    ]
)
