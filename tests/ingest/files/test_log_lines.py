"""Plain log files: formats by their first lines, records of several lines, times without a year or an offset."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.errors import FileTooLarge, UnknownLines
from neve.ingest.config import FieldsConfig, LinesConfig
from neve.ingest.files.formats import Format
from neve.ingest.files.log_formats import LOG_FORMATS
from neve.ingest.files.log_times import LineRules
from neve.ingest.files.reader import Messages, ReadOptions, read_messages
from tests.ingest.samples import Row, lines, reasons, rows

REFERENCE = int(datetime(2025, 3, 1, tzinfo=UTC).timestamp()) * 10**9
SAMPLES = {
    Format.SYSLOG_3164: "<34>Jan  1 00:00:00 web sshd[42]: Failed password",
    Format.SYSLOG_5424: '<165>1 2025-01-01T00:00:00Z web sshd 42 ID47 [a@1 b="c]d\\"e"] Failed password',
    Format.ACCESS_COMMON: '10.0.0.1 - ann [01/Jan/2025:01:00:00 +0100] "GET /a?b=c HTTP/1.1" 200 12',
    Format.ACCESS_COMBINED: '10.0.0.1 - ann [01/Jan/2025:01:00:00 +0100] "GET /a HTTP/1.1" 404 - "http://r" "curl/8"',
    Format.APACHE_ERROR: "[Wed Jan 01 00:00:00 2025] [core:error] [pid 7:tid 8] [client 10.0.0.1:5] AH1: Failed",
    Format.LOGBACK: "2025-01-01 00:00:00,000 [main] WARN  shop.Cart - Failed",
    Format.CRI: "2025-01-01T00:00:00.000000000Z stderr F Failed",
}
NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)


def read(text: str | bytes, form: Format | None = None, name: str = "app.log", **config: Any) -> Messages:
    """A log file that was last changed in March 2025."""
    data = text if isinstance(text, bytes) else text.encode()
    rules = LineRules(LinesConfig(**config), REFERENCE)
    [found] = read_messages(name, data, ReadOptions(None, form), FieldsConfig(), rules=rules)
    return found


def only(text: str, **config: Any) -> Row:
    """The row of a file of one record."""
    found = read(text, **config)
    assert found.rejected == ()
    [row] = rows(found)
    return row


def test_every_format_has_a_sample() -> None:
    """A new format needs one."""
    assert {form.name for form in LOG_FORMATS} == set(SAMPLES)


@pytest.mark.parametrize("form", SAMPLES)
@pytest.mark.parametrize("stated", [True, False])
def test_a_format_is_read_if_it_is_stated_and_if_it_is_not(form: Format, stated: bool) -> None:
    """The first lines show it, whatever the ends of lines are."""
    for end in ("\n", "\r\n"):
        found = read(end.join([SAMPLES[form]] * 3) + end, form if stated else None)
        assert (found.format, found.rejected) == (form, ())
        assert [row["timestamp"] for row in rows(found)] == [NEW_YEAR] * 3
        assert not any(row["message"].endswith(("\r", "\n")) for row in rows(found))


@pytest.mark.parametrize(
    ("form", "severity", "message", "attributes"),
    [
        (Format.SYSLOG_3164, 21, "Failed password", {"syslog.procid": "42", "syslog.facility.code": "4"}),
        (
            Format.SYSLOG_5424,
            10,
            "Failed password",
            {"syslog.procid": "42", "syslog.facility.code": "20", "syslog.msgid": "ID47"}
            | {"syslog.structured_data": '[a@1 b="c]d\\"e"]'},
        ),
        (
            Format.ACCESS_COMMON,
            0,
            SAMPLES[Format.ACCESS_COMMON],
            {"client.address": "10.0.0.1", "user.name": "ann", "http.request.method": "GET", "url.original": "/a?b=c"}
            | {"network.protocol.version": "1.1", "http.response.status_code": "200", "http.response.body.size": "12"},
        ),
        (
            Format.ACCESS_COMBINED,
            0,
            SAMPLES[Format.ACCESS_COMBINED],
            {"client.address": "10.0.0.1", "user.name": "ann", "http.request.method": "GET", "url.original": "/a"}
            | {"network.protocol.version": "1.1", "http.response.status_code": "404", "user_agent.original": "curl/8"}
            | {"http.request.header.referer": "http://r"},
        ),
        (
            Format.APACHE_ERROR,
            17,
            "AH1: Failed",
            {"log.logger": "core", "process.pid": "7", "thread.id": "8", "client.address": "10.0.0.1:5"},
        ),
        (Format.LOGBACK, 13, "Failed", {"thread.name": "main", "log.logger": "shop.Cart"}),
        (Format.CRI, 0, "Failed", {"log.iostream": "stderr"}),
    ],
)
def test_parts_of_lines(form: Format, severity: int, message: str, attributes: dict[str, str]) -> None:
    """Each part has its column or its attribute, by the names of OpenTelemetry's conventions where there are some."""
    row = only(SAMPLES[form])
    assert (row["severity_number"], row["message"]) == (severity, message)
    assert dict(row["attributes"]) == attributes


