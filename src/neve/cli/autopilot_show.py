"""What `neve autopilot` says to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.cli.output import note, say, size, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.autopilot.analyzer import Analysis
    from neve.autopilot.journal import Attempt
    from neve.autopilot.merge.result import MergeReport, RollbackReport
    from neve.autopilot.outcome import Outcome
    from neve.autopilot.patterns import TablePatterns
    from neve.autopilot.promise import Promise, Promises
    from neve.autopilot.report import RunReport, TableReport
    from neve.autopilot.rollout import Trial
    from neve.autopilot.stage.result import DiscardReport, StageReport

PATTERNS = 12
HOT = 10
REJECTED = 10


def show_analysis(found: Analysis, names: Sequence[str], *, allow_literals: bool) -> None:
    """A workload."""
    say(f"{_many(found.counted, 'query', 'queries')} since {found.since:%Y-%m-%d %H:%M} UTC")
    for source in found.sources:
        left = sum(source.left_out.values())
        say(
            f"  {source.name}: {source.records:,} records, {source.queries:,} of use, {left:,} left out, "
            f"{source.unparsed:,} not understood, {sum(source.unreadable.values()):,} unreadable"
        )
    for name in names:
        if name in found.tables:
            _show_patterns(found.tables[name])
    hot = [one.as_document(allow_literals=allow_literals) for one in found.hot]
    lines = [one for one in hot if set(one["tables"]) & set(names)][:HOT]
    if lines:
        say("\nhot queries")
        rows = [(f"{one['share_of_bytes']:.0%}", f"{one['queries']:,}", one["engine"], one["text"]) for one in lines]
        table(("of its engine", "queries", "engine", "text"), rows, right=(0, 1))
    for kind in found.unparsed:
        document = kind.as_document(allow_literals=allow_literals)
        note(f"{_many(kind.queries, 'query', 'queries')} not understood, {kind.reason}: {document['text']}")


def _show_patterns(found: TablePatterns) -> None:
    say(f"\n{found.table}: {_many(found.queries, 'query', 'queries')}")
    lines = [
        (one.column, one.kind, one.function, f"{one.share_of_queries:.0%}", f"{one.weight:.0%}")
        for one in found.patterns[:PATTERNS]
    ]
    table(("column", "kind", "function", "of queries", "of bytes"), lines, right=(3, 4))


def show_promises(found: Promises, *, show_all: bool) -> None:
    """Advice on a table."""
    advice = found.advice
    say(f"{advice.table}: {_many(advice.queries, 'query', 'queries')}, {advice.current}")
    for one in found.kept:
        _show_promise(one)
    if advice.reason:
        say(f"  nothing to change: {advice.reason}")
    rejected = advice.rejected if show_all else advice.rejected[:REJECTED]
    if rejected:
        say("  rejected:")
        lines = [
            (f"  {one.layout}", f"{100 * one.reduction.estimate:.0f} %" if one.reduction else "", one.reason)
            for one in rejected
        ]
        table(("  layout", "less", "why not"), lines, right=(1,))
    if len(rejected) < len(advice.rejected):
        say(f"  and {len(advice.rejected) - len(rejected)} more; --all shows them")


def _show_promise(one: Promise) -> None:
    found, told = one.recommendation, one.told
    say(f"  {found.type}: {found.delta}")
    say(f"    reads {told.pct:.1f} % less, from {told.low_pct:.1f} % to {told.high_pct:.1f} %")
    days = found.payback.as_document()["days"]
    pays = "it never pays back" if days is None else f"it pays back in {days:,.1f} days"
    say(
        f"    rewrites {size(found.cost.bytes)} in {found.cost.seconds:,.0f} s of one core for "
        f"${found.cost.dollars:,.4f}; {pays}"
    )
    say(f"    {found.reasoning}")
    if one.lesson:
        say(f"    {one.lesson}")


def show_staged(attempt: Attempt, report: StageReport) -> None:
    """A layout on its branch."""
    say(
        f"{attempt.table}: {report.files_before:,} files of {size(report.bytes_before)} became {report.files_after:,} "
        f"of {size(report.bytes_after)} on {report.branch}, in {report.seconds:.1f} s"
    )
    _show_reasons(report.reasons)
    say(f"next: neve autopilot canary {attempt.id}")


def show_trial(attempt: Attempt, trial: Trial) -> None:
    """What a canary found."""
    report = trial.canary
    lines = [
        (
            one.name,
            "same" if one.equal else one.difference,
            size(one.planned_main),
            size(one.planned_branch),
            f"{one.seconds_main:.2f}",
            f"{one.seconds_branch:.2f}",
        )
        for one in report.results
    ]
    headers = ("query", "answers", "planned on main", "on the branch", "seconds", "on the branch")
    table(headers, lines, right=(2, 3, 4, 5))
    for one in report.skipped:
        note(f"  {one.name} was not compared: {one.reason}")
    say(f"the canary {'passed' if report.passed else 'failed'}")
    _show_reasons(report.reasons)
    if trial.discarded is not None:
        say(f"  {trial.discarded.branch} was taken back, {_many(trial.discarded.files_removed, 'file')} removed")
    else:
        say(f"next: neve autopilot propose {attempt.id}")


def show_merge(attempt: Attempt, report: MergeReport) -> None:
    """A layout on main."""
    say(f"{attempt.table} is {attempt.after} ({report.how}, {report.seconds:.1f} s)")
    _show_reasons(report.reasons)
    say(f"  to take it back: neve autopilot rollback {attempt.id}")


def show_outcome(outcome: Outcome | None) -> None:
    """What a merge delivered."""
    if outcome is None:
        say("nothing to measure: the hot queries read nothing before")
        return
    kept = "as promised" if outcome.kept else "less than promised"
    say(
        f"the hot queries read {outcome.delivered_pct:.1f} % less, {kept}: {outcome.promised_pct:.1f} %, at least "
        f"{outcome.promised_low_pct:.1f} %"
    )


def show_rollback(attempt: Attempt, report: RollbackReport | DiscardReport | None) -> None:
    """What was taken back."""
    say(f"{attempt.table} is {attempt.before} as before; {attempt.id} is rolled back")
    reasons = getattr(report, "reasons", ()) or getattr(report, "left", ())
    _show_reasons(reasons)
    if any(step.stage == "merged" for step in attempt.steps):
        note("  the repository of specs still has the new layout: revert its merge there")


def show_history(attempts: Sequence[Attempt], outcomes: Mapping[str, Outcome]) -> None:
    """All attempts."""
    if not attempts:
        say("nothing was tried yet: `neve autopilot run --once`")
        return
    lines = [
        (
            one.id,
            one.table,
            one.kind,
            one.stage,
            f"{outcomes[one.id].promised_pct:.1f}" if one.id in outcomes else "",
            f"{outcomes[one.id].delivered_pct:.1f}" if one.id in outcomes else "",
            str(one.after),
        )
        for one in attempts
    ]
    table(("attempt", "table", "kind", "stage", "promised %", "delivered %", "layout"), lines, right=(4, 5))


def show_attempt(attempt: Attempt) -> None:
    """One attempt."""
    say(f"{attempt.id} of {attempt.table}: {attempt.after} instead of {attempt.before}")
    table(("at", "stage", "why"), [(f"{one.at:%Y-%m-%d %H:%M:%S}", one.stage, one.reason) for one in attempt.steps])


def show_table(report: TableReport) -> None:
    """One table's turn in a run."""
    say(f"{report.table}{f' ({report.attempt_id})' if report.attempt_id else ''}")
    for one in report.did:
        say(f"  {one}")
    if report.reason:
        (note if report.failed else say)(f"  {'failed: ' if report.failed else ''}{report.reason}")


def show_run(result: RunReport) -> None:
    """A run."""
    say(
        f"{_many(len(result.tables), 'table')} looked at by {_many(result.queries, 'query', 'queries')} "
        f"({result.unparsed:,} not understood), {result.seconds:.1f} s"
    )
    if result.left:
        note(f"no time was left for {', '.join(result.left)}: the next run begins with what is open")


def _show_reasons(reasons: Sequence[str]) -> None:
    for one in reasons:
        say(f"  {one}")


def _many(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
