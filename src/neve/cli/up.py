"""`neve up` serves the demo lake with live telemetry."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from neve.cli.context import command_name
from neve.cli.output import json_option, print_json_line, print_note, print_text
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.demo.live_alert import AlertWatcher
    from neve.app.demo.server import DemoServer
    from neve.demo.live import LiveSender, SentTotals

RATE = 50.0
REPORT_SECONDS = 30.0
POLL_SECONDS = 0.5
LAST_MINUTE = """\
SELECT service_name, count(*) AS spans, round(quantile_cont(duration_ms, 0.95), 1) AS p95_ms \
FROM spans WHERE timestamp > now() - INTERVAL 1 MINUTE GROUP BY ALL ORDER BY 2 DESC"""
SUGGESTED_COMMANDS = ("status", "top", "jobs list", "rules status", f'query "{LAST_MINUTE}"')


@click.command(short_help="Run the demo as a service with live telemetry.")
@click.option("--dir", "folder", default="demo", show_default=True, help="Folder of the demo and its lake.")
@click.option(
    "--rate",
    type=click.FloatRange(1, 10_000),
    default=RATE,
    show_default=True,
    help="Records per second of each signal.",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after this time.  [default: run until Ctrl+C]"
)
@json_option
def up(folder: str, rate: float, seconds: float | None, as_json: bool) -> None:
    """Run the demo's lake as a service, with a simulated shop that sends live telemetry, until Ctrl+C.

    The lake is that of `neve demo`, created empty if there is none. Every record has the current time. The command
    prints commands to try in another terminal. At rates up to 100, an incident every few minutes raises an alert,
    which is reported. The log of the service is serve.log in the folder.

    \b
    Examples:
      neve up
      neve up --rate 500 --seconds 120
    """
    from neve.app.demo.live_alert import AlertWatcher
    from neve.app.demo.server import prepare, run_server
    from neve.demo.live import LiveSender
    from neve.demo.recording import make_recording

    stopped = stop_on_signals()
    config = prepare(Path(folder))
    with run_server(config, config.parent / "serve.log", stopped, print_note) as service:
        if service is None:
            print_note("stopped before it was ready")
            return
        if as_json:
            print_json_line({**service.addresses, "config": str(config), "rate": rate})
        else:
            _show_welcome(service, rate)
        live = LiveSender(make_recording(rate, has_incident=True), service.receivers)
        watcher = AlertWatcher(service.addresses["query"], live.playback) if service.addresses.get("query") else None
        live.start()
        _watch_service(service, live, stopped, seconds, lambda: _report_alert(watcher, as_json=as_json))
        live.stop()
    if as_json:
        print_json_line(_sent_document(live.sent))
    else:
        print_text(format_stop(live.sent))


def stop_on_signals() -> threading.Event:
    """Return an event that a stop signal sets, so that parts stop in order and not at an arbitrary point."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def _report_alert(watcher: AlertWatcher | None, *, as_json: bool) -> None:
    """Report the alert that the incident of the shop raised."""
    found = None if watcher is None else watcher.poll(time.time_ns())
    if found is None:
        return
    if as_json:
        print_json_line({"alert": asdict(found)})
    else:
        print_text(
            f"alert {found.name} fires {found.seconds:.0f} s after the first failed request of {found.service}: "
            f"{found.summary}"
        )


def _watch_service(
    service: DemoServer,
    live: LiveSender,
    stopped: threading.Event,
    seconds: float | None,
    report_alert: Callable[[], None],
) -> None:
    """Wait until the service ends, and report alerts, and the number of sent records now and then."""
    from neve.errors import NeveError

    began = reported = time.monotonic()
    while not stopped.wait(POLL_SECONDS):
        now = time.monotonic()
        if seconds is not None and now - began >= seconds:
            return
        if service.has_ended:
            raise NeveError(
                f"`neve serve` ended by itself with {service.process.returncode}",
                hint=f"its log is {service.config.parent / 'serve.log'}",
            )
        report_alert()
        if now - reported >= REPORT_SECONDS:
            reported = now
            print_note(format_sent(live.sent))


def _show_welcome(service: DemoServer, rate: float) -> None:
    at, neve = service.addresses, f"{command_name()} -c {service.config}"
    print_text("serving; Ctrl+C stops it")
    for name, address in list_addresses(at):
        print_text(f"   {name:<14} {address}")
    print_text(f"\nthe shop sends {rate:g} spans, log records and metric points a second. Beside it, try:")
    for words in SUGGESTED_COMMANDS:
        print_text(f"   {neve} {words}")


def list_addresses(at: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the address of each part by its name."""
    page = [("web page", f"{at['query']}/")] if at.get("query") else []
    found = [*page, ("OTLP/HTTP", at.get("http")), ("OTLP/gRPC", at.get("grpc")), ("query API", at.get("query"))]
    if at.get("query"):
        found.append(("described at", f"{at['query']}/api/v1/openapi.json"))
    if health := at.get("health"):
        found += [("health", f"{health}/healthz"), ("metrics", f"{health}/metrics")]
    return [(name, address) for name, address in found if address]


def format_stop(sent: SentTotals) -> str:
    """Format the last line: the sent records, and how to continue."""
    return f"stopped: {format_sent(sent)}; run it again to continue with the same lake"


def format_sent(sent: SentTotals) -> str:
    """Format the number of sent records."""
    records = sum(sent.records.values())
    again = f", sent again {format_count(sent.retries, 'time')}" if sent.retries else ""
    refused = f", {format_count(sent.refused, 'message')} refused: {sent.refusals[-1]}" if sent.refused else ""
    return f"{format_count(records, 'record')} acknowledged in {format_count(sent.messages, 'message')}{again}{refused}"


def _sent_document(sent: SentTotals) -> dict[str, Any]:
    return {
        "records": {str(signal): count for signal, count in sent.records.items()},
        "messages": sent.messages,
        "retries": sent.retries,
        "refused": sent.refused,
    }
