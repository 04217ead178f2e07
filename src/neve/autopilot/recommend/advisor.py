"""Advisor: inspect a table, evaluate candidate layouts on a sample, and recommend the best one."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from neve.autopilot.estimate.columns import find_column_types
from neve.autopilot.estimate.file_pruning import Baseline, measure_baseline
from neve.autopilot.estimate.sample import Sample, SampleSize, take_sample
from neve.autopilot.estimate.simulator import Simulator, find_layout_columns
from neve.autopilot.estimate.table_files import TableExtent, read_table_files
from neve.autopilot.recommend.candidates import CandidateInputs, Demand, find_candidate_columns, generate_candidates
from neve.autopilot.recommend.evaluation import (
    CandidateEstimate,
    EvaluationSample,
    FilterWorkload,
    Projection,
    ValueSpread,
    estimate_bloom_reduction,
    estimate_candidate,
    is_bloom_candidate,
    rank_candidates,
    sum_column_bytes,
)
from neve.autopilot.recommend.recommendation import (
    Advice,
    Recommendation,
    RejectedLayout,
    build_properties,
    classify_change,
    estimate_daily_bytes,
    estimate_payback,
    estimate_rewrite_cost,
    format_interval,
)
from neve.autopilot.recommend.rules import (
    find_objection,
    reject_dropped_fields,
    reject_fine_partition,
    reject_flapping,
    reject_slow_payback,
    reject_small_gain,
    reject_small_table,
    reject_unsettled,
)
from neve.autopilot.table_layout import current_layout, table_bytes, target_bytes
from neve.predicate.compiled_filters import compile_filters
from neve.text import format_bytes, format_dollars, format_duration, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pyiceberg.table import Table

    from neve.autopilot.config import RecommendConfig
    from neve.autopilot.estimate.confidence_interval import Interval
    from neve.autopilot.estimate.table_files import TableFiles
    from neve.autopilot.layout import Layout
    from neve.autopilot.recommend.candidates import ColumnDemand
    from neve.autopilot.recommend.recommendation import Cost, Payback
    from neve.autopilot.recommend.rules import LayoutChange
    from neve.autopilot.workload.queries import Query
    from neve.predicate.compiled_filters import CompiledFilters


@dataclass(frozen=True)
class TableInspection:
    """Inputs of the decision about a table, after the table was read."""

    inputs: CandidateInputs
    workload: FilterWorkload
    baseline: Baseline
    compiled: CompiledFilters
    trial: EvaluationSample
    ranking: Simulator  # on a small subset of the sample
    bounded: frozenset[str]


def inspect_table(table: Table, demand: Demand, config: RecommendConfig) -> TableInspection:
    """Read the manifests and a sample of the rows; nothing is written."""
    current = current_layout(table)
    names = sorted({*demand.count_filters(), *demand.count_orders(), *find_layout_columns(current)})
    types = find_column_types(table.schema(), names)
    compiled = compile_filters([use.filter for use in demand.uses], types)
    files = read_table_files(table, names)
    baseline = measure_baseline(table, compiled, files)
    extent = TableExtent.of(table, files, compiled, target_bytes(table))
    size = SampleSize(config.sample_rows, config.sample_files, config.seed, extent.files)
    sample = take_sample(table, files, list(types), size, compiled.columns)
    simulator = Simulator(sample, compiled, extent)
    return TableInspection(
        inputs=CandidateInputs(
            current=current,
            demand=demand,
            types=types,
            distinct={name: len(simulator.rank(name).values) for name in types},
            files=extent.files,
        ),
        workload=_build_workload(table, demand, compiled, baseline, files, sample),
        baseline=baseline,
        compiled=compiled,
        trial=EvaluationSample.of(simulator, config.seed),
        ranking=simulator.thin(config.ranking_rows, config.seed),
        bounded=frozenset(extent.lengths),
    )


def _build_workload(
    table: Table, demand: Demand, compiled: CompiledFilters, baseline: Baseline, files: TableFiles, sample: Sample
) -> FilterWorkload:
    counts = Counter(use.filter for use in demand.uses)
    columns = {one: set[str]() for one in compiled.filters}
    for use in demand.uses:
        columns[use.filter].update(use.columns)
    sizes = sum_column_bytes(table.schema(), files.column_bytes)
    projection = Projection([frozenset(columns[one]) for one in compiled.filters], sizes, sample.key_shares)
    demanded = np.array([counts[one] for one in compiled.filters], dtype=np.float64)
    return FilterWorkload(demanded, baseline.shares, projection)


EXPLANATIONS = {
    "partition": "queries skip partitions that their filters exclude",
    "sort": "sorted files have narrow value ranges, and queries skip files outside of their filters",
    "zorder": "queries filter the columns independently, and a z-order gives files narrow value ranges in each of them",
    "promote": "queries of one key no longer read the whole map, and the new column has bounds",
    "bloom": "queries skip row groups without the requested value",
    "file_size": "smaller files have narrower value ranges",
}


def format_reasoning(found: Recommendation, demand: Demand, read: float) -> str:
    """Return sentences on the demand, the change, its gain and its cost, without any value of a query."""
    filtered = demand.count_filters()
    about = [name for name in filtered if name in {*find_layout_columns(found.after), *found.after.blooms}]
    demanded = [_format_demand(name, filtered[name], demand.queries) for name in about]
    return ". ".join(
        [
            f"Of {demand.queries:,} queries, {'; '.join(demanded)}"
            if demanded
            else f"{demand.queries:,} queries were logged",
            f"Change: {found.delta}; {EXPLANATIONS[found.type]}",
            f"A query reads {format_share(read)} of the table today, "
            f"and should read {format_interval(found.reduction)} less",
            f"The rewrite of {format_bytes(found.cost.bytes)} takes {format_duration(found.cost.seconds)} on one core "
            f"and {format_dollars(found.cost.dollars)}; "
            f"it saves at least {format_bytes(found.payback.bytes_per_day)} of reads a day, "
            f"and is paid back in {found.payback.days:,.3g} days",
        ]
    )


def _format_demand(name: str, demanded: ColumnDemand, queries: int) -> str:
    kinds = (("single values", demanded.points), ("ranges", demanded.ranges), ("prefixes", demanded.prefixes))
    how = " and ".join(word for word, count in kinds if count) or "nulls"
    return f"{format_share(demanded.queries / queries)} filter {name} by {how}"


SIMPLEST_FIRST = ("file_size", "bloom", "sort", "zorder", "promote", "partition")


def advise(
    table: Table,
    queries: Sequence[Query],
    config: RecommendConfig,
    *,
    now: datetime,
    history: Sequence[LayoutChange] = (),
) -> Advice:
    """Return advice on a table's layout, from the logged queries and the history of its layouts."""
    name = ".".join(table.name())
    demand, current = Demand.of(name, queries), current_layout(table)
    reason = reject_small_table(demand.queries, table_bytes(table), config) or reject_unsettled(history, now, config)
    if reason:
        return Advice(name, current, demand.queries, reason=reason)
    return _Advisor(name, inspect_table(table, demand, config), config, history).advice()


