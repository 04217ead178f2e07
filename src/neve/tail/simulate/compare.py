"""Two sets of policies on the same traces: what both keep, and what only one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.tail.simulate.counts import error_groups
from neve.tail.simulate.report import Comparison, Fate, Move, Volume

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.simulate.counts import Scale
    from neve.tail.simulate.judged import Judged
    from neve.tail.simulate.report import ErrorGroup, Simulation

BOTH, NEW, OLD, NEITHER = "both", "new", "old", "neither"
TOGETHER = "together"


def compare(new: tuple[Simulation, Judged], old: tuple[Simulation, Judged], scale: Scale) -> Comparison:
    """The difference between two simulations of one snapshot, over the traces that both have judged."""
    (new_told, new_judged), (old_told, old_judged) = new, old
    _join(new_judged, old_judged)
    moves = _moves(new_judged)
    fates = {fate: _sum(moves, fate) for fate in (BOTH, NEW, OLD, NEITHER)}
    compared = sum(move.traces for move in moves)
    more, fewer = (scale.volume(fates[fate].traces, fates[fate].spans) for fate in (NEW, OLD))
    return Comparison(
        new=new_told,
        old=old_told,
        compared=compared,
        left_out=new_told.before.traces + old_told.before.traces - 2 * compared,
        both=fates[BOTH],
        only_new=fates[NEW],
        only_old=fates[OLD],
        neither=fates[NEITHER],
        moves=moves,
        difference=_difference(more, fewer),
        errors_gained=_errors(new_judged, NEW),
        errors_lost=_errors(new_judged, OLD),
    )


def _join(new: Judged, old: Judged) -> None:
    """Every trace that both have judged, with both fates."""
    fate = (
        f"CASE WHEN n.kept AND o.kept THEN '{BOTH}' WHEN n.kept THEN '{NEW}' "
        f"WHEN o.kept THEN '{OLD}' ELSE '{NEITHER}' END"
    )
    new.connection.execute(
        f"CREATE TABLE {TOGETHER} AS SELECT {fate} AS kept_by, n.decision AS new_decision, n.policy AS new_policy, "
        "o.decision AS old_decision, o.policy AS old_policy, n.organization_id, n.trace_id, n.spans, n.has_error, "
        f"n.service, n.operation FROM {new.name} AS n JOIN {old.name} AS o USING (organization_id, trace_id)"
    )


def _moves(judged: Judged) -> tuple[Move, ...]:
    rows = judged.ask(
        "SELECT kept_by, new_decision, new_policy, old_decision, old_policy, count(*) AS traces, "
        f"sum(spans)::BIGINT, count(*) FILTER (has_error) FROM {TOGETHER} GROUP BY ALL "
        "ORDER BY traces DESC, kept_by, new_decision, new_policy, old_decision, old_policy"
    )
    return tuple(Move(*row) for row in rows)


def _sum(moves: Sequence[Move], fate: str) -> Fate:
    mine = [move for move in moves if move.kept_by == fate]
    return Fate(*(sum(getattr(move, name) for move in mine) for name in ("traces", "spans", "errors")))


def _errors(judged: Judged, fate: str) -> tuple[ErrorGroup, ...]:
    return error_groups(judged, f"{TOGETHER} WHERE has_error AND kept_by = '{fate}'")


def _difference(more: Volume, fewer: Volume) -> Volume:
    return Volume(
        more.traces - fewer.traces, more.spans - fewer.spans, more.bytes - fewer.bytes, more.cost - fewer.cost
    )
