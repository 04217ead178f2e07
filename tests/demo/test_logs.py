"""Logs belong to spans, or say openly that they do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from neve.demo.logs import DEBUG, ERROR, FATAL, INFO, WARN, Log
from neve.demo.spans import CLIENT, SERVER

if TYPE_CHECKING:
    from neve.demo.simulation import Simulation


def test_a_log_points_to_the_span_that_wrote_it(simulation: Simulation, logs: list[Log]) -> None:
    """A log with ids was written by the span's own instance while the span was open."""
    spans = {(span.trace_id, span.span_id): span for span in simulation.spans}
    for log in logs:
        if log.trace_id:
            span = spans[log.trace_id, log.span_id]
            assert log.instance is span.instance
            assert span.start <= log.time <= span.end
            assert log.observed > log.time


def test_logs_are_of_every_sort(logs: list[Log]) -> None:
    """Every severity occurs, with and without a trace, as sentences and as structures."""
    assert {log.severity for log in logs} == {DEBUG, INFO, WARN, ERROR, FATAL}
    assert {bool(log.trace_id) for log in logs} == {True, False}
    assert any(isinstance(log.body, Mapping) for log in logs if log.trace_id)
    assert any(isinstance(log.body, str) for log in logs)


def test_every_failed_server_logs_an_error(simulation: Simulation, logs: list[Log]) -> None:
    """A service that fails says so once, with the exception as attributes."""
    errors = {log.span_id: log for log in logs if log.severity == ERROR}
    for span in simulation.spans:
        if span.kind == SERVER and span.failure is not None:
            assert errors[span.span_id].attributes["exception.message"] == span.failure.message


def test_every_failed_attempt_logs_a_warning(simulation: Simulation, logs: list[Log]) -> None:
    """A client whose call failed says which attempt it was."""
    warned = {log.span_id for log in logs if log.severity == WARN and "app.retry.attempt" in log.attributes}
    assert warned == {span.span_id for span in simulation.spans if span.kind == CLIENT and span.failure is not None}


def test_parameters_are_attributes(logs: list[Log]) -> None:
    """What fills a sentence's gaps is also there as attributes, with its type."""
    charged = [log for log in logs if str(log.body).startswith("charged ")]
    assert charged
    for log in charged:
        assert isinstance(log.attributes["app.order.amount"], float)
        assert str(log.attributes["app.order.amount"]) in str(log.body)


def test_the_cause_is_in_the_logs(simulation: Simulation, logs: list[Log]) -> None:
    """The bad release starts before the window, complains of leaks, and of an empty pool only in the window."""
    incident = simulation.incident
    started = [log.time for log in logs if log.body == f"starting payment version {incident.bad_version}"]
    leaks = [log for log in logs if "leak detection" in str(log.body)]
    empty = [log for log in logs if "pool exhausted" in str(log.body)]
    assert started
    assert max(started) < incident.window.start
    assert leaks
    assert {log.instance.version for log in leaks} == {incident.bad_version}
    assert empty
    assert all(incident.window.contains(log.time) for log in empty)
