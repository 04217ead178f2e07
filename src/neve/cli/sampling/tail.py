"""`neve tail`: run the selector once or continuously, check its policies, show its status."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from neve.cli.ingest import metrics_port, serve_metrics
from neve.cli.output import (
    json_option,
    print_error,
    print_json,
    print_json_line,
    print_note,
    print_table,
    print_text,
    progress_bar,
)
from neve.cli.sampling.tail_simulation import explain, simulate
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.api.ports import Addresses
    from neve.cli.context import Context
    from neve.tail.decisions import CycleResult
    from neve.tail.export.destination import DeliveryResult
    from neve.tail.selector import TailSelector
    from neve.tail.status import TailStatus

policies_option = click.option(
    "--policies",
    metavar="FILE",
    help="YAML file with the collector's tail_sampling policies.  [default: tail.policies]",
)


@click.group(short_help="Decide by policies which complete traces to keep.")
def tail() -> None:
    """Tail sampling: decide by policies which complete traces to keep, export them, and record the reasons.

    \b
    Examples:
      neve tail check --policies collector.yaml
      neve tail run --once
      neve tail simulate --policies new.yaml --since 7d
      neve tail explain 4bf92f3577b34da6a3ce929d0e0e4736
    """


tail.add_command(simulate)
tail.add_command(explain)


@tail.command(short_help="Decide about complete traces, and export sampled ones.")
@policies_option
@click.option("--once", is_flag=True, help="Run one cycle, export its traces, then exit.")
@click.option("--no-export", is_flag=True, help="Decide only; sampled traces are exported later.")
@click.option("--steal", is_flag=True, help="Take over the leases of a dead selector.")
@metrics_port
@json_option
@click.pass_obj
def run(
    context: Context,
    policies: str | None,
    once: bool,
    no_export: bool,
    steal: bool,
    metrics_port: int | None,
    as_json: bool,
) -> None:
    """Decide about complete traces, and export the sampled ones to their destinations.

    A cycle reads the spans since the last one, adds them to the summaries of open traces and decides about those that
    are complete. Decisions are stored in the table trace_decisions. The next run continues an interrupted one. Without
    --once a cycle starts every tail.interval_seconds until SIGTERM or Ctrl+C. An unavailable destination never delays
    decisions.
    """
    if metrics_port is not None:
        serve_metrics(metrics_port)
    if context.settings.tail.storage == "memory":
        _run_in_memory(context, policies, once=once, as_json=as_json)
        return
    if once:
        _run_once(context, policies, export=not no_export, steal=steal, as_json=as_json)
        return
    from neve.app.tail import run_forever

    job = _open_selector(context, lambda _step, _done, _total: None, policies, steal=steal)
    _show_remarks(job)
    run_forever(
        job,
        export=not no_export,
        tell=lambda result: _report_cycle(result, as_json=as_json),
        exported=lambda results: _report_exports(results, as_json=as_json),
        failed=lambda error: print_error(error, as_json=as_json),
    )


def _run_in_memory(context: Context, policies: str | None, *, once: bool, as_json: bool) -> None:
    from neve.api.server import open_receiver_ports
    from neve.app.tail_memory import run_memory

    if once:
        raise click.UsageError("--once requires tail.storage: iceberg")

    def ready(addresses: Addresses) -> None:
        for name, address in (("OTLP/HTTP", addresses.http), ("OTLP/gRPC", addresses.grpc)):
            if address:
                print_note(f"{name} on {address}")

    lake = context.lake if context.lake.exists else None
    done = run_memory(
        context.settings,
        feeds=context.settings.tail.feeds,
        doors=open_receiver_ports,
        lake=lake,
        policies=policies,
        ready=ready,
        tell=lambda result: _report_cycle(result, as_json=as_json),
    )
    print_note(
        f"{done.cycles:,} cycles, {format_count(done.spans, 'span')}, {format_count(done.sampled.traces, 'trace')} kept"
    )
    for name, spans in {**done.lost, **done.undelivered}.items():
        print_note(f"  {name} did not get {format_count(spans, 'span')}")


def _run_once(context: Context, policies: str | None, *, export: bool, steal: bool, as_json: bool) -> None:
    from neve.app.tail import build_exporter

    with progress_bar(enabled=not as_json) as bar:
        job = _open_selector(context, bar, policies, steal=steal)
        result = job.run()
    # The decisions are committed: report them even if the export fails.
    if not as_json:
        _show_remarks(job)
        show_cycle(result)
    try:
        exports = build_exporter(job).run() if export else []
    except Exception:
        if as_json:
            print_json(result.as_document())
        raise
    if as_json:
        print_json({**result.as_document(), "exports": [export_document(one) for one in exports]})
    else:
        show_exports(exports)
    if any(one.error for one in exports):
        sys.exit(1)


@tail.command(short_help="Validate the policies and the table of spans.")
@policies_option
@json_option
@click.pass_obj
def check(context: Context, policies: str | None, as_json: bool) -> None:
    """Validate the policies and the table of spans, without deciding anything."""
    job = _open_selector(context, lambda _step, _done, _total: None, policies)
    columns, found = job.source.reader.columns, job.policies
    if as_json:
        print_json(
            {
                "source": job.source.name,
                "columns": dict(columns.names),
                "units": dict(columns.units),
                "policies": [{"name": one.name, "type": one.kind} for one in found.policies],
                "columns_read": list(job.source.summary.span_columns),
                "remarks": list(found.remarks),
                "policies_hash": found.fingerprint,
            }
        )
        return
    print_text(f"{len(found.policies)} policies, {found.semantics.value} semantics, hash {found.fingerprint[:12]}")
    print_table(("policy", "type"), [(one.name, one.kind) for one in found.policies])
    print_text()
    print_text(f"{job.source.name} is mapped as follows:")
    lines = [(role, name, columns.units.get(role, "")) for role, name in columns.names.items()]
    print_table(("what", "column", "unit"), lines)
    print_text(f"columns read for decisions: {', '.join(job.source.summary.span_columns)}")
    _show_remarks(job)


@tail.command(short_help="Show the lag of sampling and of its destinations.")
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Show the lag of the selector and of its destinations, from metadata alone."""
    from neve.app.lake_reports import load_sampler_status

    found = load_sampler_status(context.settings, context.lake)
    if as_json:
        print_json(found.as_document())
        return
    show_status(found)


