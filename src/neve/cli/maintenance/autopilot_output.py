"""Text output of `neve autopilot`: workloads, recommendations, attempts, runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.cli.output import print_note, print_table, print_text
from neve.text import format_bytes, format_count, format_dollars, format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.autopilot.analyzer import Analysis
    from neve.autopilot.attempt import Attempt
    from neve.autopilot.expected_gain import ExpectedGain, ExpectedGains
    from neve.autopilot.nightly_run import RunReport, TableReport
    from neve.autopilot.outcome import Outcome
    from neve.autopilot.patterns import TablePatterns
    from neve.autopilot.rollout.reports import CanaryTrial, DiscardReport, MergeReport, RollbackReport, StageReport

MAX_PATTERNS = 12
MAX_HOT_QUERIES = 10
MAX_REJECTED = 10


def show_analysis(found: Analysis, names: Sequence[str], *, allow_literals: bool) -> None:
    """Print a workload."""
    print_text(f"{format_count(found.counted, 'query')} since {found.since:%Y-%m-%d %H:%M} UTC")
    for source in found.sources:
        left = sum(source.left_out.values())
        print_text(
            f"  {source.name}: {format_count(source.records, 'record')}, {source.queries:,} used, {left:,} left out, "
            f"{source.unparsed:,} not understood, {sum(source.unreadable.values()):,} unreadable"
        )
    for name in names:
        if name in found.tables:
            _show_patterns(found.tables[name])
    hot = [one.as_document(allow_literals=allow_literals) for one in found.hot]
    lines = [one for one in hot if set(one["tables"]) & set(names)][:MAX_HOT_QUERIES]
    if lines:
        print_text("\nhot queries")
        rows = [(f"{one['share_of_bytes']:.0%}", f"{one['queries']:,}", one["engine"], one["text"]) for one in lines]
        print_table(("of its engine", "queries", "engine", "text"), rows, right=(0, 1))
    for kind in found.unparsed:
        document = kind.as_document(allow_literals=allow_literals)
        print_note(f"{format_count(kind.queries, 'query')} not understood, {kind.reason}: {document['text']}")


def _show_patterns(found: TablePatterns) -> None:
    print_text(f"\n{found.table}: {format_count(found.queries, 'query')}")
    lines = [
        (one.column, one.kind, one.function, f"{one.share_of_queries:.0%}", f"{one.weight:.0%}")
        for one in found.patterns[:MAX_PATTERNS]
    ]
    print_table(("column", "kind", "function", "of queries", "of bytes"), lines, right=(3, 4))


def show_promises(found: ExpectedGains, *, show_all: bool) -> None:
    """Print recommendations for a table."""
    advice = found.advice
    print_text(f"{advice.table}: {format_count(advice.queries, 'query')}, {advice.current}")
    for one in found.gains:
        _show_promise(one)
    if advice.reason:
        print_text(f"  nothing to change: {advice.reason}")
    rejected = advice.rejected if show_all else advice.rejected[:MAX_REJECTED]
    if rejected:
        print_text("  rejected:")
        lines = [
            (f"  {one.layout}", f"{100 * one.reduction.estimate:.0f} %" if one.reduction else "", one.reason)
            for one in rejected
        ]
        print_table(("  layout", "less", "why not"), lines, right=(1,))
    if len(rejected) < len(advice.rejected):
        print_text(f"  and {len(advice.rejected) - len(rejected)} more; --all shows them")


def _show_promise(one: ExpectedGain) -> None:
    found, told = one.recommendation, one.calibrated
    print_text(f"  {found.type}: {found.delta}")
    print_text(f"    reads {told.pct:.1f} % less, from {told.low_pct:.1f} % to {told.high_pct:.1f} %")
    days = found.payback.as_document()["days"]
    pays = "it never pays back" if days is None else f"it pays back in {days:,.1f} days"
    print_text(
        f"    rewrites {format_bytes(found.cost.bytes)} in {format_duration(found.cost.seconds)} of one core for "
        f"{format_dollars(found.cost.dollars)}; {pays}"
    )
    print_text(f"    {found.reasoning}")
    if one.lesson:
        print_text(f"    {one.lesson}")


def show_staged(attempt: Attempt, report: StageReport) -> None:
    """Print a layout on its branch."""
    print_text(
        f"{attempt.table}: {format_count(report.files_before, 'file')} of {format_bytes(report.bytes_before)} became "
        f"{report.files_after:,} of {format_bytes(report.bytes_after)} on {report.branch}, "
        f"in {format_duration(report.seconds)}"
    )
    _show_reasons(report.reasons)
    print_text(f"next: neve autopilot canary {attempt.id}")


def show_trial(attempt: Attempt, trial: CanaryTrial) -> None:
    """Print the result of a canary."""
    report = trial.canary
    lines = [
        (
            one.name,
            "same" if one.equal else one.difference,
            format_bytes(one.planned_main),
            format_bytes(one.planned_branch),
            f"{one.seconds_main:.2f}",
            f"{one.seconds_branch:.2f}",
        )
        for one in report.results
    ]
    headers = ("query", "answers", "planned on main", "on the branch", "seconds", "on the branch")
    print_table(headers, lines, right=(2, 3, 4, 5))
    for one in report.skipped:
        print_note(f"  {one.name} was not compared: {one.reason}")
    print_text(f"the canary {'passed' if report.passed else 'failed'}")
    _show_reasons(report.reasons)
    if trial.discarded is not None:
        print_text(
            f"  {trial.discarded.branch} was rolled back, {format_count(trial.discarded.files_removed, 'file')} removed"
        )
    else:
        print_text(f"next: neve autopilot propose {attempt.id}")


def show_merge(attempt: Attempt, report: MergeReport) -> None:
    """Print a layout that was merged to main."""
    print_text(f"{attempt.table} is {attempt.after} ({report.how}, {format_duration(report.seconds)})")
    _show_reasons(report.reasons)
    print_text(f"  to roll it back: neve autopilot rollback {attempt.id}")


def show_outcome(outcome: Outcome | None) -> None:
    """Print the measured gain of a merge."""
    if outcome is None:
        print_text("nothing to measure: the frequent queries read nothing before")
        return
    kept = "as promised" if outcome.is_delivered else "less than promised"
    print_text(
        f"the frequent queries read {outcome.delivered_pct:.1f} % less, {kept}: {outcome.promised_pct:.1f} %, at least "
        f"{outcome.promised_low_pct:.1f} %"
    )


def show_rollback(attempt: Attempt, report: RollbackReport | DiscardReport | None) -> None:
    """Print a rollback."""
    print_text(f"{attempt.table} is {attempt.before} as before; {attempt.id} is rolled back")
    reasons = getattr(report, "reasons", ()) or getattr(report, "left", ())
    _show_reasons(reasons)
    if any(step.stage == "merged" for step in attempt.steps):
        print_note("  the repository of specs still has the new layout: revert its merge there")


def show_history(attempts: Sequence[Attempt], outcomes: Mapping[str, Outcome]) -> None:
    """Print all attempts."""
    if not attempts:
        print_text("no attempts yet: `neve autopilot run --once` starts one")
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
    print_table(("attempt", "table", "kind", "stage", "promised %", "delivered %", "layout"), lines, right=(4, 5))


def show_attempt(attempt: Attempt) -> None:
    """Print one attempt."""
    print_text(f"{attempt.id} of {attempt.table}: {attempt.after} instead of {attempt.before}")
    print_table(
        ("at", "stage", "why"), [(f"{one.at:%Y-%m-%d %H:%M:%S}", one.stage, one.reason) for one in attempt.steps]
    )


def show_table(report: TableReport) -> None:
    """Print the result for one table of a run."""
    print_text(f"{report.table}{f' ({report.attempt_id})' if report.attempt_id else ''}")
    for one in report.did:
        print_text(f"  {one}")
    if report.reason:
        (print_note if report.failed else print_text)(f"  {'failed: ' if report.failed else ''}{report.reason}")


def show_run(result: RunReport) -> None:
    """Print a run."""
    print_text(
        f"{format_count(len(result.tables), 'table')} examined, "
        f"{format_count(result.queries, 'query')} "
        f"({result.unparsed:,} not parsed), {format_duration(result.seconds)}"
    )
    if result.left:
        print_note(f"no time left for {', '.join(result.left)}: the next run continues there")


def _show_reasons(reasons: Sequence[str]) -> None:
    for one in reasons:
        print_text(f"  {one}")