@dataclass(frozen=True)
class _Advisor:
    """Decision about a table that was inspected; it changes nothing."""

    table: str
    inspection: TableInspection
    config: RecommendConfig
    history: Sequence[LayoutChange]

    def advice(self) -> Advice:
        started = time.perf_counter()
        able, unable = self._candidates()
        every = rank_candidates(self.inspection.ranking, self.inspection.workload, able)
        seconds = max(time.perf_counter() - started, 1e-9)
        finalists, rejected = self._finalists(every)
        chosen, others = self._choose(finalists)
        found = [self._recommendation(chosen.layout, chosen.reduction, chosen.scan.files)] if chosen else []
        blooms = list(self._blooms(chosen.layout if chosen else self._current))
        found += [one for one in blooms if isinstance(one, Recommendation)]
        refused = [*others, *(one for one in blooms if isinstance(one, RejectedLayout)), *rejected, *unable]
        return Advice(
            table=self.table,
            current=self._current,
            queries=self.inspection.inputs.demand.queries,
            read_share=self.inspection.workload.read,
            recommendations=tuple(found),
            rejected=tuple(refused),
            reason="" if found else self._explain_no_change(every),
            candidates=len(every),
            candidates_per_s=len(every) / seconds,
        )

    @property
    def _current(self) -> Layout:
        return self.inspection.inputs.current

    def _candidates(self) -> tuple[list[Layout], list[RejectedLayout]]:
        """Return the layouts to evaluate, and those that a rule rejects whatever they save."""
        every = generate_candidates(self.inspection.inputs, self.config)
        objections = {layout: reject_dropped_fields(layout, self._current, self.config) for layout in every}
        refused = [
            RejectedLayout(classify_change(self._current, layout), layout, why)
            for layout, why in objections.items()
            if why
        ]
        return [layout for layout in every if not objections[layout]], refused

    def _finalists(self, every: Sequence[CandidateEstimate]) -> tuple[list[CandidateEstimate], list[RejectedLayout]]:
        """Return the best candidates on the small sample, and the best of each kind; the others are rejected."""
        target = self._current.target_file_bytes or 0
        fine = {id(one): reject_fine_partition(one, self._current, target) for one in every}
        able = [one for one in every if not fine[id(one)]]
        of_kind = {classify_change(self._current, one.layout): one for one in reversed(able)}
        best = [one for place, one in enumerate(able) if place < self.config.finalists or one in of_kind.values()]
        rejected = [
            self._reject(
                one,
                fine[id(one)]
                or f"{format_share(one.reduction.estimate)} less on the ranking sample; other candidates save more",
            )
            for one in every
            if one not in best
        ]
        trial, workload = self.inspection.trial, self.inspection.workload
        return [estimate_candidate(trial, workload, one.layout, self.config) for one in best], rejected

    def _choose(self, finalists: Sequence[CandidateEstimate]) -> tuple[CandidateEstimate | None, list[RejectedLayout]]:
        """Return the simplest of the candidates that are as good as the best, within the precision of the estimate."""
        objections = {id(one): self._objection(one) for one in finalists}
        able = [one for one in finalists if objections[id(one)] is None]
        if not able:
            return None, [self._reject(one, objections[id(one)] or "") for one in finalists]
        best = max(able, key=lambda one: one.reduction.low)
        equals = [one for one in able if one.reduction.estimate >= best.reduction.low]
        chosen = min(equals, key=lambda one: (self._simplicity(one.layout), -one.reduction.low))
        why = f"{chosen.layout} is expected to read {format_interval(chosen.reduction)} less"
        simpler = f"{why}: equal within the precision of the estimate, with a smaller change"
        rejected = [
            self._reject(one, objections[id(one)] or (simpler if one in equals else why))
            for one in finalists
            if one is not chosen
        ]
        return chosen, rejected

    def _simplicity(self, layout: Layout) -> tuple[int, int]:
        columns = len(layout.partition) + len(layout.sort) + len(layout.zorder) + len(layout.promoted)
        return SIMPLEST_FIRST.index(classify_change(self._current, layout)), columns

    def _objection(self, estimate: CandidateEstimate) -> str | None:
        money = self._cost(estimate.reduction, estimate.scan.files)
        return find_objection(estimate, money[1], self._current, self.history, self.config)

    def _cost(self, reduction: Interval, outputs: int) -> tuple[Cost, Payback]:
        base = self.inspection.baseline
        cost = estimate_rewrite_cost(base.bytes, base.files, outputs, self.config)
        read = estimate_daily_bytes(self.inspection.inputs.demand, self.inspection.workload.read * base.bytes)
        return cost, estimate_payback(cost, read, reduction.low, self.config.prices)

    def _recommendation(self, layout: Layout, reduction: Interval, outputs: int) -> Recommendation:
        cost, saved = self._cost(reduction, outputs)
        found = Recommendation(
            table=self.table,
            type=classify_change(self._current, layout),
            before=self._current,
            after=layout,
            reduction=reduction,
            cost=cost,
            payback=saved,
            reasoning="",
            properties=build_properties(self._current, layout, self.inspection.bounded, _list_layout_columns(layout)),
        )
        return replace(
            found, reasoning=format_reasoning(found, self.inspection.inputs.demand, self.inspection.workload.read)
        )

    def _blooms(self, layout: Layout) -> Iterator[Recommendation | RejectedLayout]:
        """Yield bloom filters for columns of many distinct values that queries compare with single values."""
        base, inputs = self.inspection.baseline, self.inspection.inputs
        for candidate in find_candidate_columns(inputs, self.config):
            ranks = self.inspection.trial.whole.rank(candidate.name).ranks
            spread = ValueSpread(ranks, base.rows, base.files)
            able = candidate.demand.points and not candidate.promoted and is_bloom_candidate(candidate.kind, spread)
            if not able or candidate.name in layout.blooms:
                continue
            after = replace(self._current, blooms=(*self._current.blooms, candidate.name))
            if candidate.name in find_layout_columns(layout):
                yield RejectedLayout("bloom", after, f"the layout already uses {candidate.name}, which prunes better")
                continue
            reduction = estimate_bloom_reduction(
                candidate.name, spread, self.inspection.compiled.filters, self.inspection.workload
            )
            objections = self._bloom_objection(after, reduction)
            if objections:
                yield RejectedLayout("bloom", after, objections, reduction)
            else:
                yield self._recommendation(after, reduction, base.files)

    def _bloom_objection(self, layout: Layout, reduction: Interval) -> str | None:
        _cost, payback = self._cost(reduction, self.inspection.baseline.files)
        return (
            reject_small_gain(reduction, self.config)
            or reject_flapping(layout, reduction, self.history, self.config)
            or reject_slow_payback(payback, self.config)
        )

    def _reject(self, estimate: CandidateEstimate, reason: str) -> RejectedLayout:
        return RejectedLayout(
            classify_change(self._current, estimate.layout), estimate.layout, reason, estimate.reduction
        )

    def _explain_no_change(self, every: Sequence[CandidateEstimate]) -> str:
        if every:
            return f"none of {len(every)} candidates justifies a rewrite, the list has the reasons"
        return (
            f"no column is filtered by more than {format_share(self.config.filtered_share)} of the queries, "
            f"or in the ORDER BY of more than {format_share(self.config.ordered_share)}"
        )


def _list_layout_columns(layout: Layout) -> frozenset[str]:
    """Return the columns of a layout by their names in the new table: all of them need bounds."""
    promoted = (one.name for one in layout.promoted)
    return frozenset((*layout.sort, *layout.zorder, *promoted, *(field.column for field in layout.partition)))
