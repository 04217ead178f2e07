"""What `neve tail simulate` says to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.cli.output import note, say, size, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.simulate.report import ErrorGroup, Estimate, Simulation, Volume

SERVICES = 8  # that a person is shown


def show_simulation(told: Simulation) -> None:
    """What some policies would have kept."""
    show_period(told)
    _show_volumes(told)
    _show_policies(told)
    _show_errors(told)
    _show_estimates(told)
    for remark in told.remarks:
        note(f"note: {remark}")


def show_period(told: Simulation) -> None:
    """Which traces are spoken of."""
    bounds = [f"{word} {moment[:19]}" for word, moment in (("since", told.since), ("until", told.until)) if moment]
    say(
        f"{told.before.traces:,} traces of {told.source} {' '.join(bounds) or 'as far as it goes back'}, "
        f"{told.before.spans:,} spans, judged in {told.seconds:.1f} s from {told.files:,} files"
    )
    if told.open:
        say(f"{told.open:,} more are not complete yet, and are left out")


def _show_volumes(told: Simulation) -> None:
    whole = told.before
    rows = [("all", whole), ("kept", told.kept), ("not sampled", told.not_sampled)]
    rows += [("dropped", told.dropped)] if told.dropped.traces else []
    say()
    headers = ("", "traces", "spans", "of spans", "bytes", "cost")
    lines = [
        (name, f"{one.traces:,}", f"{one.spans:,}", percent(one.spans, whole.spans), size(one.bytes), cost(told, one))
        for name, one in rows
    ]
    shown = len(headers) if told.price else len(headers) - 1
    table(headers[:shown], [line[:shown] for line in lines], right=range(1, shown))


def _show_policies(told: Simulation) -> None:
    say()
    headers = ("policy", "type", "decides", "traces", "spans", "of all spans")
    table(
        headers,
        [
            (
                one.name,
                one.kind,
                word(one.decision),
                f"{one.traces:,}",
                f"{one.spans:,}",
                percent(one.spans, told.before.spans),
            )
            for one in told.policies
        ],
        right=(3, 4, 5),
    )


def _show_errors(told: Simulation) -> None:
    errors = told.errors
    say()
    if not errors.traces:
        say("no trace has an error")
    elif not errors.missed:
        say(f"no error is missed: all {errors.traces:,} traces with an error are kept")
    else:
        dropped = f", {errors.missed_dropped:,} of them dropped on purpose" if errors.missed_dropped else ""
        show_groups(
            f"{errors.missed:,} of {errors.traces:,} traces with an error are missed "
            f"({percent(errors.missed, errors.traces)}){dropped}",
            errors.groups,
            apart=False,
        )


def show_groups(title: str, groups: Sequence[ErrorGroup], *, apart: bool = True) -> None:
    """Traces with an error, by what they begin with."""
    if not groups:
        return
    if apart:
        say()
    say(title)
    many = len({group.organization for group in groups}) > 1
    table(
        ("  service", "operation", "traces", "for example"),
        [
            (
                f"  {_service(many, group.organization, group.service)}",
                group.operation,
                f"{group.traces:,}",
                group.examples[0],
            )
            for group in groups
        ],
        right=(2,),
    )


def _show_estimates(told: Simulation) -> None:
    if not told.before.traces:
        return
    said = told.estimates
    say()
    rows = [("traces", said.traces, "{:,.0f}"), ("with an error", said.error_rate, "{:.2%}")]
    rows += [(f"latency {name}, ms", one, "{:,.1f}") for name, one in said.latency_ms.items()]
    headers = ("what kept traces tell", "truth", "estimated", "error")
    table(headers, [(name, *_estimated(one, form)) for name, one, form in rows], right=(1, 2, 3))
    if told.dropped.traces:
        say("traces that a policy drops are part of the truth: nothing that is kept stands for them")
    if said.mean_error is None:
        return
    say()
    say(f"traces by service: {said.mean_error:.1%} off on average")
    many = len({one.organization for one in said.services}) > 1
    table(
        ("  service", "truth", "kept", "estimated", "error"),
        [
            (
                *(f"  {_service(many, one.organization, one.service)}", f"{one.count.truth:,.0f}", f"{one.kept:,}"),
                *_estimated(one.count, "{:,.0f}")[1:],
            )
            for one in said.services[:SERVICES]
        ],
        right=(1, 2, 3, 4),
    )
    left = len(said.services) - SERVICES + said.services_left
    if left > 0:
        say(f"  and {left:,} more; --json lists {len(said.services):,}")


def cost(told: Simulation, volume: Volume) -> str:
    """What spans cost, where the price is known."""
    return f"{volume.cost:,.2f}" if told.price else ""


def _estimated(one: Estimate, form: str) -> tuple[str, str, str]:
    return (
        form.format(one.truth),
        "nothing kept" if one.estimated is None else form.format(one.estimated),
        "" if one.error is None else f"{one.error:+.1%}",
    )


def _service(many: bool, organization: str, service: str) -> str:
    """A service, with its organization where there are several."""
    return f"{organization}/{service}" if many else service


def word(decision: str) -> str:
    """A decision as people say it."""
    return {"sampled": "kept", "not_sampled": "not sampled"}.get(decision, decision)


def percent(part: float, whole: float) -> str:
    """A part of a whole; one that is there is never shown as none.

    >>> percent(1, 3), percent(0, 3), percent(1, 10**9), percent(0, 0)
    ('33.3%', '0%', '< 0.1%', '')
    """
    if not whole:
        return ""
    if not part:
        return "0%"
    share = part / whole
    return "< 0.1%" if share < 0.0005 else f"{share:.1%}"
