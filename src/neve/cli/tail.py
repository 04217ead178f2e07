"""`neve tail`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from neve.cli.output import complain, emit, json_option, many, note, progress, say, say_json, size, table
from neve.cli.streams import metrics_port, serve_metrics
from neve.cli.tail_simulate import explain, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.api.addresses import Addresses
    from neve.cli.context import Context
    from neve.tail.export.pump import PumpResult
    from neve.tail.job import Selector
    from neve.tail.result import CycleResult
    from neve.tail.status import TailStatus

policies_option = click.option(
    "--policies", metavar="FILE", help="The collector's tail_sampling in YAML.  [default: tail.policies]"
)


@click.group()
def tail() -> None:
    """Whole traces, kept or not: decided from the lake by policies, exported in full, with a reason for each.

    \b
    Examples:
      neve tail check --policies collector.yaml
      neve tail run --once
      neve tail simulate --policies new.yaml --since 7d
      neve tail explain 4bf92f3577b34da6a3ce929d0e0e4736
    """


tail.add_command(simulate)
tail.add_command(explain)


@tail.command()
@policies_option
@click.option("--once", is_flag=True, help="One cycle, and what it kept is exported; then end.")
@click.option("--no-export", is_flag=True, help="Decide only; what is kept waits for its destinations.")
@click.option("--steal", is_flag=True, help="Take the leases of a selector that is known to be dead.")
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
    """Decide about the traces that are complete, and bring the kept ones to their destinations.

    A cycle reads the spans that came since the last one, puts them with the summaries of open traces and decides about
    those that are ready. Decisions are in the table trace_decisions; a run that was killed is continued by the next.
    Without --once a cycle begins every tail.interval_seconds until SIGTERM or Ctrl-C, and a destination that is away
    never holds up decisions.
    """
    if metrics_port is not None:
        serve_metrics(metrics_port)
    if context.settings.tail.storage == "memory":
        _in_memory(context, policies, once=once, as_json=as_json)
        return
    if once:
        _once(context, policies, export=not no_export, steal=steal, as_json=as_json)
        return
    from neve.app.tail_loop import run_forever

    job = _selector(context, lambda _step, _done, _total: None, policies, steal=steal)
    _remark(job)
    run_forever(
        job,
        export=not no_export,
        tell=lambda result: _tell(result, as_json=as_json),
        exported=lambda results: _tell_exports(results, as_json=as_json),
        failed=lambda error: complain(error, as_json=as_json),
    )


def _in_memory(context: Context, policies: str | None, *, once: bool, as_json: bool) -> None:
    from neve.api.server import running_doors
    from neve.app.tail_memory import run_memory

    if once:
        raise click.UsageError("--once is for tail.storage: iceberg; memory has nothing to decide about before it runs")

    def ready(addresses: Addresses) -> None:
        for name, address in (("OTLP/HTTP", addresses.http), ("OTLP/gRPC", addresses.grpc)):
            if address:
                note(f"{name} on {address}")

    lake = context.lake if context.lake.exists else None
    done = run_memory(
        context.settings,
        feeds=context.settings.tail.feeds,
        doors=running_doors,
        lake=lake,
        policies=policies,
        ready=ready,
        tell=lambda result: _tell(result, as_json=as_json),
    )
    note(f"{done.cycles:,} cycles, {many(done.spans, 'span')}, {many(done.sampled.traces, 'trace')} kept")
    for name, spans in {**done.lost, **done.undelivered}.items():
        note(f"  {name} did not get {many(spans, 'span')}")


def _once(context: Context, policies: str | None, *, export: bool, steal: bool, as_json: bool) -> None:
    from neve.app.tail import build_exporter

    with progress(enabled=not as_json) as bar:
        job = _selector(context, bar, policies, steal=steal)
        result = job.run()
    # What was decided stands, and is said, whatever becomes of the export.
    if not as_json:
        _remark(job)
        show_cycle(result)
    try:
        exports = build_exporter(job).run() if export else []
    except Exception:
        if as_json:
            emit(result.as_document())
        raise
    if as_json:
        emit({**result.as_document(), "exports": [export_document(one) for one in exports]})
    else:
        show_exports(exports)
    if any(one.away for one in exports):
        sys.exit(1)


@tail.command()
@policies_option
@json_option
@click.pass_obj
def check(context: Context, policies: str | None, as_json: bool) -> None:
    """Read the policies and look at the table of spans, without deciding anything: what is wrong is said here."""
    job = _selector(context, lambda _step, _done, _total: None, policies)
    columns, found = job.source.reader.columns, job.policies
    if as_json:
        emit(
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
    say(f"{len(found.policies)} policies, {found.semantics.value} semantics, hash {found.fingerprint[:12]}")
    table(("policy", "type"), [(one.name, one.kind) for one in found.policies])
    say()
    say(f"{job.source.name} is read so:")
    lines = [(role, name, columns.units.get(role, "")) for role, name in columns.names.items()]
    table(("what", "column", "unit"), lines)
    say(f"for decisions only these are read: {', '.join(job.source.summary.span_columns)}")
    _remark(job)


@tail.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """How far the selector and its destinations are; reads metadata alone."""
    from neve.app.tail import build_status

    found = build_status(context.settings, context.lake)
    if as_json:
        emit(found.as_document())
        return
    show_status(found)


def show_status(found: TailStatus) -> None:
    """How far a selector is."""
    if not found.cycle:
        say(f"the selector {found.selector} has decided nothing yet: `neve tail run --once`")
    else:
        say(
            f"{found.selector}: cycle {found.cycle:,} at {found.last_cycle}, {found.open_traces:,} traces open, "
            f"{found.behind} commits of {found.source} not read yet"
        )
        say(f"trace_decisions: {found.decisions:,} rows, {size(found.bytes)}")
    if found.unfinished:
        say("the last cycle was killed after its decisions were committed: the next one finishes it")
    for one in found.destinations:
        say(f"  {one.name} ({one.kind}): {one.note if found.cycle else 'nothing to bring yet'}")


def show_cycle(result: CycleResult) -> None:
    """What a cycle did."""
    if not result.committed:
        say(f"{result.selector}: {result.reason}; {many(result.open, 'trace')} open")
        return
    say(
        f"{result.selector}: {many(result.spans, 'span')} read by {result.engine}, "
        f"{many(result.decided.traces, 'trace')} decided, {result.open:,} stay open, in {result.seconds:.1f} s"
    )
    say(f"  {result.reason}")
    if result.decided.traces:
        share = result.sampled.spans / max(1, result.decided.spans)
        say(
            f"  kept {many(result.sampled.traces, 'trace')} with {many(result.sampled.spans, 'span')} ({share:.1%}), "
            f"which stand for {result.estimated_traces:,.0f} traces"
        )
        for name, count in sorted(result.policies.items(), key=lambda one: -one[1].traces):
            say(f"    {name}: {many(count.traces, 'trace')}, {many(count.spans, 'span')}")
    for count, words in (
        (result.dropped, "dropped by a policy"),
        (result.late, "late: more spans of them came"),
        (result.revised, "revised: late spans changed the decision"),
        (result.taken, "kept by another selector already, and not exported again"),
    ):
        if count.traces:
            say(f"  {many(count.traces, 'trace')} ({many(count.spans, 'span')}) {words}")
    for remark in result.remarks:
        note(f"  {remark}")


def _tell(result: CycleResult, *, as_json: bool) -> None:
    if as_json:
        say_json(result.as_document())
    elif result.committed:
        show_cycle(result)


def export_document(result: PumpResult) -> dict[str, object]:
    """What a destination got, as JSON has it."""
    return {
        "destination": result.destination,
        "accepted": result.delivery.accepted,
        "rejected": result.delivery.rejected,
        "bytes": result.delivery.bytes_sent,
        "messages": list(result.delivery.messages),
        "away": result.away.message if result.away else "",
        "missing": result.missing,
        "note": result.note,
    }


def _tell_exports(results: list[PumpResult], *, as_json: bool) -> None:
    if not as_json:
        # One that is left to another process is so at every turn: said once would be once too often.
        show_exports([one for one in results if one.batches or not one.note])
        return
    for one in results:
        say_json(export_document(one))


def show_exports(results: list[PumpResult]) -> None:
    """What destinations got."""
    for one in results:
        got = one.delivery
        if got.accepted or got.rejected:
            say(f"  {one.destination} took {many(got.accepted, 'span')} ({size(got.bytes_sent)})")
        if got.rejected:
            note(f"  {one.destination} refused {many(got.rejected, 'span')} for good: {'; '.join(got.messages)}")
        if one.away:
            note(f"  {one.destination} is away, what was kept waits for it: {one.away.message}")
        if one.note:
            note(f"  {one.destination} is left to another process: {one.note}")
        if one.missing:
            note(
                f"  {one.destination} did not get {many(one.missing, 'span')} of kept traces: they are no longer in "
                "the table of spans, or begin at another time than it says"
            )


def _remark(job: Selector) -> None:
    for remark in job.policies.remarks:
        note(f"  {remark}")


def _selector(
    context: Context, bar: Callable[[str, int, int], None], policies: str | None, *, steal: bool = False
) -> Selector:
    from neve.app.tail import build_selector

    return build_selector(context.settings, context.lake, bar, policies=policies, steal=steal)
