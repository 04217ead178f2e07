"""`neve tail simulate`: evaluate policies on past traces, alone or against other policies, and print the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, print_json, print_note, print_table, print_text, progress_bar
from neve.cli.sampling.tail_explain import explain
from neve.cli.time_options import SinceParam, TimeParam
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from neve.cli.context import Context
    from neve.tail.config import TailConfig
    from neve.tail.simulate.report import Comparison, DecisionPair, ErrorGroup, Estimate, Simulation, Volume


MAX_SERVICES = 8  # in the text output


def show_simulation(simulation: Simulation) -> None:
    """Print the traces that a set of policies would have sampled."""
    show_period(simulation)
    _show_volumes(simulation)
    _show_policies(simulation)
    _show_errors(simulation)
    _show_estimates(simulation)
    for remark in simulation.remarks:
        print_note(f"note: {remark}")


def show_period(simulation: Simulation) -> None:
    """Print the period and the number of the simulated traces."""
    bounds = [
        f"{word} {moment[:19]}" for word, moment in (("since", simulation.since), ("until", simulation.until)) if moment
    ]
    print_text(
        f"{simulation.before.traces:,} traces of {simulation.source} {' '.join(bounds) or 'as far as it goes back'}, "
        f"{simulation.before.spans:,} spans, evaluated in {format_duration(simulation.seconds)} "
        f"from {format_count(simulation.files, 'file')}"
    )
    if simulation.open:
        print_text(f"{simulation.open:,} more are not complete yet and are excluded")


def _show_volumes(simulation: Simulation) -> None:
    whole = simulation.before
    rows = [("all", whole), ("kept", simulation.kept), ("not sampled", simulation.not_sampled)]
    rows += [("dropped", simulation.dropped)] if simulation.dropped.traces else []
    print_text()
    headers = ("", "traces", "spans", "of spans", "bytes", "cost")
    lines = [
        (
            name,
            f"{one.traces:,}",
            f"{one.spans:,}",
            format_percent(one.spans, whole.spans),
            format_bytes(one.bytes),
            format_cost(simulation, one),
        )
        for name, one in rows
    ]
    shown = len(headers) if simulation.price else len(headers) - 1
    print_table(headers[:shown], [line[:shown] for line in lines], right=range(1, shown))


def _show_policies(simulation: Simulation) -> None:
    print_text()
    headers = ("policy", "type", "decides", "traces", "spans", "of all spans")
    print_table(
        headers,
        [
            (
                one.name,
                one.kind,
                format_decision(one.decision),
                f"{one.traces:,}",
                f"{one.spans:,}",
                format_percent(one.spans, simulation.before.spans),
            )
            for one in simulation.policies
        ],
        right=(3, 4, 5),
    )


def _show_errors(simulation: Simulation) -> None:
    errors = simulation.errors
    print_text()
    if not errors.traces:
        print_text("no trace has an error")
    elif not errors.missed:
        print_text(f"no error is missed: all {errors.traces:,} traces with an error are kept")
    else:
        dropped = f", {errors.missed_dropped:,} of them dropped on purpose" if errors.missed_dropped else ""
        show_groups(
            f"{errors.missed:,} of {errors.traces:,} traces with an error are missed "
            f"({format_percent(errors.missed, errors.traces)}){dropped}",
            errors.groups,
            apart=False,
        )


def show_groups(title: str, groups: Sequence[ErrorGroup], *, apart: bool = True) -> None:
    """Print traces with an error, grouped by their root span."""
    if not groups:
        return
    if apart:
        print_text()
    print_text(title)
    many = len({group.organization for group in groups}) > 1
    print_table(
        ("  service", "operation", "traces", "for example"),
        [
            (
                f"  {_format_service(many, group.organization, group.service)}",
                group.operation,
                f"{group.traces:,}",
                group.examples[0],
            )
            for group in groups
        ],
        right=(2,),
    )


def _show_estimates(simulation: Simulation) -> None:
    if not simulation.before.traces:
        return
    estimates = simulation.estimates
    print_text()
    rows = [("traces", estimates.traces, "{:,.0f}"), ("with an error", estimates.error_rate, "{:.2%}")]
    rows += [(f"latency {name}, ms", one, "{:,.1f}") for name, one in estimates.latency_ms.items()]
    headers = ("estimate from kept traces", "truth", "estimated", "error")
    print_table(headers, [(name, *_estimate_cells(one, form)) for name, one, form in rows], right=(1, 2, 3))
    if simulation.dropped.traces:
        print_text("traces that a policy drops count as true values, but no kept trace represents them")
    if estimates.mean_error is None:
        return
    print_text()
    print_text(f"traces by service: {estimates.mean_error:.1%} off on average")
    many = len({one.organization for one in estimates.services}) > 1
    print_table(
        ("  service", "truth", "kept", "estimated", "error"),
        [
            (
                *(
                    f"  {_format_service(many, one.organization, one.service)}",
                    f"{one.count.truth:,.0f}",
                    f"{one.kept:,}",
                ),
                *_estimate_cells(one.count, "{:,.0f}")[1:],
            )
            for one in estimates.services[:MAX_SERVICES]
        ],
        right=(1, 2, 3, 4),
    )
    left = len(estimates.services) - MAX_SERVICES + estimates.services_left
    if left > 0:
        print_text(f"  and {left:,} more; --json lists {len(estimates.services):,}")


def format_cost(simulation: Simulation, volume: Volume) -> str:
    """Format the cost of spans, if the price is known."""
    return f"{volume.cost:,.2f}" if simulation.price else ""


def _estimate_cells(one: Estimate, form: str) -> tuple[str, str, str]:
    return (
        form.format(one.truth),
        "nothing kept" if one.estimated is None else form.format(one.estimated),
        "" if one.error is None else f"{one.error:+.1%}",
    )


def _format_service(many: bool, organization: str, service: str) -> str:
    """Format a service, with its organization if there are several."""
    return f"{organization}/{service}" if many else service


def format_decision(decision: str) -> str:
    """Format a decision."""
    return {"sampled": "kept", "not_sampled": "not sampled"}.get(decision, decision)


def format_percent(part: float, whole: float) -> str:
    """Format a share in percent; a small share above zero is not shown as 0%.

    >>> format_percent(1, 3), format_percent(0, 3), format_percent(1, 10**9), format_percent(0, 0)
    ('33.3%', '0%', '< 0.1%', '')
    """
    if not whole:
        return ""
    if not part:
        return "0%"
    share = part / whole
    return "< 0.1%" if share < 0.0005 else f"{share:.1%}"


MAX_MOVES = 8  # in the text output


def show_comparison(comparison: Comparison) -> None:
    """Print the traces that two sets of policies would have sampled of the same traces."""
    new, old = comparison.new, comparison.old
    show_period(new)
    headers = ("", "kept traces", "share", "kept spans", "bytes", "cost", "errors missed", "mean error by service")
    lines = [(name, *_summary_cells(one)) for name, one in (("new", new), ("old", old))]
    lines.append(
        ("difference", *_difference_cells(comparison.difference), f"{new.errors.missed - old.errors.missed:+,}", "")
    )
    print_table(headers, lines, right=range(1, len(headers)))
    _show_fates(comparison)
    _show_moves("kept by the new policies only", [move for move in comparison.moves if move.kept_by == "new"])
    _show_moves("kept by the old policies only", [move for move in comparison.moves if move.kept_by == "old"])
    show_groups("errors that only the old policies keep", comparison.errors_lost)
    show_groups("errors that only the new policies keep", comparison.errors_gained)
    if comparison.left_out:
        print_note(f"note: {comparison.left_out:,} traces are complete for one policy set only and are not compared")
    for remark in dict.fromkeys((*new.remarks, *old.remarks)):
        print_note(f"note: {remark}")


def _show_fates(comparison: Comparison) -> None:
    print_text()
    fates = (
        ("both", comparison.both),
        ("only new", comparison.only_new),
        ("only old", comparison.only_old),
        ("neither", comparison.neither),
    )
    print_table(
        ("kept by", "traces", "with an error", "spans"),
        [(name, f"{fate.traces:,}", f"{fate.errors:,}", f"{fate.spans:,}") for name, fate in fates],
        right=(1, 2, 3),
    )


def _show_moves(title: str, moves: Sequence[DecisionPair]) -> None:
    if not moves:
        return
    print_text()
    print_text(title)
    print_table(
        ("  new", "old", "traces", "with an error", "spans"),
        [
            (
                f"  {_format_fate(move.new_decision, move.new_policy)}",
                _format_fate(move.old_decision, move.old_policy),
                *(f"{count:,}" for count in (move.traces, move.errors, move.spans)),
            )
            for move in moves[:MAX_MOVES]
        ],
        right=(2, 3, 4),
    )
    if len(moves) > MAX_MOVES:
        print_text(f"  and {len(moves) - MAX_MOVES:,} more kinds; --json lists them")


def _summary_cells(simulation: Simulation) -> tuple[str, ...]:
    kept, mean = simulation.kept, simulation.estimates.mean_error
    return (
        *(
            f"{kept.traces:,}",
            format_percent(kept.spans, simulation.before.spans),
            f"{kept.spans:,}",
            format_bytes(kept.bytes),
        ),
        *(format_cost(simulation, kept), f"{simulation.errors.missed:,}", "" if mean is None else f"{mean:.1%}"),
    )


def _difference_cells(change: Volume) -> tuple[str, ...]:
    less = "-" if change.bytes < 0 else "+"
    return (
        *(f"{change.traces:+,}", "", f"{change.spans:+,}", f"{less}{format_bytes(abs(change.bytes))}"),
        f"{change.cost:+,.2f}" if change.cost else "",
    )


def _format_fate(decision: str, policy: str | None) -> str:
    return f"{format_decision(decision)} by {policy}" if policy else format_decision(decision)


__all__ = ["explain", "simulate"]

CURRENT = "current"
SEMANTICS = ("documented", "otelcol")


@click.command(short_help="Simulate policies on past traces: volume, cost, misses.")
@click.option(
    "--policies",
    metavar="FILE",
    help="YAML file with the policies to simulate.  [default: the configured policies]",
)
@click.option("--compare", "other", metavar="FILE", help="Policies to compare with; `current`: the configured ones.")
@click.option(
    "--since",
    type=SinceParam(),
    metavar="TIME",
    help="Only traces since this time: 7d, 12h, or a time (UTC).  [default: all]",
)
@click.option("--until", type=TimeParam(), metavar="TIME", help="Only traces that began before this time (UTC).")
@click.option("--semantics", type=click.Choice(SEMANTICS), help="Semantics of the policies.  [default: tail.semantics]")
@click.option(
    "--price",
    type=click.FloatRange(min=0),
    help="Price of a million spans at the destination.  [default: tail.price_per_million_spans]",
)
@json_option
@click.pass_obj
def simulate(
    context: Context,
    policies: str | None,
    other: str | None,
    since: datetime | None,
    until: datetime | None,
    semantics: str | None,
    price: float | None,
    as_json: bool,
) -> None:
    """Simulate policies on past traces: volume, cost, missed errors, and the accuracy of estimates.

    Traces are read from the table of spans and evaluated as in a cycle, with all spans present now. Nothing is written.
    With --compare the same traces are evaluated with two sets of policies, and the differences are shown.

    \b
    Examples:
      neve tail simulate --policies new.yaml --since 7d
      neve tail simulate --policies new.yaml --compare current --since 2026-01-31 --price 0.30
    """
    from neve.app.tail import build_policies
    from neve.app.wiring import build_source_lake
    from neve.tail.simulate.report import Simulation
    from neve.tail.simulate.simulator import Period, Simulator

    if since is not None and until is not None and until <= since:
        raise click.BadParameter(f"{until.isoformat()} is not after --since {since.isoformat()}", param_hint="--until")
    config = context.settings.tail
    read = _with_semantics(config, semantics)
    new = build_policies(read, policies)
    old = (
        None
        if other is None
        else build_policies(config if other == CURRENT else read, None if other == CURRENT else other)
    )
    with progress_bar(enabled=not as_json) as bar:
        lake = build_source_lake(context.settings, context.lake)
        simulator = Simulator(lake, config, Period(since, until), price, progress=bar)
        result: Simulation | Comparison = simulator.compare(new, old) if old else simulator.simulate(new)
    if as_json:
        print_json(result.as_document())
    elif isinstance(result, Simulation):
        show_simulation(result)
    else:
        show_comparison(result)


def _with_semantics(config: TailConfig, semantics: str | None) -> TailConfig:
    """Return the settings with the file semantics of the command line."""
    from neve.tail.policy.semantics import Semantics

    return config if semantics is None else config.model_copy(update={"semantics": Semantics(semantics)})
