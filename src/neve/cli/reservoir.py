"""`neve reservoir`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from neve.cli.moment import Moment
from neve.cli.output import emit, json_option, many, note, progress, say, size, table
from neve.cli.reservoir_estimate import estimate
from neve.cli.reservoir_lake import lake
from neve.cli.since import Since

if TYPE_CHECKING:
    from neve.cli.context import Context
    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.result import RunResult
    from neve.reservoir.star.ledger import Sampled
    from neve.reservoir.star.plan import Plan

SHOWN = 20
LONGEST = 86_400 * 31  # seconds of a window


@click.group()
def reservoir() -> None:
    """Weighted samples of OTAP Parquet: k records of each group and window, each with the count that it stands for.

    \b
    Examples:
      neve reservoir run otap/ sampled/ --k 100
      neve reservoir estimate sampled/ --truth otap/
      neve reservoir inspect sampled/
    """


reservoir.add_command(estimate)
reservoir.add_command(lake)


@reservoir.command()
@click.argument("source", required=False)
@click.argument("target", required=False)
@click.option("--signal", type=click.Choice(("logs", "spans")), help="What is sampled.  [default: as configured, logs]")
@click.option("--k", type=click.IntRange(min=1), help="Records kept of each group and window; without it all pass.")
@click.option("--by", multiple=True, metavar="NAME", help="Group by this; may be repeated.  [default: service.name]")
@click.option("--query", type=click.File(), help="A file with SQL that decides instead; - reads it from here.")
@click.option("--method", type=click.Choice(("priority", "exact_total")), help="How to sample.  [default: priority]")
@click.option(
    "--window", "window_seconds", type=click.IntRange(1, LONGEST), metavar="SECONDS", help="Length of a window."
)
@click.option("--ids", type=click.Choice(("keep", "renumber")), help="Ids as they came, or anew.  [default: keep]")
@click.option("--since", type=Since(), metavar="TIME", help="Only windows since then: 7d, 12h, or a time (UTC).")
@click.option("--until", type=Moment(), metavar="TIME", help="Only windows that begin before this time (UTC).")
@click.option("--again", is_flag=True, help="Sample windows again that need it not: after another k or query.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and why.")
@click.option("--steal", is_flag=True, help="Take the lease of a run that is known to be dead.")
@json_option
@click.pass_obj
def run(context: Context, /, as_json: bool, dry_run: bool, steal: bool, **given: Any) -> None:
    """Sample the OTAP Parquet in SOURCE to the same tables in TARGET, window by window.

    Windows whose files did not change since they were sampled are left alone; late files bring their windows again. A
    run that was killed left nothing behind that counts: run it again.
    """
    from neve.app.reservoir import build_sampler
    from neve.reservoir.star.job import Span

    span = Span(given.pop("since"), given.pop("until"), given.pop("again"))
    config = _config(context, given)
    with progress(enabled=not as_json) as bar:
        sampler = build_sampler(context.settings, context.lake, config, bar, steal=steal)
        if dry_run:
            plan = sampler.plan(span)
        else:
            result = sampler.run(span)
    if dry_run:
        _show_plan(plan, as_json=as_json)
    elif as_json:
        emit(result.as_document())
    else:
        show_run(result, config)


@reservoir.command()
@click.argument("target", required=False)
@click.option("--signal", type=click.Choice(("logs", "spans")), help="Of which signal.  [default: as configured, logs]")
@click.option("--limit", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="Windows to show.")
@click.option("--query", "show_query", is_flag=True, help="Print the query that decides, to begin one's own with.")
@json_option
@click.pass_obj
def inspect(
    context: Context, target: str | None, signal: str | None, limit: int, show_query: bool, as_json: bool
) -> None:
    """The windows in TARGET: how many records each has, how many were kept, and from how many files."""
    from neve.reservoir.star.ledger import Ledger

    config = _config(context, {"target": target, "signal": signal})
    if show_query:
        from neve.reservoir.star.decide import default_query

        say(config.query or default_query(config))
        return
    if not config.target:
        raise click.UsageError("name the folder of the sample, or set reservoir.target")
    windows = sorted(Ledger.of(config.target, config.signal, context.lake.s3).sampled().values(), key=_start)
    if as_json:
        emit([_document(one) for one in windows])
        return
    if not windows:
        say(f"no window of {config.signal} was sampled into {config.target} yet")
        return
    headers = ("window", "seconds", "records", "kept", "share", "from files", "times", "how", "state")
    table(headers, [_line(one) for one in windows[-limit:]], right=(1, 2, 3, 4, 5, 6))
    records, kept = sum(one.records for one in windows), sum(one.kept for one in windows)
    say(f"{many(len(windows), 'window')}, {kept:,} of {records:,} records kept ({_share(kept, records)})")
    if len(windows) > limit:
        say(f"the last {limit:,} are shown; --limit shows more")


def show_run(result: RunResult, config: ReservoirConfig) -> None:
    """What a run did."""
    for window in result.windows[-SHOWN:]:
        say(
            f"{window.window}: {window.kept:,} of {window.records:,} {result.signal} kept in {window.files:,} files "
            f"of {size(window.bytes)}, {window.seconds:.1f} s ({window.reason})"
        )
    if len(result.windows) > SHOWN:
        say(f"and {len(result.windows) - SHOWN:,} windows before these; --json lists them")
    if result.windows:
        share = _share(result.kept, result.records)
        say(
            f"{many(len(result.windows), 'window')} sampled ({config.how}): {result.kept:,} of {result.records:,} "
            f"records kept ({share}), {result.seconds:.1f} s"
        )
    if result.current:
        say(f"{many(result.current, 'window')} needed nothing: the same files as when sampled")
    if not result.windows and not result.current:
        say("there is no window to sample")
    _show_remarks(result)


def _show_remarks(result: RunResult) -> None:
    repaired = sum(window.convention == "exporter" for window in result.windows)
    for count, noun, words in (
        (repaired, "window", "with ids as otel-arrow's exporter has them: repaired, written to the specification"),
        (result.waiting, "window", "waiting to settle"),
        (result.gone, "window", "whose files are all gone: what was kept of them stays"),
        (result.other_policy, "window", "sampled in another way before, and left so; --again samples anew"),
        (sum(window.counted_as_one for window in result.windows), "record", "counted as 1: its weight can't be"),
        (sum(window.guessed for window in result.windows), "record", "without an id, whose resource is a guess"),
        (len(result.ignored), "file", "of the source left alone: no Parquet"),
    ):
        if count:
            note(f"note: {many(count, noun)} {words}")


def _show_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        emit([{"window": str(turn.window), "records": turn.records, "reason": turn.reason} for turn in plan.turns])
        return
    lines = [(str(turn.window), f"{turn.records:,}", turn.reason) for turn in plan.turns]
    table(("window", "records", "why"), lines, right=(1,))
    told = ((plan.current, "need nothing"), (plan.waiting, "wait to settle"), (plan.gone, "have no files any more"))
    others = "".join(f"; {count:,} {words}" for count, words in told if count)
    say(f"{many(len(plan.turns), 'window')} would be sampled{others}")


def _config(context: Context, given: dict[str, Any]) -> ReservoirConfig:
    """The configuration, with what the command line says in place of it."""
    from neve.reservoir.config import ReservoirConfig

    query = given.pop("query", None)
    if query is not None:
        given["query"] = query.read()
    said = {key: value for key, value in given.items() if value not in (None, ())}
    return ReservoirConfig(**{**context.settings.reservoir.model_dump(), **said})


def _document(one: Sampled) -> dict[str, Any]:
    from dataclasses import asdict

    from neve.reservoir.window import Window

    return {"window": str(Window(one.start_ns, one.seconds)), **asdict(one)}


def _line(one: Sampled) -> tuple[str, ...]:
    from neve.reservoir.window import Window

    return (
        *(str(Window(one.start_ns, one.seconds)), f"{one.seconds:,}", f"{one.records:,}", f"{one.kept:,}"),
        *(_share(one.kept, one.records), f"{len(one.files):,}", f"{one.generation + 1:,}"),
        *(one.how, "sampled" if one.done else "a run died in it"),
    )


def _share(kept: int, records: int) -> str:
    return f"{100 * kept / records:.1f} %" if records else "nothing"


def _start(one: Sampled) -> int:
    return one.start_ns
