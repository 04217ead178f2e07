"""How maintenance is told to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.cli.output import note, say, size, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.maintain.entry import Entry
    from neve.maintain.result import StepResult

SHOWN = 20  # of each action


def show(results: Iterable[StepResult]) -> None:
    """Each step in a line, and under it what it did or kept, and why."""
    for result in results:
        words = f"{result.table}: {result.step}: "
        if result.failed:
            note(f"error: {words}{result.error}" + (f"\nhint: {result.hint}" if result.hint else ""))
            continue
        would = " (dry run)" if result.dry_run else ""
        say(f"{words}{result.outcome.reason}{_gain(result)}, {result.seconds:.1f} s{would}")
        for line in _lines(result.outcome.entries):
            say(f"  {line}")


def show_runs(runs: list[dict[str, Any]]) -> None:
    """The history as a table."""
    if not runs:
        say("nothing is remembered; `neve maintain all` does every step")
        return
    rows = [
        (
            *(run["started_at"][:19].replace("T", " "), run["table"], run["step"], f"{run['seconds']:.1f}"),
            *(size(run["gain"]["bytes"]), size(run["cost"]["bytes_written"])),
            f"error: {run['error']}" if run["error"] else run["reason"],
        )
        for run in runs
    ]
    headers = ("started", "table", "step", "seconds", "freed", "written", "what")
    table(headers, rows, right=(3, 4, 5))


def _gain(result: StepResult) -> str:
    freed = result.outcome.gain.bytes
    return f", about {size(freed)}" if freed else ""


def _lines(entries: Iterable[Entry]) -> list[str]:
    by_action: dict[str, list[Entry]] = {}
    for entry in entries:
        by_action.setdefault(entry.action, []).append(entry)
    lines = []
    for action, found in by_action.items():
        lines += [_line(entry) for entry in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"{action:<8} … and {len(found) - SHOWN:,} more; --json lists all")
    return lines


def _line(entry: Entry) -> str:
    of = f" ({size(entry.bytes)})" if entry.bytes else ""
    return f"{entry.action:<8} {entry.what}{of}: {entry.reason}"
