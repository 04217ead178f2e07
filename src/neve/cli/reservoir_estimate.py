"""`neve reservoir estimate`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from neve.cli.moment import Moment
from neve.cli.output import emit, json_option, note, say, table
from neve.cli.since import Since

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from neve.cli.context import Context
    from neve.reservoir.estimate.result import Estimate, Estimates
    from neve.reservoir.estimate.truth import Compared, Comparison

NO_NAME = "(no name)"
VALUE = "value"  # the column in which a loader gives what --of names
RECORDS = ("total", "rate", "share")
PLAIN = ("rate", "share")  # which follow from the total: their intervals are in --json
UNITS = {"total": "records", "rate": "per second", "share": "share"}


@click.command()
@click.argument("folder")
@click.option("--by", metavar="NAME", help="Estimate by this attribute.  [default: the groups that were sampled]")
@click.option("--since", type=Since(), metavar="TIME", help="Only windows since then: 7d, 12h, or a time (UTC).")
@click.option("--until", type=Moment(), metavar="TIME", help="Only windows that begin before this time (UTC).")
@click.option("--of", metavar="COLUMN", help="Also the sum and the mean of this column or attribute.")
@click.option(
    "--quantile",
    "quantiles",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    help="Also this quantile of --of; may be repeated.",
)
@click.option("--truth", metavar="FOLDER", help="The full data, to stand beside the estimates.")
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="How often an interval shall hold the truth.",
)
@click.option("--plot", "picture", metavar="FILE", help="Draw the groups to this .png or .svg file.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Groups to show and to draw.")
@json_option
@click.pass_obj
def estimate(
    context: Context,
    folder: str,
    by: str | None,
    since: datetime | None,
    until: datetime | None,
    of: str | None,
    quantiles: tuple[float, ...],
    truth: str | None,
    level: float,
    picture: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """What the sample in FOLDER says of all records: totals, rates and quantiles by group, with intervals.

    An interval holds the true number in 95 of 100 samples, unless --level says otherwise. A note says where too few
    items were kept to trust it.

    \b
    Examples:
      neve reservoir estimate sampled/
      neve reservoir estimate sampled/ --of duration --quantile 0.5 --quantile 0.95
      neve reservoir estimate sampled/ --truth full/ --plot services.svg
    """
    from dataclasses import replace

    from neve.app.reservoir import load_sample, load_truth
    from neve.reservoir.estimate.ask import Question
    from neve.reservoir.estimate.ask import estimate as ask
    from neve.reservoir.estimate.plot import check_plot, plot
    from neve.reservoir.estimate.sample import Sample
    from neve.reservoir.estimate.truth import Truth, compare
    from neve.reservoir.star.sample import Asked

    if since is not None and until is not None and until <= since:
        raise click.BadParameter(f"{until.isoformat()} is not after --since {since.isoformat()}", param_hint="--until")
    if quantiles and of is None:
        raise click.UsageError("--quantile needs --of, the column or attribute whose quantiles are wanted")
    if picture is not None:
        check_plot(picture)
    sample = Sample.of(load_sample(context.lake, folder, Asked(by, of, since, until)))
    question = Question(None if of is None else VALUE, tuple(dict.fromkeys(quantiles)), level)
    told, beside = replace(ask(sample, question), of=of), None
    if truth is not None:
        first, last = (since, until) if sample.windows is None else sample.windows.period
        beside = compare(told, Truth.of(load_truth(context.lake, truth, folder, Asked(by, of, first, last))))
    if picture is not None:
        plot(told, picture, _drawn(told), beside=beside, limit=limit)
    if as_json:
        emit((told if beside is None else beside).as_document())
        return
    show_estimates(told, beside, limit)
    if picture is not None:
        say(f"drawn to {picture}")


def show_estimates(told: Estimates, beside: Comparison | None, limit: int) -> None:
    """The estimates of everything and of the largest groups."""
    windows = f" of {told.windows:,} window{'' if told.windows == 1 else 's'}" if told.windows else ""
    say(
        f"{told.items:,} kept items{windows} stand for {number(told.overall.estimates['total'].value)} records; "
        f"intervals hold the truth at {told.level * 100:g} %"
    )
    values = [kind for kind in told.kinds if kind not in RECORDS]
    # With the truth beside it, each kind is as wide as a terminal can take.
    several = [[kind] for kind in values] if beside is not None else [values] if values else []
    for kinds in ([kind for kind in told.kinds if kind in RECORDS], *several):
        say()
        _show_table(told, beside, kinds, limit)
    if len(told.groups) > limit:
        say(f"and {len(told.groups) - limit:,} more groups; --limit shows more, --json lists them")
    for remark in told.remarks:
        note(f"note: {remark}")
    if beside is not None:
        _show_covering(beside)


def _show_table(told: Estimates, beside: Comparison | None, kinds: Sequence[str], limit: int) -> None:
    """Groups down, kinds of estimates across: each with its interval, and with the truth where that is known."""
    headers = ["group" if kinds[0] in RECORDS else f"{told.of} by group", "kept"]
    for kind in kinds:
        headers.append(UNITS.get(kind, kind))
        headers += [] if kind in PLAIN else ["interval"] if beside is None else ["interval", "truth", "off"]
    lines = (told.overall, *told.groups[:limit])
    truths = [None] * len(lines) if beside is None else [beside.overall, *beside.groups[:limit]]
    rows = []
    for place, (line, truth) in enumerate(zip(lines, truths, strict=True)):
        cells = [cell for kind in kinds for cell in _cells(kind, line.estimates[kind], truth)]
        notes = dict.fromkeys(line.estimates[kind].note for kind in kinds if line.estimates[kind].note)
        name = NO_NAME if line.group is None else line.group
        kept = line.estimates[kinds[0]].items
        rows.append((name if place else "all", f"{kept:,}", *cells, "; ".join(notes)))
    table([*headers, "note"], rows, right=range(1, len(headers)))


def _cells(kind: str, one: Estimate, truth: Mapping[str, Compared] | None) -> Iterator[str]:
    if kind in PLAIN:
        yield f"{one.value:.2%}" if kind == "share" else number(one.value)
        return
    yield number(one.value)
    yield f"{number(one.low)} to {number(one.high)}"
    if truth is None:
        return
    found = truth.get(kind)
    yield "" if found is None else number(found.truth)
    off = "" if found is None or found.off is None else f"{found.off:+.1f} %"
    yield off if found is None or found.inside else f"{off} outside".strip()


def _show_covering(beside: Comparison) -> None:
    say()
    told = [f"{kind} {one.covered:,} of {one.intervals:,}" for kind, one in beside.covering().items() if kind != "rate"]
    say(f"groups whose interval holds the truth: {', '.join(told)}")
    if beside.missing:
        names = ", ".join(NO_NAME if name is None else name for name in list(beside.missing)[:5])
        more = ", …" if len(beside.missing) > 5 else ""
        note(f"note: nothing was kept of {len(beside.missing):,} groups of the full data: {names}{more}")


def _drawn(told: Estimates) -> str:
    """What a picture shows: the first quantile that was asked for, else the mean, else totals."""
    values = [kind for kind in told.kinds if kind not in (*RECORDS, "sum")]
    return values[1] if len(values) > 1 else values[0] if values else "total"


def number(value: float) -> str:
    """A number as people read it: whole from a thousand on, four digits below.

    >>> number(1234567.8), number(12.3456), number(0.00012), number(math.inf), number(math.nan)
    ('1,234,568', '12.35', '0.00012', '∞', '')
    """
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
