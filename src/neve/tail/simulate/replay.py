"""The past, judged: spans are summed up and traces decided as a cycle would, into a table that nobody else sees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from neve.tail.claims import NoClaims
from neve.tail.decisions import Made
from neve.tail.engine import engine_for, summing
from neve.tail.gather import KNOWN, LATE, MERGED, Gathering
from neve.tail.judging import Judging, horizon
from neve.tail.news import News, chunks_of
from neve.tail.ready import MICROS, Readiness
from neve.tail.simulate.judged import Judged

if TYPE_CHECKING:
    from datetime import datetime

    import duckdb

    from neve.tail.config import TailConfig
    from neve.tail.job import Progress
    from neve.tail.simulate.period import Period
    from neve.tail.source import Source


@dataclass(frozen=True)
class Past:
    """What there is to look at, the same for all policies that are compared."""

    period: Period
    snapshot_id: int | None
    now: datetime

    @property
    def now_us(self) -> int:
        """The time at which traces are complete or not, in microseconds."""
        return round(self.now.timestamp() * MICROS)


@dataclass(frozen=True)
class Replay:
    """What some policies made of the past, and what was read for it."""

    judged: Judged
    news: News
    engine: str
    open: int  # traces of the period that are not complete
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Replayer:
    """Judges the past in one DuckDB; each set of policies has a table of its own there."""

    connection: duckdb.DuckDBPyConnection
    config: TailConfig
    past: Past
    progress: Progress

    def replay(self, source: Source, name: str) -> Replay:
        """Judge by the policies that a source is read for."""
        readiness = Readiness.of(self.config, source.summary.policies)
        wider = self.past.period.widened(max(readiness.longest_us, round(self.config.max_duration_seconds * MICROS)))
        files = wider.files(source, source.now(self.past.snapshot_id))
        news = News(files, None, self.past.snapshot_id, whole="a simulation")
        engine = engine_for(self.config, news)
        self._gather(source, news, engine, name)
        remarks = (*source.summary.policies.remarks, *self._without_trace(source, news))
        self.connection.execute(f"DELETE FROM {MERGED} WHERE NOT ({wider.holds('start_ns')})")
        judging = self._judging(source, readiness)
        judged = self._judge(judging, name)
        waiting = self._count(f"WHERE NOT ({judging.is_ready}) AND {self.past.period.holds('start_ns')}")
        for table in (MERGED, LATE, KNOWN):
            self.connection.execute(f"DROP TABLE {table}")
        return Replay(judged, news, engine, waiting, remarks)

    def _gather(self, source: Source, news: News, engine: str, name: str) -> None:
        gathering = Gathering(self.connection, source.summary)
        gathering.begin()
        chunks = chunks_of(news.files, self.config.chunk_rows)
        tell = partial(self.progress, f"{name}: spans")
        summing(engine, source.lake, gathering, source.reader, chunks, tell)
        gathering.merge(whole=True)

    def _judging(self, source: Source, readiness: Readiness) -> Judging:
        policies, now_us = source.summary.policies, self.past.now_us
        return Judging(
            connection=self.connection,
            summary=source.summary,
            readiness=readiness,
            policies=policies,
            window_seconds=self.config.window_seconds,
            claims=NoClaims(self.config.name),
            made=Made(self.config.name, source.name, self.past.snapshot_id, None, policies.fingerprint, 0, now_us),
            since_us=0,
            until_us=horizon(policies, self.config.window_seconds, now_us, 0),
        )

    def _judge(self, judging: Judging, name: str) -> Judged:
        judged = Judged(self.connection, f"judged_{name}")
        judged.begin()
        total = self._count(f"WHERE {judging.is_ready}")
        for done in judged.fill(judging.decided(), self.past.period):
            self.progress(f"{name}: traces", done, total)
        return judged

    def _without_trace(self, source: Source, news: News) -> tuple[str, ...]:
        """What no policy can be asked about; it can't be told from rows that were deleted, or are of others."""
        if source.reader.organization or any(file.deletes for file in news.files):
            return ()
        found = self.connection.execute(f"SELECT coalesce(sum(span_count), 0)::BIGINT FROM {MERGED}").fetchone()
        lacking = news.rows - (found[0] if found else 0)
        return (f"{lacking:,} spans have no trace id: no policy can keep them",) if lacking else ()

    def _count(self, where: str) -> int:
        found = self.connection.execute(f"SELECT count(*) FROM {MERGED} {where}").fetchone()
        return int(found[0]) if found else 0
