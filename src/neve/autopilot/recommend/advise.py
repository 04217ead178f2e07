"""Advice on a table's layout: the table is looked at, candidates are tried on a sample, and the best one is told."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.autopilot.estimate.simulate import bounded_by
from neve.autopilot.recommend.blooms import Spread, bloom_reduction, may_have_bloom
from neve.autopilot.recommend.candidates import candidates, wishes
from neve.autopilot.recommend.cost import rewrite_cost
from neve.autopilot.recommend.current import current_layout, table_bytes
from neve.autopilot.recommend.demand import Demand
from neve.autopilot.recommend.evaluate import Estimate, estimated, ranked
from neve.autopilot.recommend.hysteresis import held_back, unsettled
from neve.autopilot.recommend.looked import look
from neve.autopilot.recommend.payback import payback, read_per_day
from neve.autopilot.recommend.recommendation import (
    Advice,
    Recommendation,
    Rejected,
    changed_properties,
    type_of,
)
from neve.autopilot.recommend.rules import objection, too_dear, too_fine, too_little, unkept
from neve.autopilot.recommend.sentences import reasoning
from neve.autopilot.recommend.words import between, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pyiceberg.table import Table

    from neve.autopilot.estimate.interval import Interval
    from neve.autopilot.layout import Layout
    from neve.autopilot.recommend.cost import Cost
    from neve.autopilot.recommend.hysteresis import Change
    from neve.autopilot.recommend.looked import Looked
    from neve.autopilot.recommend.payback import Payback
    from neve.autopilot.recommend_config import RecommendConfig
    from neve.autopilot.workload import Query

SIMPLEST = ("file_size", "bloom", "sort", "zorder", "promote", "partition")


def advise(
    table: Table, queries: Sequence[Query], config: RecommendConfig, *, now: datetime, history: Sequence[Change] = ()
) -> Advice:
    """What should be changed about a table, from the queries that were asked of it and how it was changed before."""
    name = ".".join(table.name())
    demand, current = Demand.of(name, queries), current_layout(table)
    reason = too_little(demand.queries, table_bytes(table), config) or unsettled(history, now, config)
    if reason:
        return Advice(name, current, demand.queries, reason=reason)
    return _Advisor(name, look(table, demand, config), config, history).advice()


@dataclass(frozen=True)
class _Advisor:
    """Decides about a table that was looked at; touches nothing."""

    table: str
    looked: Looked
    config: RecommendConfig
    history: Sequence[Change]

    def advice(self) -> Advice:
        started = time.perf_counter()
        able, unable = self._candidates()
        every = ranked(self.looked.ranking, self.looked.workload, able)
        seconds = max(time.perf_counter() - started, 1e-9)
        finalists, rejected = self._finalists(every)
        chosen, others = self._chosen(finalists)
        found = [self._recommendation(chosen.layout, chosen.reduction, chosen.scan.files)] if chosen else []
        blooms = list(self._blooms(chosen.layout if chosen else self._current))
        found += [one for one in blooms if isinstance(one, Recommendation)]
        refused = [*others, *(one for one in blooms if isinstance(one, Rejected)), *rejected, *unable]
        return Advice(
            table=self.table,
            current=self._current,
            queries=self.looked.ground.demand.queries,
            read_share=self.looked.workload.read,
            recommendations=tuple(found),
            rejected=tuple(refused),
            reason="" if found else self._why_nothing(every),
            candidates=len(every),
            candidates_per_s=len(every) / seconds,
        )

    @property
    def _current(self) -> Layout:
        return self.looked.ground.current

    def _candidates(self) -> tuple[list[Layout], list[Rejected]]:
        """The layouts that are tried, and those that a rule is against whatever they save."""
        every = candidates(self.looked.ground, self.config)
        against = {layout: unkept(layout, self._current, self.config) for layout in every}
        refused = [Rejected(type_of(self._current, layout), layout, why) for layout, why in against.items() if why]
        return [layout for layout in every if not against[layout]], refused

    def _finalists(self, every: Sequence[Estimate]) -> tuple[list[Estimate], list[Rejected]]:
        """The best by the small sample, and the best of each kind; the others are not looked at again."""
        target = self._current.target_file_bytes or 0
        fine = {id(one): too_fine(one, self._current, target) for one in every}
        able = [one for one in every if not fine[id(one)]]
        of_kind = {type_of(self._current, one.layout): one for one in reversed(able)}
        best = [one for place, one in enumerate(able) if place < self.config.finalists or one in of_kind.values()]
        rejected = [
            self._rejected(
                one, fine[id(one)] or f"{percent(one.reduction.estimate)} less by a first look, others save more"
            )
            for one in every
            if one not in best
        ]
        trial, workload = self.looked.trial, self.looked.workload
        return [estimated(trial, workload, one.layout, self.config) for one in best], rejected

    def _chosen(self, finalists: Sequence[Estimate]) -> tuple[Estimate | None, list[Rejected]]:
        """The simplest of those that are as good as the best, as far as the estimate can tell."""
        against = {id(one): self._objection(one) for one in finalists}
        able = [one for one in finalists if against[id(one)] is None]
        if not able:
            return None, [self._rejected(one, against[id(one)] or "") for one in finalists]
        best = max(able, key=lambda one: one.reduction.low)
        equals = [one for one in able if one.reduction.estimate >= best.reduction.low]
        chosen = min(equals, key=lambda one: (self._simplicity(one.layout), -one.reduction.low))
        why = f"{chosen.layout} is expected to read {between(chosen.reduction)} less"
        simpler = f"{why}: no worse, as far as the estimate can tell, and it changes less"
        rejected = [
            self._rejected(one, against[id(one)] or (simpler if one in equals else why))
            for one in finalists
            if one is not chosen
        ]
        return chosen, rejected

    def _simplicity(self, layout: Layout) -> tuple[int, int]:
        columns = len(layout.partition) + len(layout.sort) + len(layout.zorder) + len(layout.promoted)
        return SIMPLEST.index(type_of(self._current, layout)), columns

    def _objection(self, estimate: Estimate) -> str | None:
        money = self._money(estimate.reduction, estimate.scan.files)
        return objection(estimate, money[1], self._current, self.history, self.config)

    def _money(self, reduction: Interval, outputs: int) -> tuple[Cost, Payback]:
        base = self.looked.baseline
        cost = rewrite_cost(base.bytes, base.files, outputs, self.config)
        read = read_per_day(self.looked.ground.demand, self.looked.workload.read * base.bytes)
        return cost, payback(cost, read, reduction.low, self.config.prices)

    def _recommendation(self, layout: Layout, reduction: Interval, outputs: int) -> Recommendation:
        cost, saved = self._money(reduction, outputs)
        found = Recommendation(
            table=self.table,
            type=type_of(self._current, layout),
            before=self._current,
            after=layout,
            reduction=reduction,
            cost=cost,
            payback=saved,
            reasoning="",
            properties=changed_properties(self._current, layout, self.looked.bounded, _named(layout)),
        )
        return replace(found, reasoning=reasoning(found, self.looked.ground.demand, self.looked.workload.read))

    def _blooms(self, layout: Layout) -> Iterator[Recommendation | Rejected]:
        """Bloom filters for columns that are asked for single values of many."""
        base, ground = self.looked.baseline, self.looked.ground
        for wish in wishes(ground, self.config):
            ranks = self.looked.trial.whole.ranked(wish.name).ranks
            spread = Spread(ranks, base.rows, base.files)
            able = wish.asked.points and not wish.promoted and may_have_bloom(wish.kind, spread)
            if not able or wish.name in layout.blooms:
                continue
            after = replace(self._current, blooms=(*self._current.blooms, wish.name))
            if wish.name in bounded_by(layout):
                yield Rejected("bloom", after, f"the layout is by {wish.name}, which finds its values better")
                continue
            reduction = bloom_reduction(wish.name, spread, self.looked.compiled.filters, self.looked.workload)
            against = self._against_bloom(after, reduction)
            if against:
                yield Rejected("bloom", after, against, reduction)
            else:
                yield self._recommendation(after, reduction, base.files)

    def _against_bloom(self, layout: Layout, reduction: Interval) -> str | None:
        if reduction.low < self.config.min_reduction:
            return f"it would read {between(reduction)} less, and {percent(self.config.min_reduction)} must be sure"
        money = self._money(reduction, self.looked.baseline.files)
        return held_back(layout, reduction, self.history, self.config) or too_dear(money[1], self.config)

    def _rejected(self, estimate: Estimate, reason: str) -> Rejected:
        return Rejected(type_of(self._current, estimate.layout), estimate.layout, reason, estimate.reduction)

    def _why_nothing(self, every: Sequence[Estimate]) -> str:
        if every:
            return f"none of {len(every)} candidates is worth a rewrite: each is listed with why"
        return (
            f"no column is in the filters of more than {percent(self.config.filtered_share)} of the queries, "
            f"or in ORDER BY of more than {percent(self.config.ordered_share)}"
        )


def _named(layout: Layout) -> frozenset[str]:
    """The columns that a layout is about, by their names in the table that has it: all of them need bounds."""
    promoted = (one.name for one in layout.promoted)
    return frozenset((*layout.sort, *layout.zorder, *promoted, *(field.column for field in layout.partition)))
