"""Severities, ids and numbers of generic records."""

import pyarrow as pa
import pytest

from neve.ingest.files.record_columns import SEVERITIES
from neve.model.signals import Signal
from neve.otlp import Rejected, decode
from tests.ingest.samples import AT, INTAKE, SPAN, TRACE, Document, Row, lines, logs, parquet, read, reasons, rows


def points(*documents: Document) -> tuple[list[Row], tuple[Rejected, ...]]:
    """The rows of metric points, and what was refused."""
    found = read("metrics.jsonl", lines(*({"ts": AT, "metric": "m"} | document for document in documents)))
    return rows(found), found.rejected


def span(**fields: object) -> bytes:
    """One span as a JSON line."""
    return lines({"start": AT, "trace_id": TRACE, "span_id": SPAN} | fields)


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (("trace", "debug", "info", "warn", "error", "fatal"), (1, 5, 9, 13, 17, 21)),
        (("TRACE", "Debug", "INFO", "Warning", "ERROR", "Critical"), (1, 5, 9, 13, 17, 21)),
        (("verbose", "information", "notice", "err", "crit", "panic"), (1, 9, 10, 17, 21, 21)),
        (("1", "9", 17, 24, " error ", "alert"), (1, 9, 17, 24, 17, 22)),
        (("0", "25", "-1", "?", "", 9.5), (0, 0, 0, 0, 0, 0)),
    ],
)
def test_severities(words: tuple[object, ...], numbers: tuple[int, ...]) -> None:
    """Words of any case and OpenTelemetry's own numbers are understood; the text stays as it was written."""
    found = logs(*({"level": word, "message": "m"} for word in words))
    assert tuple(row["severity_number"] for row in found) == numbers
    assert [row["severity_text"] for row in found] == [str(word) or None for word in words]


def test_severity_numbers_are_the_standards() -> None:
    """Every word leads to a number that OpenTelemetry has."""
    assert set(SEVERITIES.values()) <= set(range(1, 25))
    assert logs({"message": "no level"})[0]["severity_number"] == 0


@pytest.mark.parametrize("text", [TRACE, TRACE.upper(), "5b8efff7-9803-8103-d269-b633813fc60c"])
def test_ids_are_hex_of_any_case_with_or_without_dashes(text: str) -> None:
    """A UUID is a trace id too."""
    assert logs({"trace_id": text, "message": "m"})[0]["trace_id"] == bytes.fromhex(TRACE)


@pytest.mark.parametrize("text", ["", None])
def test_no_id_is_null(text: str | None) -> None:
    """An empty id says that the record belongs to no trace."""
    assert logs({"trace_id": text, "message": "m"})[0]["trace_id"] is None


@pytest.mark.parametrize("text", ["xyz", "12", "zz" * 16, TRACE[:-1]])
def test_a_span_with_a_bad_id_is_refused_by_the_checks(text: str) -> None:
    """The span goes to quarantine with the reason, and its neighbour is kept."""
    found = read("spans.jsonl", span(trace_id=text) + b"\n" + span(name="good"))
    [bad] = found.rejected
    assert (bad.reason, bad.message) == ("invalid_trace_id", 0)
    assert bad.detail == f"trace_id is {text!r}, expected 32 hex digits, a UUID or base64 of 16 bytes"
    assert [row["operation_name"] for row in rows(found)] == ["good"]


@pytest.mark.parametrize("text", ["request-17", "1234"])
def test_the_trace_id_of_a_log_has_16_bytes_or_is_kept_elsewhere(text: str) -> None:
    """The column promises 16 bytes; another correlation id must be refused or become an attribute."""
    found = read("logs.jsonl", lines({"trace_id": text, "message": "m"}))
    decoded = decode(Signal.LOGS, found.messages, INTAKE)
    assert all(value is None or len(value) == 16 for value in decoded.batch.column("trace_id").to_pylist())


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(16), pa.large_binary()], ids=str)
def test_parquet_ids_may_be_bytes(kind: pa.DataType) -> None:
    """Ids in bytes, as Neve's own tables have them, are ids."""
    ids = pa.array([bytes.fromhex(TRACE), None], kind)
    found = rows(read("logs.parquet", parquet({"trace_id": ids, "message": ["a", "b"]})))
    assert [row["trace_id"] for row in found] == [bytes.fromhex(TRACE), None]


def test_metric_values_are_numbers_or_say_one() -> None:
    """Numbers, texts of numbers and the special doubles are values of a gauge."""
    found, rejected = points({"value": 1}, {"value": "2.5"}, {"val": -3e10}, {"value": "Infinity"})
    assert [row["value"] for row in found] == [1.0, 2.5, -3e10, float("inf")]
    assert {row["metric_type"] for row in found} == {"gauge"}
    assert rejected == ()


@pytest.mark.parametrize("value", ["fast", True, {"a": 1}, ""])
def test_a_value_that_is_no_number_is_refused(value: object) -> None:
    """With the value in the words."""
    found, [bad] = points({"value": 1}, {"value": value})
    assert len(found) == 1
    assert (bad.reason, bad.message) == ("bad_value", 1)
    assert bad.detail.startswith("value is ")
    assert bad.detail.endswith("expected a number")


def test_a_point_without_value_is_refused() -> None:
    """A metric point that says nothing is no point."""
    _, [bad] = points({"host": "a"}, {"value": 1})
    assert (bad.reason, bad.detail) == ("missing_value", "the record has no field for the value")


def test_a_record_is_refused_once() -> None:
    """A bad time and a missing value give one rejection."""
    _, rejected = points({"ts": "soon"}, {"value": 1})
    assert reasons(rejected) == [("bad_time", 0)]


def test_a_large_integer_value_is_exact() -> None:
    """Counters of bytes are beyond what a double can hold exactly."""
    [row], _ = points({"value": 2**53 + 1})
    assert row["value_int"] == 2**53 + 1


def test_a_duration_that_is_no_number_is_not_dropped() -> None:
    """It is refused, or kept as an attribute."""
    found = read("spans.jsonl", span(duration_ms="1.5s"))
    assert found.rejected or "1.5s" in str(rows(found))


def test_a_span_without_an_end_has_no_duration() -> None:
    """Unknown is not zero."""
    [row] = rows(read("spans.jsonl", span(name="open")))
    assert (row["end_time_unix_nano"], row["duration_ms"]) == (0, None)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 10**30, -(2**63) - 1])
def test_an_integer_beyond_64_bits_is_a_double(number: int) -> None:
    """As OTLP has no larger integer, the nearest double is kept and called so."""
    [row] = logs({"message": "m", "big": number})
    assert dict(row["attribute_types"]) == {"big": "double"}
    assert float(dict(row["attributes"])["big"]) == float(number)


@pytest.mark.parametrize("value", ['{"b": 123456789012345678901234}', "[1e400]"])
def test_a_nested_number_that_otlp_cannot_say_costs_itself_only(value: str) -> None:
    """The neighbours of such a record are read."""
    found = read("logs.jsonl", lines('{"message": "odd", "a": ' + value + "}", {"message": "ok"}))
    assert "ok" in [row["message"] for row in rows(found)]
