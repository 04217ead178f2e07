"""`neve tail simulate`; `neve tail explain` stands beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.moment import Moment
from neve.cli.output import emit, json_option, progress
from neve.cli.since import Since
from neve.cli.tail_explain import explain

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context
    from neve.tail.config import TailConfig

__all__ = ["explain", "simulate"]

CURRENT = "current"
SEMANTICS = ("documented", "otelcol")


@click.command()
@click.option(
    "--policies",
    metavar="FILE",
    help="Policies to try, the collector's tail_sampling in YAML.  [default: the configured]",
)
@click.option(
    "--compare", "other", metavar="FILE", help="Policies to compare them with; `current`: those that are configured."
)
@click.option(
    "--since", type=Since(), metavar="TIME", help="Only traces since then: 7d, 12h, or a time (UTC).  [default: all]"
)
@click.option("--until", type=Moment(), metavar="TIME", help="Only traces that began before this time (UTC).")
@click.option("--semantics", type=click.Choice(SEMANTICS), help="How the files are read.  [default: tail.semantics]")
@click.option(
    "--price",
    type=click.FloatRange(min=0),
    help="What a million spans cost at the destination.  [default: tail.price_per_million_spans]",
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
    """What policies would have kept of the past: volume and cost, missed errors, and how well the rest tells of all.

    Traces are read from the table of spans and judged as a cycle would, by all spans that they have by now. Nothing is
    written. With --compare the same traces are judged by two sets of policies, and the difference is told.

    \b
    Examples:
      neve tail simulate --policies new.yaml --since 7d
      neve tail simulate --policies new.yaml --compare current --since 2026-01-31 --price 0.30
    """
    from neve.app.tail import build_policies, source_lake
    from neve.cli.tail_compared import show_comparison
    from neve.cli.tail_simulated import show_simulation
    from neve.tail.simulate.period import Period
    from neve.tail.simulate.report import Comparison, Simulation
    from neve.tail.simulate.run import Simulator

    if since is not None and until is not None and until <= since:
        raise click.BadParameter(f"{until.isoformat()} is not after --since {since.isoformat()}", param_hint="--until")
    config = context.settings.tail
    read = _reading(config, semantics)
    new = build_policies(read, policies)
    old = (
        None
        if other is None
        else build_policies(config if other == CURRENT else read, None if other == CURRENT else other)
    )
    with progress(enabled=not as_json) as bar:
        lake = source_lake(context.settings, context.lake)
        simulator = Simulator(lake, config, Period(since, until), price, progress=bar)
        told: Simulation | Comparison = simulator.compare(new, old) if old else simulator.simulate(new)
    if as_json:
        emit(told.as_document())
    elif isinstance(told, Simulation):
        show_simulation(told)
    else:
        show_comparison(told)


def _reading(config: TailConfig, semantics: str | None) -> TailConfig:
    """The settings, with files read as the command says."""
    from neve.tail.policy.tree import Semantics

    return config if semantics is None else config.model_copy(update={"semantics": Semantics(semantics)})
