"""Times: calendar texts with offsets and nanoseconds, epochs by their size, and formats that the user names."""

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from neve.ingest.files.formats import Format
from neve.ingest.files.reader import ReadOptions
from neve.model.signals import Signal
from tests.ingest.samples import (
    AT,
    SPAN,
    TRACE,
    Document,
    configured,
    generic,
    lines,
    logs,
    parquet,
    read,
    reasons,
    rows,
)

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
FIRST = int(datetime(1990, 1, 1, tzinfo=UTC).timestamp())
LAST = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
MOST = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))


def times(*given: object, form: str = "auto") -> list[int]:
    """The times of logs that say theirs in these ways, none refused."""
    documents: list[Document] = [{"timestamp": time, "message": str(order)} for order, time in enumerate(given)]
    return [row["time_unix_nano"] for row in logs(*documents, fields=configured(time_format=form))]


def epochs(unit: str) -> st.SearchStrategy[list[int]]:
    """Any epochs between 1990 and 2100 in a unit, many at once."""
    scale = 10**9 // NANOS[unit]
    return st.lists(st.integers(FIRST * scale, LAST * scale), min_size=1, max_size=40)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["auto", "named"])
@pytest.mark.parametrize("unit", NANOS)
@MOST
@given(data=st.data())
def test_any_epoch_survives_exactly(unit: str, form: str, data: st.DataObject) -> None:
    """Told by its size or by the user, as a number or as text, an epoch keeps every digit."""
    numbers = data.draw(epochs(unit))
    chosen = "auto" if form == "auto" else unit
    expected = [number * NANOS[unit] for number in numbers]
    assert times(*numbers, *map(str, numbers), form=chosen) == expected * 2


@pytest.mark.parametrize("form", [Format.CSV, Format.PARQUET])
@pytest.mark.parametrize("unit", NANOS)
def test_epochs_in_columns(unit: str, form: Format) -> None:
    """CSV and Parquet say epochs as JSON does."""
    number = AT // NANOS[unit]
    found = read("x", generic(form, [{"ts": number, "msg": "m"}]), ReadOptions(Signal.LOGS, form))
    assert [row["time_unix_nano"] for row in rows(found)] == [number * NANOS[unit]]


def test_an_epoch_may_have_a_fraction() -> None:
    """Text keeps nine digits; a JSON number keeps what a double can hold."""
    assert times("1735689600.123456789", 1735689600.5, "1735689600123.456789") == [
        AT,
        AT // 10**9 * 10**9 + 5 * 10**8,
        AT,
    ]


@pytest.mark.slow
@MOST
@given(
    st.lists(
        st.tuples(
            st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001 - the offset is drawn beside it
            st.integers(-14 * 60, 14 * 60),
            st.integers(0, 999_999_999),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_any_rfc_3339_time_survives_exactly(moments: list[tuple[datetime, int, int, int]]) -> None:
    """Any offset, and any number of digits of the second's fraction."""
    texts, expected = [], []
    for local, minutes, nanos, digits in moments:
        moment = local.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=minutes)))
        fraction = f"{nanos:09}"[:digits]
        offset = moment.isoformat()[19:]
        texts.append(f"{local:%Y-%m-%dT%H:%M:%S}" + (f".{fraction}" if fraction else "") + offset)
        expected.append(int(moment.timestamp()) * 10**9 + int(fraction.ljust(9, "0")))
    assert times(*texts) == expected
    assert times(*texts, form="rfc3339") == expected


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-01T00:00:00.123456789Z",
        "2025-01-01t00:00:00.123456789z",
        "2025-01-01 00:00:00.123456789",
        "2025-01-01T05:30:00.123456789+05:30",
        "2024-12-31T19:00:00.123456789-0500",
        "2025-01-01T02:00:00.123456789+02",
        "2025-01-01T00:00:00,123456789Z",
        "2025-01-01T00:00:00.1234567899999Z",
        " 2025-01-01T00:00:00.123456789Z ",
    ],
)
def test_ways_to_write_one_moment(text: str) -> None:
    """Without an offset a time is UTC; digits beyond nanoseconds are cut."""
    assert times(text) == [AT]


