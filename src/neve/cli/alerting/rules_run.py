"""`neve rules run`, `status` and `explain`: evaluate rules, and show what they decided."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import (
    escape_controls,
    json_option,
    org_option,
    print_json,
    print_json_line,
    print_note,
    print_table,
    print_text,
)
from neve.text import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neve.app.rules.service import RuleService
    from neve.cli.context import Context
    from neve.rules.running.cycle_result import CycleResult


@click.command(short_help="Evaluate rules, record results, and send alerts.")
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False))
@click.option("--once", is_flag=True, help="Evaluate the groups that are due, send their alerts, then exit.")
@click.option("--steal", is_flag=True, help="Take over the lease of a dead process.")
@org_option
@json_option
@click.pass_obj
def run(context: Context, files: tuple[str, ...], once: bool, steal: bool, org: str | None, as_json: bool) -> None:
    """Evaluate rules, record their results, and send alerts to the configured destinations.

    FILES are rule files of one organization. Without them, those of rules.files are evaluated. Samples, alerts and
    their state are stored in the table recorded, in one commit for each cycle. The next run continues an interrupted
    one. Without --once, groups are evaluated at their interval until SIGTERM or Ctrl+C.
    """
    given = {context.organization(org): files} if files else None
    with _open_service(context, given, steal=steal) as service:
        if not service.runner.groups:
            raise click.UsageError("there are no rules: name FILES, or set rules.files in the configuration")
        if once:
            _print_cycle(service.run_once(), as_json=as_json)
            return
        _run_forever(service, as_json=as_json)


@contextmanager
def _open_service(context: Context, files: Mapping[str, Sequence[str]] | None, *, steal: bool) -> Iterator[RuleService]:
    from neve.app.query.service import build_query_service
    from neve.app.rules.evaluation import build_runner
    from neve.app.rules.service import RuleService
    from neve.app.wiring import build_documents
    from neve.query.service import no_limits

    documents = build_documents(context.settings)
    queries = build_query_service(context.settings, context.lake, limits=no_limits)
    try:
        yield RuleService(build_runner(context.settings, context.lake, queries, files), documents, steal)
    finally:
        queries.close()
        documents.close()


def _run_forever(service: RuleService, *, as_json: bool) -> None:
    import signal
    import threading

    stop = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda _number, _frame: stop.set())
    shown: dict[str, object] = {}

    def report(details: dict[str, object]) -> None:
        nonlocal shown
        if details != shown and details:
            shown = details
            if as_json:
                print_json_line(details)
            else:
                _print_details(details)

    service.run_forever(stop, report)


def _print_details(details: dict[str, object]) -> None:
    cycle = details.get("cycle")
    if isinstance(cycle, dict):
        print_text(_format_cycle(cycle))
    for name in ("standby", "error"):
        if details.get(name):
            print_note(escape_controls(f"{name}: {details[name]}"))


def _print_cycle(result: CycleResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result.as_document())
    elif not result.results:
        print_text("no group was due")
    else:
        print_text(_format_cycle(result.as_document()))


def _format_cycle(cycle: Mapping[str, Any]) -> str:
    failed = f", {cycle['failed']:,} failed" if cycle["failed"] else ""
    return (
        f"cycle {cycle['cycle']}: {format_count(cycle['rules'], 'rule')} evaluated{failed}, "
        f"{format_count(cycle['samples'], 'sample')} recorded, "
        f"{cycle['firing']:,} firing and {cycle['pending']:,} pending alerts, "
        f"{format_count(cycle['notifications'], 'notification')}, {cycle['seconds']:.2f} s"
    )


@click.command(short_help="Show groups with lag and errors, and active alerts.")
@click.option("--org", metavar="NAME", help="Show one organization.  [default: all]")
@json_option
@click.pass_obj
def status(context: Context, org: str | None, as_json: bool) -> None:
    """Show groups with their last evaluation, lag and errors, and active alerts.

    Exits with 1 if a rule fails.
    """
    import time

    from neve.app.rules.reports import read_status
    from neve.app.wiring import build_documents

    documents = build_documents(context.settings)
    try:
        found = read_status(documents, org, time.time_ns() // 1_000_000)
    finally:
        documents.close()
    if as_json:
        print_json(found)
    else:
        _print_status(found)
    if any(group["errors"] for group in found["groups"]):
        sys.exit(1)


def _print_status(found: Mapping[str, Any]) -> None:
    if not found["groups"]:
        print_text("no rules were evaluated yet; run `neve rules run`, or `neve serve` with rules.files")
        return
    rows = [
        (
            *(escape_controls(str(group[name])) for name in ("organization", "group", "evaluated_at")),
            format_duration(group["lag_seconds"]),
            *(f"{number:,}" for number in (group["rules"], len(group["errors"]), group["pending"], group["firing"])),
        )
        for group in found["groups"]
    ]
    headers = ("organization", "group", "evaluated at", "lag", "rules", "failing", "pending", "firing")
    print_table(headers, rows, right=(3, 4, 5, 6, 7))
    for group in found["groups"]:
        for name, error in group["errors"].items():
            print_note(escape_controls(f"error: {group['group']}, {name}: {error}"))
    if found["alerts"]:
        print_text()
        print_table(
            ("alert", "state", "value", "active since"),
            [
                (_format_alert(one["alert"], one["labels"]), one["state"], str(one["value"]), str(one["active_at"]))
                for one in found["alerts"]
            ],
            right=(2,),
        )


def _format_alert(name: str, labels: Mapping[str, str]) -> str:
    from neve.promql.labels import format_labels, make_labels

    others = make_labels({**labels, "alertname": ""})
    return escape_controls(name + format_labels(others) if others or not name else name)


@click.command(short_help="Explain why an alert fires or does not.")
@click.argument("alert")
@org_option
@json_option
@click.pass_obj
def explain(context: Context, alert: str, org: str | None, as_json: bool) -> None:
    """Explain why an alert fires or does not: expression, value, times, snapshots, and notifications.

    Exits with 1 if no evaluated rule has the name.
    """
    import time

    from neve.app.rules.reports import explain_alert
    from neve.app.wiring import build_documents

    documents = build_documents(context.settings)
    organization = context.organization(org)
    try:
        now = time.time_ns() // 1_000_000
        found = explain_alert(context.settings, context.lake, documents, organization, alert, now)
    finally:
        documents.close()
    if as_json:
        print_json(found)
    elif not found:
        print_note(escape_controls(f"no evaluated rule of {organization} has the name {alert!r}"))
    else:
        for one in found:
            _print_explanation(one)
    if not found:
        sys.exit(1)


def _print_explanation(one: Mapping[str, Any]) -> None:
    print_text(escape_controls(f"{one['alert']} (group {one['group']}): {one['state']}, {one['reason']}"))
    print_text(escape_controls(f"  expression: {' '.join(one['expression'].split())}"))
    print_text(f"  evaluated at {one['evaluated_at']} in cycle {one['cycle']}")
    print_text(f"  snapshots: metrics {one['metrics_snapshot']}, recorded {one['recorded_snapshot']}")
    for alert in one["alerts"]:
        labels = _format_alert("", alert["labels"])
        print_text(f"  {labels} {alert['state']}, value {alert['value']}: {alert['reason']}")
        times = ("active_at", "fired_at", "resolved_at", "last_sent_at")
        known = [f"{name.replace('_', ' ')} {alert[name]}" for name in times if alert[name]]
        print_text(f"    {', '.join(known)}")
        if alert["silenced_by"]:
            print_text(f"    silenced by {', '.join(alert['silenced_by'])}")
    if one["notifications"]:
        print_text("  notifications, newest first:")
        for note in one["notifications"]:
            print_text(escape_controls(f"    {note['at']} {note['kind']} {note['labels']}"))
