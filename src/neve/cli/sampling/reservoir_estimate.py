"""`neve reservoir estimate`: totals, rates and quantiles of all records from a sample, with confidence intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, print_json, print_note, print_table, print_text
from neve.cli.time_options import SinceParam, TimeParam
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from neve.cli.context import Context
    from neve.reservoir.estimate.comparison import Compared, Comparison
    from neve.reservoir.estimate.result import Estimate, Estimates

NO_NAME = "(no name)"
VALUE = "value"  # the column in which a loader returns the field of --of
RECORDS = ("total", "rate", "share")
PLAIN = ("rate", "share")  # derived from the total: their intervals are in --json
UNITS = {"total": "records", "rate": "per second", "share": "share"}


@click.command(short_help="Estimate totals, rates and quantiles from a sample.")
@click.argument("folder")
@click.option("--by", metavar="NAME", help="Estimate by this attribute.  [default: the groups of the sample]")
@click.option(
    "--since", type=SinceParam(), metavar="TIME", help="Only windows since this time: 7d, 12h, or a time (UTC)."
)
@click.option("--until", type=TimeParam(), metavar="TIME", help="Only windows that begin before this time (UTC).")
@click.option("--of", metavar="COLUMN", help="Also estimate the sum and the mean of this column or attribute.")
@click.option(
    "--quantile",
    "quantiles",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    help="Also estimate this quantile of --of; may be repeated.",
)
@click.option("--truth", metavar="FOLDER", help="Folder with the full data, to compare with the estimates.")
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Confidence level of the intervals.",
)
@click.option("--plot", "picture", metavar="FILE", help="Plot the groups to this .png or .svg file.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of groups to show and plot."
)
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
    """Estimate totals, rates and quantiles by group from the sample in FOLDER, with confidence intervals.

    An interval contains the true value in 95 of 100 samples, unless --level is set. A note marks estimates from too few
    records.

    \b
    Examples:
      neve reservoir estimate sampled/
      neve reservoir estimate sampled/ --of duration --quantile 0.5 --quantile 0.95
      neve reservoir estimate sampled/ --truth full/ --plot services.svg
    """
    from dataclasses import replace

    from neve.app.reservoir import load_sample, load_truth
    from neve.reservoir.estimate.comparison import Truth, compare
    from neve.reservoir.estimate.estimators import Question
    from neve.reservoir.estimate.estimators import estimate as ask
    from neve.reservoir.estimate.plot import check_plot, plot
    from neve.reservoir.estimate.sample import Sample
    from neve.reservoir.otap.sample_reader import SampleRequest

    if since is not None and until is not None and until <= since:
        raise click.BadParameter(f"{until.isoformat()} is not after --since {since.isoformat()}", param_hint="--until")
    if quantiles and of is None:
        raise click.UsageError("--quantile needs --of, the column or attribute to compute quantiles of")
    if picture is not None:
        check_plot(picture)
    sample = Sample.of(load_sample(context.lake, folder, SampleRequest(by, of, since, until)))
    question = Question(None if of is None else VALUE, tuple(dict.fromkeys(quantiles)), level)
    estimates, comparison = replace(ask(sample, question), of=of), None
    if truth is not None:
        first, last = (since, until) if sample.windows is None else sample.windows.period
        comparison = compare(
            estimates, Truth.of(load_truth(context.lake, truth, folder, SampleRequest(by, of, first, last)))
        )
    if picture is not None:
        plot(estimates, picture, _plotted_kind(estimates), comparison=comparison, limit=limit)
    if as_json:
        print_json((estimates if comparison is None else comparison).as_document())
        return
    show_estimates(estimates, comparison, limit)
    if picture is not None:
        print_text(f"drawn to {picture}")


def show_estimates(estimates: Estimates, comparison: Comparison | None, limit: int) -> None:
    """Print the estimates of everything and of the largest groups."""
    windows = f" of {format_count(estimates.windows, 'window')}" if estimates.windows else ""
    total = format_number(estimates.overall.estimates["total"].value)
    print_text(
        f"{estimates.items:,} kept items{windows} represent {total} records; "
        f"confidence level of the intervals: {estimates.level * 100:g} %"
    )
    values = [kind for kind in estimates.kinds if kind not in RECORDS]
    # With the truth in the table, one kind fills the width of a terminal.
    several = [[kind] for kind in values] if comparison is not None else [values] if values else []
    for kinds in ([kind for kind in estimates.kinds if kind in RECORDS], *several):
        print_text()
        _show_table(estimates, comparison, kinds, limit)
    if len(estimates.groups) > limit:
        print_text(f"and {len(estimates.groups) - limit:,} more groups; --limit shows more, --json lists them")
    for remark in estimates.remarks:
        print_note(f"note: {remark}")
    if comparison is not None:
        _show_coverage(comparison)


def _show_table(estimates: Estimates, comparison: Comparison | None, kinds: Sequence[str], limit: int) -> None:
    """Print groups as rows and kinds of estimates as columns, each with its interval and, if known, the truth."""
    headers = ["group" if kinds[0] in RECORDS else f"{estimates.of} by group", "kept"]
    for kind in kinds:
        headers.append(UNITS.get(kind, kind))
        headers += [] if kind in PLAIN else ["interval"] if comparison is None else ["interval", "truth", "off"]
    lines = (estimates.overall, *estimates.groups[:limit])
    truths = [None] * len(lines) if comparison is None else [comparison.overall, *comparison.groups[:limit]]
    rows = []
    for place, (line, truth) in enumerate(zip(lines, truths, strict=True)):
        cells = [cell for kind in kinds for cell in _cells(kind, line.estimates[kind], truth)]
        notes = dict.fromkeys(line.estimates[kind].note for kind in kinds if line.estimates[kind].note)
        name = NO_NAME if line.group is None else line.group
        kept = line.estimates[kinds[0]].items
        rows.append((name if place else "all", f"{kept:,}", *cells, "; ".join(notes)))
    print_table([*headers, "note"], rows, right=range(1, len(headers)))


def _cells(kind: str, one: Estimate, truth: Mapping[str, Compared] | None) -> Iterator[str]:
    if kind in PLAIN:
        yield f"{one.value:.2%}" if kind == "share" else format_number(one.value)
        return
    yield format_number(one.value)
    yield f"{format_number(one.low)} to {format_number(one.high)}"
    if truth is None:
        return
    found = truth.get(kind)
    yield "" if found is None else format_number(found.truth)
    off = "" if found is None or found.off is None else f"{found.off:+.1f} %"
    yield off if found is None or found.inside else f"{off} outside".strip()


def _show_coverage(comparison: Comparison) -> None:
    print_text()
    covered = [
        f"{kind} {one.covered:,} of {one.intervals:,}"
        for kind, one in comparison.count_covered().items()
        if kind != "rate"
    ]
    print_text(f"groups whose interval contains the true value: {', '.join(covered)}")
    if comparison.missing:
        names = ", ".join(NO_NAME if name is None else name for name in list(comparison.missing)[:5])
        more = ", …" if len(comparison.missing) > 5 else ""
        print_note(f"note: nothing was kept of {len(comparison.missing):,} groups of the full data: {names}{more}")


def _plotted_kind(estimates: Estimates) -> str:
    """Return the kind to plot: the first requested quantile, else the mean, else totals."""
    values = [kind for kind in estimates.kinds if kind not in (*RECORDS, "sum")]
    return values[1] if len(values) > 1 else values[0] if values else "total"


def format_number(value: float) -> str:
    """Format a number: whole from a thousand on, four digits below.

    >>> format_number(1234567.8), format_number(12.3456), format_number(0.00012)
    ('1,234,568', '12.35', '0.00012')
    >>> format_number(math.inf), format_number(math.nan)
    ('∞', '')
    """
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