@pytest.mark.parametrize(
    "text",
    [
        *("yesterday", "2025-13-01T00:00:00Z", "2025-02-30", "", "12:00", "infinity", "true"),
        *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2262-04-11T23:47:16.9Z", "1" + "0" * 28),
    ],
)
def test_what_is_no_time_is_refused_alone(text: str) -> None:
    """The value and what was expected are named, and the document comes back."""
    found = read("logs.jsonl", lines({"time": AT, "msg": "ok"}, {"time": text, "msg": "bad"}))
    [bad] = found.rejected
    assert (bad.reason, bad.message) == ("bad_time", 1)
    assert bad.detail == f"time is {text!r}, expected RFC 3339 or an epoch of the years 1990 to 2100"
    assert bad.payload == lines({"time": text, "msg": "bad"})
    assert [row["message"] for row in rows(found)] == ["ok"]


def test_a_named_format_refuses_the_others() -> None:
    """A calendar text is no epoch, and an epoch no calendar text, once the user has said which."""
    for form, text in [("s", "2025-01-01T00:00:00Z"), ("rfc3339", str(AT))]:
        found = read("logs.jsonl", lines({"time": text}), fields=configured(time_format=form))
        assert reasons(found.rejected) == [("bad_time", 0)]


@pytest.mark.parametrize("form", ["s", "ms", "us", "ns"])
def test_an_epoch_that_overflows_is_refused_alone(form: str) -> None:
    """In each unit, and by its sign."""
    documents = [
        {"time": str(AT // NANOS[form])},
        {"time": "9" * 29},
        {"time": "-" + "9" * 29},
        {"time": "1" + "0" * 19},
    ]
    found = read("logs.jsonl", lines(*documents), fields=configured(time_format=form))
    assert reasons(found.rejected) == [("bad_time", 1), ("bad_time", 2), ("bad_time", 3)]


def test_the_end_of_a_span_must_be_a_time_too() -> None:
    """And is named as the end."""
    [bad] = read("spans.jsonl", lines({"start": AT, "end": "later", "trace_id": TRACE, "span_id": SPAN})).rejected
    assert bad.reason == "bad_time"
    assert bad.detail == "end is 'later', expected RFC 3339 or an epoch of the years 1990 to 2100"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "+05:30"])
def test_parquet_timestamps_of_every_kind(unit: str, zone: str | None) -> None:
    """The type says the unit and the zone."""
    number = AT // NANOS[unit]
    column = pa.array([number, None], pa.timestamp(unit, tz=zone))
    found = rows(read("logs.parquet", parquet({"timestamp": column, "message": ["a", "b"]})))
    assert [row["time_unix_nano"] for row in found] == [number * NANOS[unit], 0]


@pytest.mark.parametrize("form", ["rfc3339", "s", "ms", "us"])
def test_a_parquet_timestamp_needs_no_format(form: str) -> None:
    """A column that says its unit is not read by the format that is meant for texts and numbers."""
    column = pa.array([AT], pa.timestamp("ns", tz="UTC"))
    found = read("logs.parquet", parquet({"timestamp": column}), fields=configured(time_format=form))
    assert [row["time_unix_nano"] for row in rows(found)] == [AT]


def test_a_parquet_timestamp_of_1971_is_itself() -> None:
    """A typed time is never guessed by its size."""
    column = pa.array([365 * 86_400], pa.timestamp("s", tz="UTC"))
    found = read("logs.parquet", parquet({"timestamp": column}))
    assert [row["time_unix_nano"] for row in rows(found)] == [365 * 86_400 * 10**9]


def test_a_parquet_timestamp_beyond_2262_is_refused_alone() -> None:
    """Nanoseconds can't say it; the other rows of the file can be said."""
    column = pa.array([AT // 1000, 253_370_764_800_000_000], pa.timestamp("us", tz="UTC"))
    found = read("logs.parquet", parquet({"timestamp": column}))
    assert [row["time_unix_nano"] for row in rows(found)] == [AT // 1000 * 1000]
    assert reasons(found.rejected) == [("bad_time", 1)]


@pytest.mark.parametrize("text", ["1969-12-31T23:59:59Z", "-5"])
def test_a_time_before_1970_is_called_a_bad_time(text: str) -> None:
    """OTLP has no such times, and the words must say so."""
    assert reasons(read("logs.jsonl", lines({"time": text})).rejected) == [("bad_time", 0)]


def test_a_record_without_time_is_left_to_the_checks() -> None:
    """A log is kept under the time of ingestion; its own time stays unknown, as in OTLP."""
    assert times(None) == [0]
