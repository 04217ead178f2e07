"""`neve up`."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from neve.cli.command import command_name
from neve.cli.output import json_option, many, note, say, say_json

if TYPE_CHECKING:
    from neve.app.up import Up
    from neve.demo.live import Live, Sent

RATE = 50.0
REPORT_SECONDS = 30.0
LOOK_SECONDS = 0.5
LAST_MINUTE = """\
SELECT service_name, count(*) AS spans, round(quantile_cont(duration_ms, 0.95), 1) AS p95_ms \
FROM spans WHERE timestamp > now() - INTERVAL 1 MINUTE GROUP BY ALL ORDER BY 2 DESC"""
TO_TRY = ("status", "top", "jobs list", f'query "{LAST_MINUTE}"')


@click.command()
@click.option("--dir", "folder", default="demo", show_default=True, help="Folder of the demo and of its own lake.")
@click.option(
    "--rate", type=click.FloatRange(1, 10_000), default=RATE, show_default=True, help="Records of each signal a second."
)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after so long.  [default: when told to]"
)
@json_option
def up(folder: str, rate: float, seconds: float | None, as_json: bool) -> None:
    """The demo's lake in service: `neve serve`, and a shop that sends to it live, until Ctrl+C.

    The lake is that of `neve demo`, made empty where there is none. Every record has the present time. What is printed
    last are commands to try beside it; what the service says goes to serve.log in the folder.

    \b
    Examples:
      neve up
      neve up --rate 500 --seconds 120
    """
    from neve.app.up import prepare, serving
    from neve.demo.live import Live
    from neve.demo.reel import make_reel

    stopped = _on_signals()
    config = prepare(Path(folder))
    with serving(config, config.parent / "serve.log", stopped, note) as service:
        if service is None:
            note("stopped before it listened")
            return
        if as_json:
            say_json({**service.addresses, "config": str(config), "rate": rate})
        else:
            _welcome(service, rate)
        live = Live(make_reel(rate), service.receivers)
        live.start()
        _watch(service, live, stopped, seconds)
        live.stop()
    if as_json:
        say_json(_document(live.sent))
    else:
        say(told(live.sent))


def _on_signals() -> threading.Event:
    """Set when someone wants us to stop: what was started is stopped in its order, and not where it happens to be."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def _watch(service: Up, live: Live, stopped: threading.Event, seconds: float | None) -> None:
    """Return when it is over; now and then, say how it goes."""
    from neve.errors import NeveError

    began = reported = time.monotonic()
    while not stopped.wait(LOOK_SECONDS):
        now = time.monotonic()
        if seconds is not None and now - began >= seconds:
            return
        if service.ended:
            raise NeveError(
                f"`neve serve` ended by itself with {service.process.returncode}",
                hint=f"its log is {service.config.parent / 'serve.log'}",
            )
        if now - reported >= REPORT_SECONDS:
            reported = now
            note(told(live.sent))


def _welcome(service: Up, rate: float) -> None:
    at, neve = service.addresses, f"{command_name()} -c {service.config}"
    say("serving; Ctrl+C stops it")
    for name, address in places(at):
        say(f"   {name:<14} {address}")
    say(f"\nthe shop sends {rate:g} spans, log records and metric points a second. Beside it, try:")
    for words in TO_TRY:
        say(f"   {neve} {words}")


def places(at: dict[str, Any]) -> list[tuple[str, str]]:
    """Where everything is, by its name."""
    found = [("OTLP/HTTP", at.get("http")), ("OTLP/gRPC", at.get("grpc")), ("query API", at.get("query"))]
    if at.get("query"):
        found.append(("described at", f"{at['query']}/api/v1/openapi.json"))
    if health := at.get("health"):
        found += [("health", f"{health}/healthz"), ("metrics", f"{health}/metrics")]
    return [(name, address) for name, address in found if address]


def told(sent: Sent) -> str:
    """What was sent so far, in words."""
    records = sum(sent.records.values())
    again = f", sent again {many(sent.retries, 'time')}" if sent.retries else ""
    refused = f", {many(sent.refused, 'message')} refused: {sent.refusals[-1]}" if sent.refused else ""
    return f"{many(records, 'record')} acknowledged in {many(sent.messages, 'message')}{again}{refused}"


def _document(sent: Sent) -> dict[str, Any]:
    return {
        "records": {str(signal): count for signal, count in sent.records.items()},
        "messages": sent.messages,
        "retries": sent.retries,
        "refused": sent.refused,
    }
