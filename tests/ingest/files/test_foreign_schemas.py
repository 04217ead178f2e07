"""Exports of other systems are recognised by their fields, and nothing is ingested without a time and a message."""

import json
from typing import Any

import pyarrow as pa
import pytest

from neve.errors import UnknownFields
from neve.ingest.files.foreign_schemas import SCHEMAS, detect_schema, fold_name, map_fields
from neve.ingest.files.reader import Messages, ReadOptions
from neve.model.signals import Signal
from tests.ingest.samples import AT, FIELDS, SPAN, TRACE, configured, csv, lines, logs, parquet, read, reasons, rows

MICROS = AT // 1000 * 1000
TIME = pa.timestamp("ns", tz="UTC")
TEXT_MAP = pa.map_(pa.string(), pa.string())

CLICKHOUSE_LOGS = {
    "Timestamp": pa.array([AT], TIME),
    "TimestampTime": pa.array([AT // 10**9], pa.timestamp("s", tz="UTC")),
    "TraceId": [TRACE],
    "SpanId": [SPAN],
    "TraceFlags": pa.array([1], pa.uint8()),
    "SeverityText": ["Warning"],
    "SeverityNumber": pa.array([14], pa.int32()),
    "ServiceName": ["cart"],
    "Body": ["boom"],
    "ResourceSchemaUrl": ["https://r"],
    "ResourceAttributes": pa.array([[("service.name", "cart"), ("host.name", "a")]], TEXT_MAP),
    "ScopeName": ["lib"],
    "ScopeVersion": ["1.2"],
    "ScopeAttributes": pa.array([[("k", "v")]], TEXT_MAP),
    "LogAttributes": pa.array([[("user", "ann")]], TEXT_MAP),
}
CLICKHOUSE_SPANS = {
    "Timestamp": pa.array([AT], TIME),
    "TraceId": [TRACE],
    "SpanId": [SPAN],
    "ParentSpanId": [""],
    "TraceState": ["a=b"],
    "SpanName": ["get"],
    "SpanKind": ["Server"],
    "ServiceName": ["cart"],
    "ResourceAttributes": pa.array([[("service.name", "cart")]], TEXT_MAP),
    "SpanAttributes": pa.array([[("peer", "db")]], TEXT_MAP),
    "Duration": pa.array([2_000_001], pa.int64()),
    "StatusCode": ["STATUS_CODE_ERROR"],
    "StatusMessage": ["it failed"],
    "Events.Timestamp": pa.array([[AT + 1, AT + 2]], pa.list_(TIME)),
    "Events.Name": [["first", "second"]],
    "Events.Attributes": pa.array([[[("a", "1")], []]], pa.list_(TEXT_MAP)),
    "Links.TraceId": [[TRACE[::-1]]],
    "Links.SpanId": [[SPAN[::-1]]],
    "Links.TraceState": [["x=y"]],
    "Links.Attributes": pa.array([[[]]], pa.list_(TEXT_MAP)),
}
POINT: dict[str, Any] = {
    "ResourceAttributes": {"service.name": "cart"},
    "ServiceName": "cart",
    "MetricName": "load",
    "MetricDescription": "how much",
    "MetricUnit": "1",
    "Attributes": {"host": "a"},
    "StartTimeUnix": "2025-01-01 00:00:00.000000001",
    "TimeUnix": "2025-01-01 00:00:00.123456789",
    "Flags": 0,
}


def schema_name(found: Messages) -> str | None:
    """The schema that a file was read by."""
    return found.names.schema.name if found.names and found.names.schema else None


def as_json_lines(columns: dict[str, Any]) -> bytes:
    """One row as ClickHouse's JSONEachRow has it."""
    [row] = pa.table(columns).to_pylist(maps_as_pydicts="strict")
    return lines(json.loads(json.dumps(row, default=lambda value: value.isoformat(sep=" ")[:26])))


def check_clickhouse_log(found: Messages, time: int) -> None:
    """Compare the row of a log of ClickHouse's exporter."""
    assert (found.signal, schema_name(found), found.rejected) == (Signal.LOGS, "clickhouse_logs", ())
    [row] = rows(found)
    assert (row["time_unix_nano"], row["message"], row["service_name"]) == (time, "boom", "cart")
    assert (row["severity_text"], row["severity_number"], row["flags"]) == ("Warning", 14, 1)
    assert (row["trace_id"].hex(), row["span_id"].hex()) == (TRACE, SPAN)
    assert dict(row["attributes"]) == {"user": "ann"}
    assert dict(row["resource_attrs"]) == {"service.name": "cart", "host.name": "a"}
    assert (row["scope_name"], row["scope_version"], dict(row["scope_attrs"])) == ("lib", "1.2", {"k": "v"})
    assert row["resource_schema_url"] == "https://r"


def test_clickhouse_logs_in_parquet() -> None:
    """All columns have their place, and those that repeat the time are left out."""
    check_clickhouse_log(read("export.parquet", parquet(CLICKHOUSE_LOGS)), AT)


@pytest.mark.parametrize("change", [str.lower, str.upper, lambda name: name.replace("Id", "_id")])
def test_names_are_found_in_any_case(change: Any) -> None:
    """Case, underscores and dashes make no difference."""
    check_clickhouse_log(
        read("x.parquet", parquet({change(name): value for name, value in CLICKHOUSE_LOGS.items()})), AT
    )


def test_clickhouse_logs_in_json_lines() -> None:
    """Maps are objects there, and times have no type."""
    check_clickhouse_log(read("export.jsonl", as_json_lines(CLICKHOUSE_LOGS)), MICROS)


def test_clickhouse_logs_in_csv() -> None:
    """Maps are texts in single quotes there, with escapes."""
    table = {name: [str(value[0])] for name, value in CLICKHOUSE_LOGS.items()}
    table |= {
        "Timestamp": ["2025-01-01 00:00:00.123456789"],
        "ResourceAttributes": ["{'service.name':'cart','host.name':'a'}"],
        "ScopeAttributes": ["{'k':'v'}"],
        "LogAttributes": ["{'user':'ann'}"],
    }
    check_clickhouse_log(read("export.csv", csv(pa.table(table))), AT)


def test_escapes_of_clickhouse_maps() -> None:
    """Quotes, backslashes and control characters are those of the value."""
    text = r"""{'it\'s':'a "b" \\ \n','\\':'{\'x\':1}'}"""
    [row] = logs({"Timestamp": AT, "Body": "m", "LogAttributes": text})
    assert dict(row["attributes"]) == {"it's": 'a "b" \\ \n', "\\": "{'x':1}"}


def test_clickhouse_texts_may_be_bytes() -> None:
    """Older versions write strings to Parquet without saying that they are text."""
    columns = {
        name: pa.array([value[0].encode()], pa.binary()) if isinstance(value, list) else value
        for name, value in CLICKHOUSE_LOGS.items()
    }
    check_clickhouse_log(read("x.parquet", parquet(columns)), AT)


def check_clickhouse_span(found: Messages, time: int) -> None:
    """Compare the row of a span of ClickHouse's exporter."""
    assert (found.signal, schema_name(found), found.rejected) == (Signal.TRACES, "clickhouse_traces", ())
    [row] = rows(found)
    assert (row["start_time_unix_nano"], row["end_time_unix_nano"]) == (time, time + 2_000_001)
    assert (row["operation_name"], row["span_kind"], row["trace_state"]) == ("get", 2, "a=b")
    assert (row["status_code"], row["status_message"], row["parent_span_id"]) == (2, "it failed", None)
    assert dict(row["attributes"]) == {"peer": "db"}
    assert [event["name"] for event in row["events"]] == ["first", "second"]
    assert [dict(event["attributes"]) for event in row["events"]] == [{"a": "1"}, {}]
    [link] = row["links"]
    assert (link["trace_id"].hex(), link["span_id"].hex()) == (TRACE[::-1], SPAN[::-1])
    assert link["trace_state"] == "x=y"


@pytest.mark.slow
def test_clickhouse_spans() -> None:
    """Durations are nanoseconds, and events and links come back together from their lists."""
    found = read("export.parquet", parquet(CLICKHOUSE_SPANS))
    check_clickhouse_span(found, AT)
    assert [event["time_unix_nano"] for event in rows(found)[0]["events"]] == [AT + 1, AT + 2]
    check_clickhouse_span(read("export.jsonl", as_json_lines(CLICKHOUSE_SPANS)), MICROS)


def test_a_span_kind_that_is_none_is_refused() -> None:
    """It is not stored as unspecified."""
    odd = CLICKHOUSE_SPANS | {"SpanKind": ["Sideways"]}
    [bad] = read("x.parquet", parquet(odd)).rejected
    assert (bad.reason, bad.detail[:17]) == ("bad_value", "kind is 'Sideways")


def test_lists_of_different_lengths_are_refused() -> None:
    """An event without a name can't be told from its neighbour."""
    odd = CLICKHOUSE_SPANS | {"Events.Name": [["only one"]]}
    [bad] = read("x.parquet", parquet(odd)).rejected
    assert bad.detail == "event_names has 1 elements, and event_times has 2"


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({"Value": 1.5}, {"metric_type": "gauge", "value": 1.5}),
        (
            {"Value": 3, "AggregationTemporality": 2, "IsMonotonic": True},
            {"metric_type": "sum", "value_int": 3, "aggregation_temporality": 2, "is_monotonic": True},
        ),
        (
            {"Value": 3, "AggregationTemporality": "AGGREGATION_TEMPORALITY_DELTA", "IsMonotonic": "false"},
            {"metric_type": "sum", "aggregation_temporality": 1, "is_monotonic": False},
        ),
        (
            {"Count": "5", "Sum": 2.5, "BucketCounts": ["2", "3"], "ExplicitBounds": [1.0], "Min": 0.1, "Max": 0.9},
            {"metric_type": "histogram", "count": 5, "bucket_counts": [2, 3], "explicit_bounds": [1.0], "min": 0.1},
        ),
        (
            {"Count": 5, "Sum": 2.5, "Scale": 3, "ZeroCount": 1, "PositiveOffset": 2, "PositiveBucketCounts": [1, 3]}
            | {"NegativeOffset": 0, "NegativeBucketCounts": []},
            {"metric_type": "exponential_histogram", "scale": 3, "positive": {"offset": 2, "bucket_counts": [1, 3]}},
        ),
        (
            {"Count": 5, "Sum": 2.5, "ValueAtQuantiles.Quantile": [0.5, 1], "ValueAtQuantiles.Value": [1.0, 2.0]},
            {"metric_type": "summary", "quantile_values": [{"quantile": q, "value": v} for q, v in ((0.5, 1), (1, 2))]},
        ),
    ],
)
def test_clickhouse_metrics(fields: dict[str, Any], stored: dict[str, Any]) -> None:
    """Each of the five tables of metrics is read as its type."""
    found = read("export.jsonl", lines(POINT | fields))
    assert (found.signal, found.rejected) == (Signal.METRICS, ())
    [row] = rows(found)
    assert {name: row[name] for name in stored} == stored
    assert (row["metric_name"], row["description"], row["service_name"]) == ("load", "how much", "cart")
    assert (row["time_unix_nano"], row["start_time_unix_nano"]) == (AT, AT // 10**9 * 10**9 + 1)


def test_exemplars_of_clickhouse_metrics() -> None:
    """They keep the trace that made them."""
    exemplars = {
        "Exemplars.TimeUnix": ["2025-01-01 00:00:00.123456789"],
        "Exemplars.Value": [1.5],
        "Exemplars.TraceId": [TRACE],
        "Exemplars.SpanId": [SPAN],
        "Exemplars.FilteredAttributes": [{"user": "ann"}],
    }
    [row] = rows(read("x.jsonl", lines(POINT | {"Value": 2} | exemplars)))
    [exemplar] = row["exemplars"]
    assert (exemplar["time_unix_nano"], exemplar["value"], exemplar["trace_id"].hex()) == (AT, 1.5, TRACE)
    assert dict(exemplar["attributes"]) == {"user": "ann"}


@pytest.mark.parametrize(
    ("name", "document", "stored"),
    [
        (
            "loki",
            {"timestamp": "2025-01-01T00:00:00.123456789Z", "line": "m", "labels": {"app": "cart", "level": "warn"}},
            {"severity_number": 13},
        ),
        (
            "loki",
            {"streams": [{"stream": {"app": "cart", "level": "warn"}, "values": [[str(AT), "m"]]}]},
            {"severity_number": 13},
        ),
        (
            "loki",
            {
                "status": "success",
                "data": {"resultType": "streams", "result": [{"stream": {"app": "cart"}, "values": [[str(AT), "m"]]}]},
            },
            {},
        ),
        (
            "elastic_logs",
            {"_index": "i", "_source": {"@timestamp": AT, "message": "m", "log.level": "warn", "service.name": "cart"}},
            {"severity_number": 13, "attributes": [("_index", "i")]},
        ),
        (
            "elastic_logs",
            {"hits": {"hits": [{"_source": {"@timestamp": AT, "message": "m", "service": {"name": "cart"}}}]}},
            {},
        ),
        (
            "elastic_logs",
            {"@timestamp": AT, "message": "m", "log": {"level": "warn"}, "service": {"name": "cart"}}
            | {"trace": {"id": TRACE}, "ecs": {"version": "8"}, "host": {"os": {"type": "linux"}}},
            {
                "severity_number": 13,
                "trace_id": bytes.fromhex(TRACE),
                "attributes": [("ecs.version", "8"), ("host.os.type", "linux")],
            },
        ),
        (
            "openobserve_logs",
            {"_timestamp": AT // 1000, "log": "m", "service_name": "cart"},
            {"time_unix_nano": MICROS},
        ),
        ("fluent_bit", {"date": "1735689600.123456789", "log": "m", "app": "cart"}, {}),
        (
            "vector_logs",
            {"timestamp": "2025-01-01T00:00:00.123456789Z", "message": "m", "source_type": "file", "service": "cart"},
            {"attributes": [("source_type", "file")]},
        ),
        (
            "journald",
            {"__REALTIME_TIMESTAMP": str(AT // 1000), "MESSAGE": "m", "PRIORITY": "4", "SYSLOG_IDENTIFIER": "cart"},
            {"severity_number": 13, "time_unix_nano": MICROS},
        ),
        (
            "windows_events",
            {
                "Event": {
                    "System": {
                        "Provider": {"@Name": "cart"},
                        "EventID": 7,
                        "Level": "3",
                        "TimeCreated": {"@SystemTime": "2025-01-01T00:00:00.123456789Z"},
                    },
                    "RenderingInfo": {"Message": "m"},
                }
            },
            {"severity_number": 13, "attributes": [("System.EventID", "7")]},
        ),
    ],
)  # fmt: skip
def test_logs_of_other_systems(name: str, document: dict[str, Any], stored: dict[str, Any]) -> None:
    """A file whose name says nothing is read as the logs that it holds."""
    found = read("export.json", lines(document))
    assert (found.signal, schema_name(found), found.rejected) == (Signal.LOGS, name, ())
    [row] = rows(found)
    assert (row["message"], row["service_name"]) == ("m", "cart")
    assert row["time_unix_nano"] == stored.get("time_unix_nano", AT)
    assert {key: row[key] for key in stored} == stored


def test_a_grafana_download_of_loki() -> None:
    """Its time column is for people, and the nanoseconds are beside it."""
    text = f'"labels","Time","Line","tsNs","id"\n"{{""app"":""cart""}}","2025-01-01 01:00:00","m","{AT}","1"\n'
    found = read("Explore-logs.csv", text.encode())
    assert schema_name(found) == "loki_grafana"
    [row] = rows(found)
    assert (row["time_unix_nano"], row["message"], row["service_name"]) == (AT, "m", "cart")


@pytest.mark.parametrize(
    ("name", "document", "stored"),
    [
        (
            "openobserve_traces",
            {"trace_id": TRACE, "span_id": SPAN, "operation_name": "get", "start_time": AT, "end_time": AT + 5}
            | {"duration": 1, "span_kind": "2", "span_status": "ERROR", "reference_parent_span_id": SPAN[::-1]},
            {"span_kind": 2, "status_code": 2, "end_time_unix_nano": AT + 5}
            | {"parent_span_id": bytes.fromhex(SPAN[::-1])},
        ),
        (
            "elastic_spans",
            {"@timestamp": "2025-01-01", "timestamp": {"us": AT // 1000}, "ecs": {"version": "1"}}
            | {"trace": {"id": TRACE}, "transaction": {"id": SPAN, "name": "get", "duration": {"us": 1500}}},
            {"start_time_unix_nano": MICROS, "duration_ms": 1.5},
        ),
    ],
)  # fmt: skip
def test_spans_of_other_systems(name: str, document: dict[str, Any], stored: dict[str, Any]) -> None:
    """Durations are in the unit of the system."""
    found = read("export.json", lines(document))
    assert (found.signal, schema_name(found), found.rejected) == (Signal.TRACES, name, ())
    [row] = rows(found)
    assert (row["operation_name"], row["trace_id"].hex(), row["span_id"].hex()) == ("get", TRACE, SPAN)
    assert {key: row[key] for key in stored} == stored


def test_vector_metrics() -> None:
    """Counters are sums with the temporality of their kind, and gauges are gauges."""
    base = {"timestamp": "2025-01-01T00:00:00Z", "name": "hits", "tags": {"host": "a"}}
    found = read(
        "export.json",
        lines(
            base | {"kind": "incremental", "counter": {"value": 3}},
            base | {"kind": "absolute", "gauge": {"value": 1.5}},
            base | {"kind": "absolute", "set": {"values": ["a"]}},
        ),
    )
    assert schema_name(found) == "vector_metrics"
    counter, gauge = rows(found)
    assert (counter["metric_type"], counter["aggregation_temporality"], counter["is_monotonic"]) == ("sum", 1, True)
    assert (gauge["metric_type"], gauge["value"], dict(gauge["attributes"])) == ("gauge", 1.5, {"host": "a"})
    assert reasons(found.rejected) == [("missing_value", 2)]


@pytest.mark.parametrize("name", ["logs.parquet", "logs.csv", "logs.jsonl"])
def test_a_file_without_time_and_message_is_refused_with_its_names(name: str) -> None:
    """It is not ingested with the time of ingestion and no message."""
    table = pa.table({"when": ["x"], "what": ["y"], "who's": ["z"]})
    data = {"logs.parquet": parquet(table), "logs.csv": csv(table), "logs.jsonl": lines(*table.to_pylist())}[name]
    with pytest.raises(UnknownFields, match="found neither a time nor a message for logs among its fields") as caught:
        read(name, data)
    assert "what, when, who's" in caught.value.message
    assert "ingest.fields" in (caught.value.hint or "")
    [row] = rows(read(name, data, fields=configured(message=["what"])))
    assert row["message"] == "y"


@pytest.mark.parametrize(("name", "words"), [("metrics.csv", "neither a value nor a count"), ("spans.csv", "trace_id")])
def test_other_signals_are_refused_with_their_names(name: str, words: str) -> None:
    """A table with a column for each metric has no value, and a list of ids no span."""
    with pytest.raises(UnknownFields, match=words):
        read(name, b"time,CpuUsage\n2025-01-01,0.5\n")


def test_a_record_without_time_and_message_is_refused_alone() -> None:
    """Its neighbours are ingested."""
    found = read("logs.jsonl", lines({"time": AT}, {"other": 1}, {"msg": "m"}))
    assert (len(rows(found)), reasons(found.rejected)) == (2, [("missing_fields", 1)])


def test_a_stated_signal_counts_more_than_the_schema() -> None:
    """Spans read as logs have no message, but a time."""
    found = read("x.parquet", parquet(CLICKHOUSE_SPANS), ReadOptions(Signal.LOGS))
    assert (found.signal, schema_name(found)) == (Signal.LOGS, None)


def test_a_name_counts_more_than_a_schema_that_is_not_distinct() -> None:
    """`_timestamp` is a field of OpenObserve's metrics, too."""
    assert detect_schema(["_timestamp", "value"], None, Signal.METRICS) is None
    assert detect_schema(["_timestamp", "log"], None, None) is not None


def test_an_exact_name_is_found_before_a_similar_one() -> None:
    """`Time` and `time` in one file are different fields."""
    found = map_fields(Signal.LOGS, FIELDS, ["TIME", "Time", "time", "other"], None)
    assert (found.names["time"][0], found.others) == ("time", ("other",))


def test_schemas_are_declared_by_names_that_can_be_found() -> None:
    """Marks are compared in lower case or folded."""
    for schema in SCHEMAS:
        for mark in (*schema.needs, *schema.one_of):
            assert mark in (mark.lower(), fold_name(mark))


def test_a_text_that_is_nested_too_deep_costs_nothing_but_its_type() -> None:
    """The depth of a text inside of a record is not known when the record is read."""
    deep = '{"a": ' + "[" * 500 + "]" * 500 + ', "b": 1}'
    [row] = logs({"Timestamp": AT, "Body": "m", "LogAttributes": deep})
    assert dict(row["attributes"])["b"] == "1"
    assert dict(row["attributes"])["a"].startswith("[[[")


def test_a_text_with_a_key_twice_stays_a_text() -> None:
    """It is no map, and its record is ingested."""
    [row] = logs({"Timestamp": AT, "Body": "m", "LogAttributes": '{"a": 1, "a": 2}'})
    assert dict(row["attributes"]) == {"LogAttributes": '{"a": 1, "a": 2}'}


def test_dotted_and_nested_names_that_collide_are_both_kept() -> None:
    """Such a file is read without flattening."""
    [row] = logs({"@timestamp": AT, "message": "m", "log.level": "warn", "log": {"level": "error"}})
    assert "error" in str(row["attributes"])
    assert row["severity_text"] == "warn"
