"""`neve demo`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from neve.cli.command import command_name
from neve.cli.compact import show_result as show_compaction
from neve.cli.ingest import show as show_ingest
from neve.cli.otap import show_export
from neve.cli.output import emit, json_option, progress, say, size
from neve.cli.query import show as show_answer
from neve.cli.reservoir import show_run
from neve.cli.reservoir_estimate import show_estimates
from neve.cli.rollup import show_result as show_level
from neve.cli.tail import show_cycle, show_exports

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.app.demo import Demo, Facts, Place
    from neve.app.demo_autopilot import Tuned
    from neve.autopilot.promise import Promise
    from neve.autopilot.rollout import Trial
    from neve.autopilot.stage.result import StageReport

SERVICES = 8  # whose estimates are shown
NEXT_QUERY = "SELECT severity_text, count(*) FROM logs GROUP BY ALL ORDER BY 2 DESC"


@click.command()
@click.option("--dir", "folder", default="demo", show_default=True, help="Folder of the demo and of its own lake.")
@click.option("--fresh", is_flag=True, help="Begin anew: remove what an earlier demo left in the folder.")
@json_option
def demo(folder: str, fresh: bool, as_json: bool) -> None:
    """An hour of a shop's telemetry: made, taken in, asked what went wrong, rolled up, sampled, compacted, laid out.

    The demo has a lake and a configuration of its own in its folder, and takes no notice of yours; a second run finds
    them and is quick.
    """
    from neve.app.demo import Demo, clear, make_telemetry

    started = time.monotonic()
    run = Demo.at(Path(folder))
    if fresh:
        clear(run.place)
    if as_json:
        _for_programs(run)
        return
    _step(1, "make telemetry: a shop of a dozen services, with one incident, as OTLP files of a collector")
    facts, made = make_telemetry(run.place, time.time_ns())
    say(f"   {facts.traces:,} traces with {facts.spans:,} spans, {facts.logs:,} logs, {facts.points:,} metric points")
    say(f"   {facts.files} files, {size(facts.bytes)} in {run.place.telemetry}{'' if made else ' (made earlier)'}")

    _step(2, "make the tables: Iceberg, in a catalog that Spark, pyiceberg and DuckDB share")
    outcomes = run.init()
    created = sum(outcome.created for outcome in outcomes)
    say(f"   {created} created, {len(outcomes)} in all, at {run.settings.lake.location}")

    _step(3, "take the files in as they came, five minutes at a time: Spark decodes and writes, each table commits")
    with progress(True) as bar:
        result = run.ingest(bar)
    show_ingest(result)

    _step(4, "ask five questions in SQL, on DuckDB, over the same tables")
    answers = []
    for number, (question, answer, seconds) in enumerate(run.answers(), 1):
        _answer(f"{number}. {question.words}", answer, seconds)
        answers.append(answer)

    _step(5, "roll the metrics up: by minute, five minutes, hour and day; what is still open waits")
    with progress(True) as bar:
        levels = run.roll_up(bar)
    for level in levels:
        show_level(level)
    asked, rolled, seconds = run.answer_from_rollup()
    _answer(asked.words, rolled, seconds)

    _step(6, "keep whole traces: errors, slow payments and one in a hundred, by a collector's own policy file")
    with progress(True) as bar:
        cycle, exports = run.sample(bar)
    show_cycle(cycle)
    show_exports(exports)
    asked, told, seconds = run.answer_from_sample()
    _answer(asked.words, told, seconds)

    _step(7, "keep a few logs of each service and hour as OTAP Parquet, and tell from them how many there were")
    with progress(True) as bar:
        sampled = run.reservoir(bar)
    if sampled.exported:
        show_export(sampled.exported)
    show_run(sampled.run, sampled.config)
    show_estimates(sampled.told, sampled.beside, SERVICES)

    _tend(run, facts, answers)
    _end(facts, run.place, time.monotonic() - started)


def _tend(run: Demo, facts: Facts, answers: list[pa.Table]) -> None:
    _step(8, "tend the lake: small files become few, every row is counted and hashed before and after")
    with progress(True) as bar:
        tended = run.compact(bar)
    for compacted in tended.results:
        show_compaction(compacted)
    _same(answers, [answer for _question, answer, _seconds in run.answers()])
    was, now = tended.before, tended.after
    say(f"reading everything opened {was.files:,} files of {size(was.bytes)}, now {now.files:,} of {size(now.bytes)}")

    _step(9, "let the layout follow the questions: logs are asked by the minute, so another order is tried and merged")
    with progress(True) as bar:
        tuned = run.tune(facts, bar)
    _tuned(tuned, run.place)
    _same(answers, [answer for _question, answer, _seconds in run.answers()])


def _answer(question: str, answer: pa.Table, seconds: float) -> None:
    click.secho(f"\n{question} ({seconds:.2f} s)", bold=True)
    show_answer(answer.to_reader(), 40, footer=False)


def _same(before: list[pa.Table], after: list[pa.Table]) -> None:
    equal = sum(one.equals(other) for one, other in zip(before, after, strict=True))
    say(f"asked again: {equal} of {len(before)} answers are the same to the last digit")


def _tuned(found: Tuned | str, place: Place) -> None:
    if isinstance(found, str):
        say(f"nothing to change: {found}")
        return
    if found.promise and found.staged and found.trial:
        _shown(found.promise, found.staged, found.trial, found.queries)
    if found.outcome is None:
        return
    when = f"{found.seconds:.1f} s in all" if found.trial else "merged earlier"
    say(f"delivered: the hot queries read {found.outcome.delivered_pct:.1f} % less ({when})")
    say(f"to take it back: {command_name()} -c {place.config} autopilot rollback {found.attempt.id}")


def _shown(promise: Promise, staged: StageReport, trial: Trial, queries: int) -> None:
    advised, told, report = promise.recommendation, promise.told, trial.canary
    say(f"proposed for {advised.table}, from {queries} logged queries: {advised.delta}")
    say(f"  {advised.reasoning}")
    say(f"promised: {told.pct:.1f} % less to read, from {told.low_pct:.1f} % to {told.high_pct:.1f} %")
    say(f"staged as {staged.files_after} files on the branch {staged.branch}")
    for reason in staged.reasons:
        say(f"  {reason}")
    equal = sum(one.equal for one in report.results)
    say(f"canary {'passed' if report.passed else 'failed'}: {equal} of {len(report.results)} answers are the same")
    for reason in report.reasons:
        say(f"  {reason}")


def _for_programs(run: Demo) -> None:
    from neve.app.demo import make_telemetry

    facts, _made = make_telemetry(run.place, time.time_ns())
    run.init()
    result = run.ingest(lambda *_: None)
    levels = [one.as_document() for one in run.roll_up(lambda *_: None)]
    cycle, _exports = run.sample(lambda *_: None)
    sampled = run.reservoir(lambda *_: None)
    tended = run.compact(lambda *_: None)
    tuned = run.tune(facts, lambda *_: None)
    answers = [{"question": question.words, "rows": answer.to_pylist()} for question, answer, _ in run.answers()]
    compacted = [one.as_document() for one in tended.results]
    done = {"ingest": result.to_json(), "rollup": levels, "tail": cycle.as_document()}
    done |= {"reservoir": sampled.run.as_document(), "estimate": sampled.beside.as_document()}
    done |= {"compact": compacted, "answers": answers}
    done |= {"autopilot": {"reason": tuned} if isinstance(tuned, str) else tuned.as_document()}
    emit({"telemetry": vars(facts), **done})


def _step(number: int, words: str) -> None:
    click.secho(f"\n== {number}. {words}", fg="cyan", bold=True)


def _end(facts: Facts, place: Place, seconds: float) -> None:
    start, end = (_clock(at) for at in (facts.incident_start_unix_nano, facts.incident_end_unix_nano))
    say(f"\nthe generator's own record: {facts.incident_service} was ill from {start} to {end} UTC,")
    say(f"when {facts.failed_in_window} of its {facts.requests_in_window} requests failed")
    say(f"\ndone in {seconds:.0f} s. Go on with the same lake, for example:")
    say(f"   {command_name()} -c {place.config} tables")
    say(f'   {command_name()} -c {place.config} query "{NEXT_QUERY}"')


def _clock(unix_nano: int) -> str:
    return datetime.fromtimestamp(unix_nano / 1e9, UTC).strftime("%H:%M")
