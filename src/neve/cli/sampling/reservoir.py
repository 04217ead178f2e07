"""`neve reservoir`: sample folders of OTAP Parquet window by window, and list the sampled windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import json_option, print_json, print_note, print_table, print_text, progress_bar
from neve.cli.sampling.reservoir_estimate import estimate
from neve.cli.sampling.reservoir_lake import lake
from neve.cli.time_options import SinceParam, TimeParam
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from neve.cli.context import Context
    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.otap.ledger import SampledWindow
    from neve.reservoir.otap.source import Plan
    from neve.reservoir.results import RunResult

SHOWN = 20
MAX_WINDOW_SECONDS = 86_400 * 31  # seconds of a window


@click.group(short_help="Sample logs and spans with weights, and estimate totals.")
def reservoir() -> None:
    """Sample OTAP Parquet with weights: k records per group and window, each with its adjusted count.

    \b
    Examples:
      neve reservoir run otap/ sampled/ --k 100
      neve reservoir estimate sampled/ --truth otap/
      neve reservoir inspect sampled/
    """


reservoir.add_command(estimate)
reservoir.add_command(lake)


@reservoir.command(short_help="Sample OTAP Parquet into a new folder.")
@click.argument("source", required=False)
@click.argument("target", required=False)
@click.option(
    "--signal", type=click.Choice(("logs", "spans")), help="Signal to sample.  [default: as configured, logs]"
)
@click.option("--k", type=click.IntRange(min=1), help="Records to keep per group and window; without it all are kept.")
@click.option(
    "--by",
    multiple=True,
    metavar="NAME",
    help="Group by this attribute or column; may be repeated.  [default: service.name]",
)
@click.option("--query", type=click.File(), help="File with SQL that replaces --k and --by; - reads standard input.")
@click.option("--method", type=click.Choice(("priority", "exact_total")), help="Sampling method.  [default: priority]")
@click.option(
    "--window",
    "window_seconds",
    type=click.IntRange(1, MAX_WINDOW_SECONDS),
    metavar="SECONDS",
    help="Window length.",
)
@click.option("--ids", type=click.Choice(("keep", "renumber")), help="Keep ids, or assign new ones.  [default: keep]")
@click.option(
    "--since", type=SinceParam(), metavar="TIME", help="Only windows since this time: 7d, 12h, or a time (UTC)."
)
@click.option("--until", type=TimeParam(), metavar="TIME", help="Only windows that begin before this time (UTC).")
@click.option(
    "--again", is_flag=True, help="Sample unchanged windows again, for example after a change of --k or --query."
)
@click.option("--dry-run", is_flag=True, help="Show what would be done and why.")
@click.option("--steal", is_flag=True, help="Take over the lease of a dead run.")
@json_option
@click.pass_obj
def run(context: Context, /, as_json: bool, dry_run: bool, steal: bool, **given: Any) -> None:
    """Sample the OTAP Parquet in SOURCE into the same tables in TARGET, window by window.

    Windows whose files have not changed since they were sampled are skipped. Late files cause their windows to be
    sampled again. An interrupted run leaves nothing behind: run it again.
    """
    from neve.app.reservoir import build_sampler
    from neve.reservoir.otap.job import RunScope

    span = RunScope(given.pop("since"), given.pop("until"), given.pop("again"))
    config = _config(context, given)
    with progress_bar(enabled=not as_json) as bar:
        sampler = build_sampler(context.settings, context.lake, config, bar, steal=steal)
        if dry_run:
            plan = sampler.plan(span)
        else:
            result = sampler.run(span)
    if dry_run:
        _show_plan(plan, as_json=as_json)
    elif as_json:
        print_json(result.as_document())
    else:
        show_run(result, config)


@reservoir.command()
@click.argument("target", required=False)
@click.option(
    "--signal", type=click.Choice(("logs", "spans")), help="Signal of the sample.  [default: as configured, logs]"
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="Number of windows to show."
)
@click.option("--query", "show_query", is_flag=True, help="Print the sampling SQL, as a start for your own.")
@json_option
@click.pass_obj
def inspect(
    context: Context, target: str | None, signal: str | None, limit: int, show_query: bool, as_json: bool
) -> None:
    """Show the windows in TARGET: records, sampled records and files."""
    from neve.reservoir.otap.ledger import Ledger

    config = _config(context, {"target": target, "signal": signal})
    if show_query:
        from neve.reservoir.otap.decide import default_query

        print_text(config.query or default_query(config))
        return
    if not config.target:
        raise click.UsageError("name the folder of the sample, or set reservoir.target")
    windows = sorted(
        Ledger.of(config.target, config.signal, context.lake.s3).read_windows().values(), key=_window_start
    )
    if as_json:
        print_json([_window_document(one) for one in windows])
        return
    if not windows:
        print_text(f"no window of {config.signal} was sampled into {config.target} yet")
        return
    headers = ("window", "seconds", "records", "kept", "share", "from files", "times", "how", "state")
    print_table(headers, [_window_row(one) for one in windows[-limit:]], right=(1, 2, 3, 4, 5, 6))
    records, kept = sum(one.records for one in windows), sum(one.kept for one in windows)
    print_text(
        f"{format_count(len(windows), 'window')}, {kept:,} of {records:,} records kept ({_format_share(kept, records)})"
    )
    if len(windows) > limit:
        print_text(f"the last {limit:,} are shown; --limit shows more")


def show_run(result: RunResult, config: ReservoirConfig) -> None:
    """Print the result of a run."""
    for window in result.windows[-SHOWN:]:
        print_text(
            f"{window.window}: {window.kept:,} of {window.records:,} {result.signal} kept "
            f"in {format_count(window.files, 'file')} of {format_bytes(window.bytes)}, "
            f"{format_duration(window.seconds)} ({window.reason})"
        )
    if len(result.windows) > SHOWN:
        print_text(f"and {len(result.windows) - SHOWN:,} windows before these; --json lists them")
    if result.windows:
        share = _format_share(result.kept_records, result.records)
        print_text(
            f"{format_count(len(result.windows), 'window')} sampled ({config.how}): "
            f"{result.kept_records:,} of {result.records:,} records kept ({share}), {format_duration(result.seconds)}"
        )
    if result.current:
        print_text(f"{format_count(result.current, 'window')} unchanged since they were sampled")
    if not result.windows and not result.current:
        print_text("there is no window to sample")
    _show_remarks(result)


def _show_remarks(result: RunResult) -> None:
    repaired = sum(window.convention == "exporter" for window in result.windows)
    for count, noun, words in (
        (repaired, "window", "with ids as otel-arrow's exporter has them: repaired, written to the specification"),
        (result.waiting, "window", "still receiving data"),
        (result.gone, "window", "without source files any more: their samples are kept"),
        (result.other_policy, "window", "sampled with other settings before and unchanged; --again samples them again"),
        (sum(window.counted_as_one for window in result.windows), "record", "counted as 1: invalid weight"),
        (sum(window.guessed for window in result.windows), "record", "without an id: the resource was guessed"),
        (len(result.ignored), "file", "of the source skipped: not Parquet"),
    ):
        if count:
            print_note(f"note: {format_count(count, noun)} {words}")


def _show_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {"window": str(planned.window), "records": planned.records, "reason": planned.reason}
                for planned in plan.to_sample
            ]
        )
        return
    lines = [(str(planned.window), f"{planned.records:,}", planned.reason) for planned in plan.to_sample]
    print_table(("window", "records", "why"), lines, right=(1,))
    counts = (
        (plan.current, "need nothing"),
        (plan.waiting, "are still receiving data"),
        (plan.gone, "have no source files any more"),
    )
    others = "".join(f"; {count:,} {words}" for count, words in counts if count)
    print_text(f"{format_count(len(plan.to_sample), 'window')} would be sampled{others}")


def _config(context: Context, given: dict[str, Any]) -> ReservoirConfig:
    """Return the configuration with the options of the command line applied."""
    from neve.reservoir.config import ReservoirConfig

    query = given.pop("query", None)
    if query is not None:
        given["query"] = query.read()
    options = {key: value for key, value in given.items() if value not in (None, ())}
    return ReservoirConfig(**{**context.settings.reservoir.model_dump(), **options})


def _window_document(one: SampledWindow) -> dict[str, Any]:
    from dataclasses import asdict

    from neve.reservoir.windows import Window

    return {"window": str(Window(one.start_ns, one.seconds)), **asdict(one)}


def _window_row(one: SampledWindow) -> tuple[str, ...]:
    from neve.reservoir.windows import Window

    return (
        *(str(Window(one.start_ns, one.seconds)), f"{one.seconds:,}", f"{one.records:,}", f"{one.kept:,}"),
        *(_format_share(one.kept, one.records), f"{len(one.files):,}", f"{one.generation + 1:,}"),
        *(one.how, "sampled" if one.done else "interrupted run"),
    )


def _format_share(kept: int, records: int) -> str:
    return f"{100 * kept / records:.1f} %" if records else "nothing"


def _window_start(one: SampledWindow) -> int:
    return one.start_ns
