"""What `neve tail simulate --compare` says to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.cli.output import note, say, size, table
from neve.cli.tail_simulated import cost, percent, show_groups, show_period, word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.simulate.report import Comparison, Move, Simulation, Volume

MOVES = 8  # that a person is shown


def show_comparison(told: Comparison) -> None:
    """What two sets of policies would have kept of the same traces."""
    new, old = told.new, told.old
    show_period(new)
    headers = ("", "kept traces", "share", "kept spans", "bytes", "cost", "errors missed", "mean error by service")
    lines = [(name, *_summed(one)) for name, one in (("new", new), ("old", old))]
    lines.append(("difference", *_signed(told.difference), f"{new.errors.missed - old.errors.missed:+,}", ""))
    table(headers, lines, right=range(1, len(headers)))
    _show_fates(told)
    _show_moves("kept by the new policies only", [move for move in told.moves if move.kept_by == "new"])
    _show_moves("kept by the old policies only", [move for move in told.moves if move.kept_by == "old"])
    show_groups("errors that only the old policies keep", told.errors_lost)
    show_groups("errors that only the new policies keep", told.errors_gained)
    if told.left_out:
        note(f"note: {told.left_out:,} traces are complete for one of them only, and are not compared")
    for remark in dict.fromkeys((*new.remarks, *old.remarks)):
        note(f"note: {remark}")


def _show_fates(told: Comparison) -> None:
    say()
    fates = (("both", told.both), ("only new", told.only_new), ("only old", told.only_old), ("neither", told.neither))
    table(
        ("kept by", "traces", "with an error", "spans"),
        [(name, f"{fate.traces:,}", f"{fate.errors:,}", f"{fate.spans:,}") for name, fate in fates],
        right=(1, 2, 3),
    )


def _show_moves(title: str, moves: Sequence[Move]) -> None:
    if not moves:
        return
    say()
    say(title)
    table(
        ("  new", "old", "traces", "with an error", "spans"),
        [
            (
                f"  {_fate(move.new_decision, move.new_policy)}",
                _fate(move.old_decision, move.old_policy),
                *(f"{count:,}" for count in (move.traces, move.errors, move.spans)),
            )
            for move in moves[:MOVES]
        ],
        right=(2, 3, 4),
    )
    if len(moves) > MOVES:
        say(f"  and {len(moves) - MOVES:,} more kinds; --json lists them")


def _summed(told: Simulation) -> tuple[str, ...]:
    kept, mean = told.kept, told.estimates.mean_error
    return (
        *(f"{kept.traces:,}", percent(kept.spans, told.before.spans), f"{kept.spans:,}", size(kept.bytes)),
        *(cost(told, kept), f"{told.errors.missed:,}", "" if mean is None else f"{mean:.1%}"),
    )


def _signed(change: Volume) -> tuple[str, ...]:
    less = "-" if change.bytes < 0 else "+"
    return (
        *(f"{change.traces:+,}", "", f"{change.spans:+,}", f"{less}{size(abs(change.bytes))}"),
        f"{change.cost:+,.2f}" if change.cost else "",
    )


def _fate(decision: str, policy: str | None) -> str:
    return f"{word(decision)} by {policy}" if policy else word(decision)