def test_syslog_has_a_service_and_a_host() -> None:
    """They describe the resource."""
    row = only(SAMPLES[Format.SYSLOG_3164])
    assert (row["service_name"], dict(row["resource_attrs"])["host.name"]) == ("sshd", "web")
    assert row["severity_text"] == "crit"


def test_numbers_of_access_logs_are_numbers() -> None:
    """Queries can compare them."""
    types = dict(only(SAMPLES[Format.ACCESS_COMMON])["attribute_types"])
    assert types == {"http.response.status_code": "int", "http.response.body.size": "int"}


@pytest.mark.parametrize(
    "line",
    [
        "2025-01-01 00:00:00.000  WARN 7 --- [main] shop.Cart : Failed",
        "2025-01-01T00:00:00Z [main] WARN shop.Cart - Failed",
        "2025-01-01 00:00:00,000 WARN [main] shop.Cart: Failed",
        "2025-01-01 00:00:00,000 - WARN  [main] - Failed",
        "25/01/01 00:00:00 WARN shop.Cart: Failed",
        "[2025-01-01 00:00:00] [WARN] Failed",
    ],
)
def test_layouts_of_logback_and_its_relatives(line: str) -> None:
    """Spring Boot, log4j and plain patterns are one format."""
    row = only(line)
    assert (row["timestamp"], row["severity_number"], row["message"]) == (NEW_YEAR, 13, "Failed")


def test_a_stack_trace_belongs_to_its_message() -> None:
    """All lines until the next record do, blank lines included."""
    trace = "boom\njava.lang.Error: x\n\tat a.B.c(D.java:1)\n\nCaused by: y\n\t... 3 more"
    found = read(f"2025-01-01 00:00:00,001 [m] ERROR l - {trace}\n2025-01-01 00:00:00,002 [m] INFO l - ok\n")
    assert [row["message"] for row in rows(found)] == [trace, "ok"]
    assert found.rejected == ()


def test_a_line_that_is_not_of_the_format_is_refused() -> None:
    """A syslog line is followed by lines of a stack trace, but not by any line."""
    line = SAMPLES[Format.SYSLOG_3164]
    found = read(f"{line}\n\tat a.B.c\nnot a line\nneither\n{line}\n", Format.SYSLOG_3164)
    assert sorted(row["message"] for row in rows(found)) == ["Failed password", "Failed password\n\tat a.B.c"]
    [bad] = found.rejected
    assert (bad.reason, bad.message, bad.payload) == ("malformed_line", 2, b"not a line\nneither")
    assert (bad.detail, bad.encoding) == ("the line does not have the format syslog_3164", "syslog_3164")


def test_the_rule_for_continuations_can_be_configured() -> None:
    """A pattern of the user counts more than that of the format."""
    line = SAMPLES[Format.SYSLOG_3164]
    found = read(f"{line}\n+ more\n{line}\n", Format.SYSLOG_3164, continuation=r"^\+ ")
    assert sorted(row["message"] for row in rows(found)) == ["Failed password", "Failed password\n+ more"]


def test_a_record_has_a_most_of_lines() -> None:
    """Lines beyond it are refused, not lost."""
    found = read(SAMPLES[Format.LOGBACK] + "\n a" * 5 + "\n" + SAMPLES[Format.LOGBACK], max_lines=3)
    assert [row["message"] for row in rows(found)] == ["Failed\n a\n a", "Failed"]
    assert [(bad.message, bad.payload) for bad in found.rejected] == [(3, b" a\n a\n a")]


def test_partial_lines_of_containers_are_joined() -> None:
    """For each stream apart, and in the order of their first parts."""
    parts = ["stdout P one ", "stderr P oops ", "stdout F two", "stdout F alone", "stderr F again", "stdout P cut"]
    text = "\n".join(f"2025-01-01T00:00:0{second}Z {part}" for second, part in enumerate(parts))
    found = rows(read(text))
    assert [row["message"] for row in found] == ["one two", "oops again", "alone", "cut"]
    assert [row["timestamp"].second for row in found] == [0, 1, 3, 5]


@pytest.mark.parametrize(
    ("text", "year"), [("Mar  1 12:00:00", 2025), ("Mar  3 12:00:00", 2024), ("Feb 29 12:00:00", 2024)]
)
def test_a_time_without_a_year_is_the_last_before_the_file_was_changed(text: str, year: int) -> None:
    """A day more is allowed for other time zones."""
    row = only(f"{text} web cron: x")
    assert (row["timestamp"].year, row["timestamp"].hour) == (year, 12)


