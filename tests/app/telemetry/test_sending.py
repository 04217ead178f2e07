"""Neve's own spans and log lines, through a real receiver into a raw zone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from neve.app.telemetry.tracing import SWITCH, span, trace_ids
from neve.model.signals import Signal
from tests.app.telemetry.landed import address, counted, landed

if TYPE_CHECKING:
    import io

    from tests.api.running import Running
    from tests.app.telemetry.conftest import Start


def test_spans_land_as_rows(receiver: Running, start: Start) -> None:
    """With their attributes, their parents, what went wrong in them, and the process that they are of."""
    sending = start(address(receiver))
    with span("job", table="logs", tries=2, reason=None) as job:
        job.set(files=7, whole=True)
        with pytest.raises(ValueError, match="no room"), span("commit"):
            raise ValueError("no room")
    sending.close()
    rows = {row["operation_name"]: row for row in landed(receiver, Signal.TRACES)}
    job_row, commit = rows["job"], rows["commit"]
    assert job_row["attributes"] == {
        "neve.table": "logs",
        "neve.tries": "2",
        "neve.files": "7",
        "neve.whole": "true",
    }
    assert (commit["trace_id"], commit["parent_span_id"]) == (job_row["trace_id"], job_row["span_id"])
    assert (job_row["status_code"], commit["status_code"]) == (0, 2)
    assert [event["name"] for event in commit["events"]] == ["exception"]
    assert (job_row["service_name"], job_row["resource_attrs"]["neve.process"]) == ("neve", "tend")
    assert {"service.instance.id", "service.version", "host.name", "process.pid"} <= set(job_row["resource_attrs"])


def test_lines_land_as_rows(receiver: Running, start: Start, lines: io.StringIO) -> None:
    """Each with its fields and its span, which the JSON line names as well."""
    sending = start(address(receiver), process="api")
    log = structlog.get_logger("neve.query")
    with span("query") as _:
        log.warning("slow", seconds=1.5, tables=["logs"], huge=2**70, nothing=None)
        said = trace_ids()
    log.info("calm")
    log.debug("unheard")
    sending.close()
    slow, calm = landed(receiver, Signal.LOGS)
    assert said == (slow["trace_id"].hex(), slow["span_id"].hex())
    assert (slow["message"], slow["severity_text"], slow["severity_number"]) == ("slow", "WARN", 13)
    assert slow["attributes"] == {"seconds": "1.5", "tables": '["logs"]', "huge": str(2**70)}
    assert (slow["scope_name"], slow["resource_attrs"]["neve.process"]) == ("neve.query", "api")
    assert (calm["message"], calm["severity_text"], calm["trace_id"]) == ("calm", "INFO", None)
    first, second = map(json.loads, lines.getvalue().splitlines())
    assert (first["trace_id"], first["span_id"]) == said
    assert "trace_id" not in second


def test_a_line_that_speaks_of_a_trace_keeps_its_own(receiver: Running, start: Start) -> None:
    """The decision about a trace is not said in that trace."""
    sending = start(address(receiver))
    with span("tail"):
        structlog.get_logger("neve.tail").info("decision", trace_id="ab" * 16)
    sending.close()
    [row] = landed(receiver, Signal.LOGS)
    assert row["attributes"] == {"trace_id": "ab" * 16}
    assert row["trace_id"].hex() != "ab" * 16


def test_errors_land_with_their_traceback(receiver: Running, start: Start) -> None:
    """As OpenTelemetry names their parts."""
    sending = start(address(receiver))
    try:
        raise ValueError("no room")
    except ValueError:
        structlog.get_logger("neve.api").exception("failed")
    sending.close()
    [row] = landed(receiver, Signal.LOGS)
    found = row["attributes"]
    assert (found["exception.type"], found["exception.message"]) == ("ValueError", "no room")
    assert "test_sending.py" in found["exception.stacktrace"]


def test_the_level_of_lines_is_set(receiver: Running, start: Start) -> None:
    """Independently of what is written to standard error."""
    sending = start(address(receiver), level="ERROR")
    log = structlog.get_logger("neve.api")
    log.warning("so so")
    log.error("bad")
    structlog.get_logger("other").error("not ours")
    sending.close()
    assert [row["message"] for row in landed(receiver, Signal.LOGS)] == ["bad"]


def test_only_the_share_that_was_asked_for_is_sent(receiver: Running, start: Start) -> None:
    """None at all here; the lines are sent all the same."""
    sending = start(address(receiver), sample_ratio=0.0)
    with span("job"):
        structlog.get_logger("neve.api").info("hello")
    sending.close()
    assert (landed(receiver, Signal.TRACES), len(landed(receiver, Signal.LOGS))) == ([], 1)


@pytest.mark.parametrize("said", ["text", 3, None, {"a": 1}, ["x"], float("nan"), object()])
def test_whatever_a_line_says_can_be_sent(receiver: Running, start: Start, said: Any) -> None:
    """Values that OTLP has no form for are sent in words."""
    before = counted("neve_telemetry_dropped_total", signal="logs", reason="not_encodable")
    sending = start(address(receiver))
    structlog.get_logger("neve.api").info("said", value=said, nested={"in": {1: [said]}})
    sending.close()
    assert len(landed(receiver, Signal.LOGS)) == 1
    assert counted("neve_telemetry_dropped_total", signal="logs", reason="not_encodable") == before


def test_nothing_is_left_when_it_ends(receiver: Running, start: Start) -> None:
    """Spans are free again, and nothing is counted for those who go on."""
    start(address(receiver)).close()
    assert SWITCH.tracer is None
    with span("later") as later:
        later.set(more=1)
    structlog.get_logger("neve.api").warning("later")
    assert (landed(receiver, Signal.TRACES), landed(receiver, Signal.LOGS)) == ([], [])
