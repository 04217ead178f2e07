"""Ids that are none, epochs that are none, and times whose date is in another field."""

import base64

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.model.signals import Signal
from neve.otlp.json import to_protobuf
from tests.ingest.samples import AT, SPAN, TRACE, Row, configured, csv, lines, logs, parquet, read, reasons, rows

SPAN_BYTES, TRACE_BYTES = bytes.fromhex(SPAN), bytes.fromhex(TRACE)


def span(**fields: object) -> Row:
    """The row of one span that is accepted."""
    found = read("spans.jsonl", lines({"start": AT, "trace_id": TRACE, "span_id": SPAN} | fields))
    assert found.rejected == ()
    [row] = rows(found)
    return row


@pytest.mark.parametrize("text", ["root", "ROOT", "-", "0", "", " ", "0000000000000000", "null", "none", None])
def test_texts_that_say_that_there_is_no_id(text: str | None) -> None:
    """A parent of that kind is none, and so is the trace of a log."""
    assert span(parent_span_id=text)["parent_span_id"] is None
    row = logs({"message": "m", "trace_id": text, "span_id": text})[0]
    assert (row["trace_id"], row["span_id"]) == (None, None)


def test_base64_ids_of_the_right_length_are_ids() -> None:
    """Protobuf's own JSON has them in this form."""
    row = span(
        trace_id=base64.b64encode(TRACE_BYTES).decode(),
        span_id=base64.urlsafe_b64encode(SPAN_BYTES).decode(),
        parent_span_id=base64.b64encode(SPAN_BYTES[::-1]).decode(),
    )
    assert (row["trace_id"], row["span_id"], row["parent_span_id"]) == (TRACE_BYTES, SPAN_BYTES, SPAN_BYTES[::-1])


@pytest.mark.parametrize("text", ["request-17", "eee19b7ec3c1b17", "hello-world", "7uGbfsPBsXQ", "ab", TRACE])
def test_a_span_with_an_id_that_is_none_is_refused_with_the_value(text: str) -> None:
    """It is not stored as its characters, for the span and for its parent."""
    for name in ("span_id", "parent_span_id"):
        found = read("spans.jsonl", lines({"start": AT, "trace_id": TRACE, "span_id": SPAN} | {name: text}))
        [bad] = found.rejected
        assert (bad.reason, len(found.messages)) == (f"invalid_{name}", 0)
        assert bad.detail == f"{name} is {text!r}, expected 16 hex digits, or base64 of 8 bytes"


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=34), min_size=1, max_size=20))
def test_any_text_as_id_of_a_log_gives_an_id_or_stays_an_attribute(texts: list[str]) -> None:
    """The columns have 16 and 8 bytes or nothing."""
    for row, text in zip(logs(*({"message": "m", "trace_id": t, "span_id": t} for t in texts)), texts, strict=True):
        assert row["trace_id"] is None or len(row["trace_id"]) == 16
        assert row["span_id"] is None or len(row["span_id"]) == 8
        if (
            row["trace_id"] is None
            and text.strip("0- ")
            and text.strip().lower() not in ("root", "none", "null", "nil")
        ):
            assert dict(row["attributes"])["trace_id"] == text


def test_a_bad_span_id_of_a_log_is_an_attribute() -> None:
    """The log itself is kept."""
    [row] = logs({"message": "m", "span_id": "job-7"})
    assert (row["span_id"], dict(row["attributes"])) == (None, {"span_id": "job-7"})


@pytest.mark.parametrize(("name", "width"), [("traceId", 16), ("spanId", 8)])
def test_base64_ids_in_otlp_json_are_called_so_with_the_remedy(name: str, width: int) -> None:
    """The standard has hex, and the error has the right text."""
    ids = {"traceId": TRACE, "spanId": SPAN} | {name: base64.b64encode(TRACE_BYTES[:width]).decode()}
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [ids | {"name": "x"}]}]}]}
    [bad] = to_protobuf(Signal.TRACES, lines(document)).rejected
    assert f"{name} is '{ids[name]}', which is base64, expected hex digits: '{TRACE[: width * 2]}'" in bad.detail
    assert "encode ids as hex, or send OTLP protobuf" in bad.detail


@pytest.mark.parametrize("value", [0, 1, 20250101, 86400, "-5", 99_999_999_999, 10**30, "4102444801e12"])
def test_a_number_that_is_no_epoch_is_refused_with_its_value(value: object) -> None:
    """A day written as a number is not a time in 1970."""
    found = read("logs.jsonl", lines({"time": value, "msg": "m"}, {"time": AT, "msg": "ok"}))
    [bad] = found.rejected
    assert bad.reason == "bad_time"
    assert bad.detail.endswith("expected RFC 3339 or an epoch of the years 1990 to 2100")
    assert [row["message"] for row in rows(found)] == ["ok"]


def test_the_range_of_epochs_can_be_configured() -> None:
    """Both ends, and a stated unit has none."""
    old = 86_400  # the second day of 1970
    assert logs({"time": old, "msg": "m"}, fields=configured(earliest_year=1970))[0]["time_unix_nano"] == old * 10**9
    assert logs({"time": old, "msg": "m"}, fields=configured(time_format="s"))[0]["time_unix_nano"] == old * 10**9
    found = read("logs.jsonl", lines({"time": AT, "msg": "m"}), fields=configured(latest_year=2024))
    assert reasons(found.rejected) == [("bad_time", 0)]


@pytest.mark.parametrize("date", ["2025-01-01", "2025/01/01", "2025.1.1"])
@pytest.mark.parametrize("time", ["00:00:00.123456789", "00:00:00,123456789", "02:00:00.123456789+02:00"])
def test_date_and_time_in_two_fields_are_one_time(date: str, time: str) -> None:
    """Neither of them stays an attribute."""
    [row] = logs({"Date": date, "Time": time, "Content": "m"})
    assert (row["time_unix_nano"], row["message"], row["attributes"]) == (AT, "m", [])


def test_date_and_time_in_columns() -> None:
    """As text in CSV, and with types in Parquet."""
    table = pa.table({"date": ["2025-01-01"], "time": ["00:00:00.5"], "message": ["m"]})
    assert rows(read("logs.csv", csv(table)))[0]["time_unix_nano"] == AT // 10**9 * 10**9 + 5 * 10**8
    typed = {"date": pa.array([20_089], pa.date32()), "time": pa.array([500_000], pa.time64("us")), "message": ["m"]}
    assert rows(read("logs.parquet", parquet(typed)))[0]["time_unix_nano"] == AT // 10**9 * 10**9 + 5 * 10**8


def test_a_date_beside_a_whole_time_stays_an_attribute() -> None:
    """It is not needed then."""
    [row] = logs({"timestamp": AT, "date": "2025-01-01", "message": "m"})
    assert dict(row["attributes"]) == {"date": "2025-01-01"}


def test_other_fields_can_be_configured_as_date_and_time() -> None:
    """By their names."""
    fields = configured(date=["jour"], time=["heure"])
    [row] = logs({"jour": "2025-01-01", "heure": "00:00:01", "message": "m"}, fields=fields)
    assert row["time_unix_nano"] == AT // 10**9 * 10**9 + 10**9
