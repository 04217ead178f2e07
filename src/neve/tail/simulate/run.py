"""The simulation: what policies would have kept of the past, and two sets of policies side by side."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.lake.calendar import now_utc
from neve.tail.decisions import DROPPED, NOT_SAMPLED, SAMPLED
from neve.tail.scratch import scratch
from neve.tail.simulate.compare import compare
from neve.tail.simulate.counts import Scale, errors, policy_volumes, volumes
from neve.tail.simulate.estimates import estimates
from neve.tail.simulate.period import Period
from neve.tail.simulate.replay import Past, Replay, Replayer
from neve.tail.simulate.report import Simulation
from neve.tail.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig
    from neve.tail.job import Progress
    from neve.tail.policy.tree import PolicySet
    from neve.tail.simulate.report import Comparison, Volume

EVER = Period()


@dataclass(frozen=True)
class Simulator:
    """Asks policies about the traces of some time; nothing is written to the lake.

    A trace is judged by all spans that it has by now, in the windows in which traces became ready. That a selector
    would have decided before the last of them came, and revised its decision then, is not told apart.
    """

    lake: Lake  # where the spans are
    config: TailConfig
    period: Period = EVER
    price: float | None = None  # for a million spans; `None`: the configured one
    clock: Callable[[], datetime] = now_utc
    progress: Progress = field(default=lambda _step, _done, _total: None)

    def simulate(self, policies: PolicySet) -> Simulation:
        """What policies would have decided."""
        source = self._source(policies)
        with self._replayer(source) as replayer:
            told, _replay = self._told(replayer, source, "new")
        return told

    def compare(self, new: PolicySet, old: PolicySet) -> Comparison:
        """What two sets of policies would have decided about the same traces."""
        source, other = self._source(new), self._source(old)
        with self._replayer(source) as replayer:
            told, replay = self._told(replayer, source, "new")
            other_told, other_replay = self._told(replayer, other, "old")
            return compare((told, replay.judged), (other_told, other_replay.judged), self._scale(replay))

    def _source(self, policies: PolicySet) -> Source:
        return Source.of(self.lake, self.config, policies)

    @contextmanager
    def _replayer(self, source: Source) -> Iterator[Replayer]:
        config = self.config
        past = Past(self.period, source.now().metadata.current_snapshot_id, self.clock())
        with scratch(
            self.lake.s3, on_s3=source.on_s3, memory_mb=config.memory_mb, threads=config.threads
        ) as connection:
            yield Replayer(connection, config, past, self.progress)

    def _told(self, replayer: Replayer, source: Source, name: str) -> tuple[Simulation, Replay]:
        began, policies = time.monotonic(), source.summary.policies
        replay = replayer.replay(source, name)
        judged, past, scale = replay.judged, replayer.past, self._scale(replay)
        found = volumes(judged, scale)
        told = Simulation(
            source=source.name,
            snapshot_id=past.snapshot_id,
            since=_iso(past.period.since),
            until=_iso(past.period.until),
            judged_at=past.now.isoformat(),
            policies_hash=policies.fingerprint,
            semantics=policies.semantics.value,
            price=scale.price_per_million,
            files=len(replay.news.files),
            engine=replay.engine,
            before=_all(found, scale),
            kept=found[SAMPLED],
            not_sampled=found[NOT_SAMPLED],
            dropped=found[DROPPED],
            open=replay.open,
            policies=policy_volumes(judged, policies),
            errors=errors(judged),
            estimates=estimates(judged),
            seconds=time.monotonic() - began,
            remarks=replay.remarks,
        )
        return told, replay

    def _scale(self, replay: Replay) -> Scale:
        news = replay.news
        price = self.config.price_per_million_spans if self.price is None else self.price
        return Scale(news.bytes / news.rows if news.rows else 0.0, price)


def _all(found: dict[str, Volume], scale: Scale) -> Volume:
    return scale.volume(sum(one.traces for one in found.values()), sum(one.spans for one in found.values()))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