def show_status(found: TailStatus) -> None:
    """Print the progress of a selector."""
    if not found.cycle:
        print_text(f"the selector {found.selector} has made no decisions yet: `neve tail run --once` runs a cycle")
    else:
        print_text(
            f"{found.selector}: cycle {found.cycle:,} at {found.last_cycle}, "
            f"{format_count(found.open_traces, 'trace')} open, "
            f"{found.behind} commits of {found.source} not read yet"
        )
        print_text(f"trace_decisions: {format_count(found.decisions, 'row')}, {format_bytes(found.bytes)}")
    if found.unfinished:
        print_text("the last cycle was interrupted after its decisions were committed; the next one finishes it")
    for one in found.destinations:
        print_text(f"  {one.name} ({one.kind}): {one.note if found.cycle else 'nothing to bring yet'}")


def show_cycle(result: CycleResult) -> None:
    """Print the result of a cycle."""
    if not result.committed:
        print_text(f"{result.selector}: {result.reason}; {format_count(result.open, 'trace')} open")
        return
    print_text(
        f"{result.selector}: {format_count(result.spans, 'span')} read by {result.engine}, "
        f"{format_count(result.decided.traces, 'trace')} decided, {result.open:,} stay open, "
        f"in {format_duration(result.seconds)}"
    )
    print_text(f"  {result.reason}")
    if result.decided.traces:
        share = result.sampled.spans / max(1, result.decided.spans)
        print_text(
            f"  kept {format_count(result.sampled.traces, 'trace')} "
            f"with {format_count(result.sampled.spans, 'span')} ({share:.1%}), "
            f"which represent {result.estimated_traces:,.0f} traces"
        )
        for name, count in sorted(result.policies.items(), key=lambda one: -one[1].traces):
            print_text(f"    {name}: {format_count(count.traces, 'trace')}, {format_count(count.spans, 'span')}")
    for count, words in (
        (result.dropped, "dropped by a policy"),
        (result.late, "late: more spans arrived"),
        (result.revised, "revised: late spans changed the decision"),
        (result.taken, "kept by another selector already, not exported again"),
    ):
        if count.traces:
            print_text(f"  {format_count(count.traces, 'trace')} ({format_count(count.spans, 'span')}) {words}")
    for remark in result.remarks:
        print_note(f"  {remark}")


def _report_cycle(result: CycleResult, *, as_json: bool) -> None:
    if as_json:
        print_json_line(result.as_document())
    elif result.committed:
        show_cycle(result)


def export_document(result: DeliveryResult) -> dict[str, object]:
    """Return the result of a destination as a JSON document."""
    return {
        "destination": result.destination,
        "accepted": result.delivery.accepted,
        "rejected": result.delivery.rejected,
        "bytes": result.delivery.bytes_sent,
        "messages": list(result.delivery.messages),
        "away": result.error.message if result.error else "",
        "missing": result.missing,
        "note": result.note,
    }


def _report_exports(results: list[DeliveryResult], *, as_json: bool) -> None:
    if not as_json:
        # A destination that another process serves is skipped in every cycle: do not report it each time.
        show_exports([one for one in results if one.batches or not one.note])
        return
    for one in results:
        print_json_line(export_document(one))


def show_exports(results: list[DeliveryResult]) -> None:
    """Print the results of destinations."""
    for one in results:
        got = one.delivery
        if got.accepted or got.rejected:
            print_text(
                f"  {one.destination} took {format_count(got.accepted, 'span')} ({format_bytes(got.bytes_sent)})"
            )
        if got.rejected:
            print_note(f"  {one.destination} rejected {format_count(got.rejected, 'span')}: {'; '.join(got.messages)}")
        if one.error:
            print_note(f"  {one.destination} is unavailable, kept traces wait: {one.error.message}")
        if one.note:
            print_note(f"  {one.destination} is left to another process: {one.note}")
        if one.missing:
            print_note(
                f"  {one.destination} did not get {format_count(one.missing, 'span')} of kept traces: "
                "they are no longer in the table of spans, or their start time differs"
            )


def _show_remarks(job: TailSelector) -> None:
    for remark in job.policies.remarks:
        print_note(f"  {remark}")


def _open_selector(
    context: Context, bar: Callable[[str, int, int], None], policies: str | None, *, steal: bool = False
) -> TailSelector:
    from neve.app.tail import build_selector

    return build_selector(context.settings, context.lake, bar, policies=policies, steal=steal)