@pytest.mark.parametrize(
    ("line", "hour"),
    [
        ("2025-07-01 12:00:00,000 [m] INFO l - x", 10),
        ("2025-01-01 12:00:00,000 [m] INFO l - x", 11),
        ("2025-07-01 12:00:00.000+00:00 [m] INFO l - x", 12),
        ("Jul  1 12:00:00 web cron: x", 10),
        ("25/07/01 12:00:00 INFO l: x", 10),
    ],
)
def test_times_without_an_offset_are_of_the_configured_time_zone(line: str, hour: int) -> None:
    """With its summer time."""
    assert only(line, timezone="Europe/Berlin")["timestamp"].hour == hour


def test_a_time_that_is_none_is_refused_with_its_value() -> None:
    """Its neighbours are kept."""
    bad = SAMPLES[Format.LOGBACK].replace("01-01", "13-45")
    found = read(f"{SAMPLES[Format.LOGBACK]}\n{bad}\n")
    assert (len(rows(found)), reasons(found.rejected)) == (1, [("bad_time", 1)])
    assert "'2025-13-45 00:00:00,000'" in found.rejected[0].detail


def test_lines_of_no_known_format_are_refused_as_a_whole() -> None:
    """The formats that were tried are named."""
    with pytest.raises(UnknownLines, match=r"have no known log format \(cri, syslog_5424, ") as caught:
        read("hello\nworld\n")
    assert "--format" in (caught.value.hint or "")


def test_a_wrong_format_is_refused_as_a_whole() -> None:
    """Not line by line."""
    with pytest.raises(UnknownLines, match="none of its lines has the format cri"):
        read(SAMPLES[Format.LOGBACK], Format.CRI)


def test_json_in_a_log_file_is_json() -> None:
    """Containers write JSON lines to files that are called .log."""
    found = read(lines({"log": "hi\n", "stream": "stdout", "time": "2025-01-01T00:00:00Z"}), name="logs/x-json.log")
    assert (found.format, [row["message"] for row in rows(found)]) == (Format.JSON_LINES, ["hi\n"])


@pytest.mark.parametrize(("form", "field"), [(Format.JOURNALD, "MESSAGE"), (Format.WINDOWS_EVENTS, "Message")])
def test_formats_of_json_lines_can_be_stated(form: Format, field: str) -> None:
    """Any file may hold them."""
    time = {"__REALTIME_TIMESTAMP": "1735689600000000"} if form is Format.JOURNALD else {"time": "2025-01-01"}
    found = read(lines({field: "hi"} | time), form, "x.dat")
    assert [(row["message"], row["timestamp"]) for row in rows(found)] == [("hi", NEW_YEAR)]


def test_bytes_that_are_no_text_are_replaced() -> None:
    """The lines around them are read."""
    found = read(SAMPLES[Format.LOGBACK].encode() + b" \xff\n")
    assert rows(found)[0]["message"] == "Failed \N{REPLACEMENT CHARACTER}"


def test_names_of_attributes_count_against_the_bound() -> None:
    """A short line becomes a long record."""
    data = (SAMPLES[Format.ACCESS_COMMON] + "\n").encode() * 100
    with pytest.raises(FileTooLarge):
        read_messages("a.log", data, ReadOptions(), FieldsConfig(), len(data) + 100)


def test_an_empty_log_file_has_no_records() -> None:
    """Stated as any format."""
    found = read("", Format.CRI)
    assert (len(found.messages), found.rejected) == (0, ())


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*SAMPLES.values(), "", " a", "Caused by: b", "}", "x", "\t"]), max_size=12))
def test_no_line_is_lost(given_lines: list[str]) -> None:
    """Every line that is not blank is in a record or in a rejection."""
    text = "\n".join(given_lines)
    for form in LOG_FORMATS:
        try:
            found = read(text, form.name)
        except UnknownLines:
            continue
        kept = "\n".join([*(row["message"] for row in rows(found)), *(bad.payload.decode() for bad in found.rejected)])
        starts = sum(line == SAMPLES[form.name] for line in given_lines)
        assert len(rows(found)) >= starts
        for line in given_lines:
            if line.strip() and line not in SAMPLES.values():
                assert line in kept


@pytest.mark.slow
@pytest.mark.parametrize("form", SAMPLES)
def test_long_lines_take_linear_time(form: Format) -> None:
    """Patterns do not backtrack: a megabyte of brackets and quotes is read as any line."""
    for filler in ("[", '"', "\\", " ", "a ", "]:", '\\"'):
        line = SAMPLES[form] + filler * (200_000 // len(filler))
        try:
            read(f"{SAMPLES[form]}\n{line}\n", form)
        except UnknownLines:
            continue
