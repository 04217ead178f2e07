"""`neve demo` walks through an hour of generated telemetry."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from neve.cli.context import command_name
from neve.cli.ingest_output import show_ingest
from neve.cli.maintenance.compact_output import show_result as show_compaction
from neve.cli.maintenance.rollup import show_result as show_level
from neve.cli.otap import show_export
from neve.cli.output import (
    json_option,
    print_json,
    print_note,
    print_paragraph,
    print_text,
    progress_bar,
)
from neve.cli.sampling.reservoir import show_run
from neve.cli.sampling.reservoir_estimate import show_estimates
from neve.cli.sampling.tail import show_cycle, show_exports
from neve.cli.terminal.result_view import ResultView
from neve.cli.up import stop_on_signals
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.app.demo.alert import AlertTiming
    from neve.app.demo.autopilot import TuningResult
    from neve.app.demo.demo import Demo, DemoFolder, Facts
    from neve.autopilot.expected_gain import ExpectedGain
    from neve.autopilot.rollout.reports import CanaryTrial, StageReport


SERVICES = 8  # with estimates in the output
NEXT_QUERY = "SELECT severity_text, count(*) FROM logs GROUP BY ALL ORDER BY 2 DESC"


@click.command(short_help="Generate an hour of a shop's telemetry and explore it.")
@click.option("--dir", "folder", default="demo", show_default=True, help="Folder of the demo and its lake.")
@click.option("--fresh", is_flag=True, help="Start over: remove the files of an earlier demo from the folder.")
@click.option("--open", "is_open", is_flag=True, help="Then serve the lake and open the web page, until Ctrl+C.")
@json_option
def demo(folder: str, fresh: bool, is_open: bool, as_json: bool) -> None:
    """Generate an hour of a shop's telemetry with an incident, ingest it, find the cause, and maintain the lake.

    The steps: generate, ingest, query, map, roll up, sample, compact, and change the layout. The demo has its own lake
    and configuration in its folder and ignores yours. A second run reuses them and is quick.
    """
    from neve.app.demo.demo import Demo, clear_folder, make_telemetry

    started, run = time.monotonic(), Demo.at(Path(folder))
    if fresh:
        clear_folder(run.place)
    if as_json:
        _run_for_json(run)
        return
    _show_step(1, "Generate telemetry: OTLP files of a shop with an incident")
    facts, made = make_telemetry(run.place, time.time_ns())
    print_text(
        f"   {facts.traces:,} traces with {facts.spans:,} spans, {facts.logs:,} logs, {facts.points:,} metric points"
    )
    earlier = "" if made else " (made earlier)"
    print_text(f"   {format_count(facts.files, 'file')}, {format_bytes(facts.bytes)} in {run.place.telemetry}{earlier}")

    _show_step(2, "Create the Iceberg tables, for Spark, pyiceberg and DuckDB")
    outcomes = run.init()
    created = sum(outcome.created for outcome in outcomes)
    print_text(f"   {created} created, {len(outcomes)} in total, at {run.settings.lake.location}")

    _show_step(3, "Ingest the files with Spark, with a commit for every five minutes")
    with progress_bar(True) as bar:
        result = run.ingest(bar)
    show_ingest(result)

    _show_step(4, "Find the cause of the incident with five SQL queries on DuckDB")
    answers = []
    for number, (question, answer, seconds) in enumerate(run.answers(), 1):
        _show_answer(f"{number}. {question.words}", answer, seconds)
        answers.append(answer)
    _show_alert(run.time_alert(facts), run.place)

    _show_traces(run, facts)

    _show_step(6, "Roll up the metrics by minute, five minutes, hour and day")
    with progress_bar(True) as bar:
        levels = run.roll_up(facts, bar)
    for level in levels:
        show_level(level)
    question, rolled, seconds = run.answer_from_rollup()
    _show_answer(question.words, rolled, seconds)

    _show_step(7, "Sample whole traces by the policies of an OpenTelemetry collector")
    with progress_bar(True) as bar:
        cycle, exports = run.sample(bar)
    show_cycle(cycle)
    show_exports(exports)
    question, sample, seconds = run.answer_from_sample()
    _show_answer(question.words, sample, seconds)

    _show_step(8, "Sample 100 logs of each service and hour, and estimate totals from them")
    with progress_bar(True) as bar:
        sampled = run.reservoir(bar)
    if sampled.exported:
        show_export(sampled.exported)
    show_run(sampled.run, sampled.config)
    show_estimates(sampled.estimates, sampled.beside, SERVICES)

    _maintain_lake(run, facts, answers)
    _show_end(facts, run.place, time.monotonic() - started)
    if is_open:
        _open_page(run.place, facts)


def _maintain_lake(run: Demo, facts: Facts, answers: list[pa.Table]) -> None:
    _show_step(9, "Compact the lake: merge small files into few large ones")
    with progress_bar(True) as bar:
        tended = run.compact(bar)
    for compacted in tended.results:
        show_compaction(compacted)
    _compare_answers(answers, [answer for _question, answer, _seconds in run.answers()])
    was, now = tended.before, tended.after
    print_text(
        f"reading everything opened {format_count(was.files, 'file')} of {format_bytes(was.bytes)}, "
        f"now {now.files:,} of {format_bytes(now.bytes)}"
    )

    _show_step(10, "Adapt the layout of the logs to the queries of the last hour")
    with progress_bar(True) as bar:
        tuned = run.tune(facts, bar)
    _show_tuning(tuned, run.place)
    _compare_answers(answers, [answer for _question, answer, _seconds in run.answers()])


def _show_answer(question: str, answer: pa.Table, seconds: float) -> None:
    click.secho(f"\n{question} ({format_duration(seconds)})", bold=True)
    ResultView(40, footer=False).show(answer.to_reader())


def _show_alert(found: AlertTiming | None, place: DemoFolder) -> None:
    if found is not None:
        clock = _format_clock(found.failed_at_ms * 1_000_000)
        print_text(
            f"\nIn a replay of the hour, the alert HighErrors of {place.rules} fires {found.seconds:.0f} s "
            f"after the first failed request of {found.service} ended ({clock})"
        )


def _show_traces(run: Demo, facts: Facts) -> None:
    _show_step(5, "Find it again with three TraceQL questions and one service map")
    for number, found in enumerate(run.find_incident(facts), 1):
        print_text(f"\n   {number}. {found.words}\n      {found.query}\n      {found.answer}")


def _compare_answers(before: list[pa.Table], after: list[pa.Table]) -> None:
    equal = sum(one.equals(other) for one, other in zip(before, after, strict=True))
    print_text(f"repeated queries: {equal} of {len(before)} results are identical")


def _show_tuning(found: TuningResult | str, place: DemoFolder) -> None:
    if isinstance(found, str):
        print_text(f"nothing to change: {found}")
        return
    if found.promise and found.staged and found.trial:
        _show_attempt(found.promise, found.staged, found.trial, found.queries)
    if found.outcome is None:
        return
    when = f"{format_duration(found.seconds)} in total" if found.trial else "merged earlier"
    print_text(f"measured: frequent queries read {found.outcome.delivered_pct:.1f} % less ({when})")
    print_text(f"to roll it back: {command_name()} -c {place.config} autopilot rollback {found.attempt.id}")


def _show_attempt(promise: ExpectedGain, staged: StageReport, trial: CanaryTrial, queries: int) -> None:
    advised, told, report = promise.recommendation, promise.calibrated, trial.canary
    print_text(f"proposed for {advised.table}, from {queries} logged queries: {advised.delta}")
    print_text(f"  {advised.reasoning}")
    print_text(f"estimated: {told.pct:.1f} % less to read ({told.low_pct:.1f} % to {told.high_pct:.1f} %)")
    print_text(f"staged as {format_count(staged.files_after, 'file')} on the branch {staged.branch}")
    for reason in staged.reasons:
        print_text(f"  {reason}")
    equal = sum(one.equal for one in report.results)
    print_text(
        f"canary {'passed' if report.passed else 'failed'}: {equal} of {len(report.results)} results are identical"
    )
    for reason in report.reasons:
        print_text(f"  {reason}")


def _run_for_json(run: Demo) -> None:
    from neve.app.demo.demo import make_telemetry

    facts, _made = make_telemetry(run.place, time.time_ns())
    run.init()
    result = run.ingest(lambda *_: None)
    levels = [one.as_document() for one in run.roll_up(facts, lambda *_: None)]
    cycle, _exports = run.sample(lambda *_: None)
    sampled = run.reservoir(lambda *_: None)
    tended = run.compact(lambda *_: None)
    tuned = run.tune(facts, lambda *_: None)
    alert = run.time_alert(facts)
    answers = [{"question": question.words, "rows": answer.to_pylist()} for question, answer, _ in run.answers()]
    compacted = [one.as_document() for one in tended.results]
    done = {"ingest": result.to_json(), "rollup": levels, "tail": cycle.as_document()}
    done |= {"reservoir": sampled.run.as_document(), "estimate": sampled.beside.as_document()}
    done |= {"compact": compacted, "answers": answers}
    done |= {"autopilot": {"reason": tuned} if isinstance(tuned, str) else tuned.as_document()}
    done |= {"traces": [asdict(one) for one in run.find_incident(facts)]}
    raised = None if alert is None else {**asdict(alert), "seconds": alert.seconds}
    print_json({"telemetry": vars(facts), "alert": raised, **done})


# What the output of each step proves.
PROOFS = {
    1: "the generator knows the cause of the incident, so that every answer below can be checked",
    2: "one folder and one SQLite file are a complete lake, and no server is needed",
    3: "every record arrives exactly once, and running this step again adds nothing",
    4: "traces, metrics and logs are tables of one lake, and joins of them find the cause",
    5: "trace summaries and the service map answer in seconds, however many spans there are",
    6: "rollups have few rows, and counters are right whether a service sends totals or differences",
    7: "a few percent of the spans contain every trace of the incident, and give an estimate of all traces",
    8: "a small sample gives the exact number of logs of each service, because each kept log has an adjusted count",
    9: "queries open fewer and smaller files, and no result changes",
    10: "Neve tests a layout on a branch, and merges it only if results are identical and queries read less",
}


def _show_step(number: int, words: str) -> None:
    click.secho(f"\n== {number}. {words}", fg="cyan", bold=True)
    print_paragraph(f"Shows: {PROOFS[number]}.", indent=3, hanging=0)


def _show_end(facts: Facts, place: DemoFolder, seconds: float) -> None:
    start, end = (_format_clock(at) for at in (facts.incident_start_unix_nano, facts.incident_end_unix_nano))
    print_text(f"\nthe generator's own record: {facts.incident_service} failed from {start} to {end} UTC,")
    print_text(f"when {facts.failed_in_window} of its {facts.requests_in_window} requests failed")
    print_text(f"\ndone in {format_duration(seconds)}. Continue with the same lake, for example:")
    print_text(f"   {command_name()} -c {place.config} tables")
    print_text(f'   {command_name()} -c {place.config} query "{NEXT_QUERY}"')


def _open_page(place: DemoFolder, facts: Facts) -> None:
    """Serve the demo's lake, and open the page at the hour of its telemetry."""
    import webbrowser

    from neve.app.demo.server import prepare, run_server

    stopped = stop_on_signals()
    config = prepare(place.folder)
    with run_server(config, config.parent / "serve.log", stopped, print_note) as service:
        if service is None:
            return
        address = page_address(service.addresses["query"], facts)
        print_text(f"\nthe web page: {address}\nCtrl+C stops it")
        webbrowser.open(address)
        stopped.wait()


def page_address(server: str, facts: Facts) -> str:
    """Return the address of the logs of the demo's hour."""
    start = facts.start_unix_nano
    since, until = (datetime.fromtimestamp(at / 1e9, UTC) for at in (start, start + 3_600_000_000_000))
    return f"{server}/logs?from={since:%Y-%m-%dT%H:%M:%S}.000Z&to={until:%Y-%m-%dT%H:%M:%S}.000Z"


def _format_clock(unix_nano: int) -> str:
    return datetime.fromtimestamp(unix_nano / 1e9, UTC).strftime("%H:%M")
