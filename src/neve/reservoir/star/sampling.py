"""The sampling of one window: from its decisions to its files, in a staging folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from neve.errors import ConfigError, InputError
from neve.lake.lane import parallelism
from neve.otap.ids import EXPORTER, SPECIFICATION
from neve.otap.read import PartFiles
from neve.reservoir.result import WindowResult
from neve.reservoir.star.decide import UNFIT, decided
from neve.reservoir.star.decisions import Decisions
from neve.reservoir.star.ledger import Sampled
from neve.reservoir.star.numbering import Numbering
from neve.reservoir.star.rebuild import Piece, Rebuild
from neve.reservoir.star.tasks import run_told
from neve.reservoir.star.views import open_views, session_for, spark_path
from neve.reservoir.star.weights import WEIGHTS, counted_as_one, refusal, weights_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake
    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.star.plan import Turn
    from neve.reservoir.star.rebuild import Rebuilt
    from neve.reservoir.star.views import Parts


@dataclass(frozen=True)
class Outcome:
    """What came of a window, before anybody sees it."""

    sampled: Sampled
    result: WindowResult


@dataclass(frozen=True)
class Sampling:
    """Samples one window; `staging` is where its files go first."""

    lake: Lake
    config: ReservoirConfig
    turn: Turn
    parts: Parts
    staging: str

    def run(self, progress: Callable[[str, int, int], None]) -> Outcome:
        """Decide once, and rebuild all tables by what was decided."""
        decisions, ones = ("", 0) if self.config.passes else self._decided()
        rebuilt = self._rebuilt(decisions, partial(progress, f"records of {self.turn.window}"))
        kept = sum(one.kept for one in rebuilt)
        self._check_kept(decisions, kept)
        sampled = Sampled(
            start_ns=self.turn.window.start_ns,
            seconds=self.turn.window.seconds,
            policy=self.config.policy,
            how=self.config.how,
            by=self.config.told_by,
            files=tuple(file.identity for file in self.turn.files),
            outputs=tuple(path for one in rebuilt for _table, path in one.files),
            generation=self.turn.generation,
            records=self.turn.records,
            kept=kept,
        )
        return Outcome(sampled, self._result(rebuilt, ones))

    def _decided(self) -> tuple[str, int]:
        """Where the decisions were written, and how many records count as 1 against what they say."""
        config, session = self.config, session_for(self.lake.spark)
        open_views(session, config.signal, self.turn, self.parts, self.lake.s3)
        weights_view(session, config).createOrReplaceTempView(WEIGHTS)
        path = f"{self.staging}/decided"
        with decided(session, config, self.turn.window, self.parts) as rows:
            try:
                rows.coalesce(parallelism(self.lake.spark)).write.mode("overwrite").parquet(spark_path(path))
            except Exception as error:
                raise refusal(error) or _failed(error, config) from error
        return path, counted_as_one(session, config)

    def _rebuilt(self, decisions: str, progress: Callable[[int, int], None]) -> list[Rebuilt]:
        config, turn = self.config, self.turn
        work = Rebuild(
            signal=config.signal,
            window=turn.window,
            generation=turn.generation,
            staging=self.staging,
            decisions=decisions,
            method="priority" if config.query else config.method,
            numbering=Numbering(config.ids, config.adjusted_count),
            weights=config.weights,
            invalid_weights=config.invalid_weights,
            rows_per_file=config.rows_per_file,
            s3=self.lake.s3,
        )
        pieces = [
            Piece(file, ordinal, PartFiles(self.parts.files[file.part], self.parts.offsets[file.part]))
            for ordinal, file in enumerate(turn.files)
        ]
        return run_told(self.lake.spark, work, pieces, progress)

    def _check_kept(self, decisions: str, kept: int) -> None:
        """Every decision is about one record of the window, and about another one than the others."""
        expected = Decisions(decisions, self.lake.s3).count() if decisions else self.turn.records
        if kept == expected:
            return
        counts = f"{expected:,} decisions about {kept:,} records of {self.turn.window}"
        if self.config.query:
            raise ConfigError(
                f"reservoir.query gives {counts}: it names a record twice, or one that is not in the window",
                hint="a record is told by _part_id and id; nothing of the window was published",
            )
        raise InputError(f"{counts}: files changed meanwhile", hint="run it again; nothing of the window was published")

    def _result(self, rebuilt: list[Rebuilt], ones: int) -> WindowResult:
        window = self.turn.window
        repaired = any(offsets is not None for offsets in self.parts.offsets.values())
        return WindowResult(
            window=str(window),
            start=window.start.isoformat(),
            end=window.end.isoformat(),
            reason=self.turn.reason,
            records=sum(one.records for one in rebuilt),
            kept=sum(one.kept for one in rebuilt),
            files=sum(len(one.files) for one in rebuilt),
            bytes=sum(one.bytes for one in rebuilt),
            convention=EXPORTER if repaired else SPECIFICATION,
            counted_as_one=ones + sum(one.counted_as_one for one in rebuilt),
            guessed=sum(one.guessed for one in rebuilt),
        )


def _failed(error: Exception, config: ReservoirConfig) -> Exception:
    """What Spark says of a user's own query, as an error of the configuration."""
    if not config.query or type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
        return error
    text = str(error)
    said = text[text.index(UNFIT) :] if UNFIT in text else text
    words = (said.splitlines() or [""])[0].split(" SQLSTATE")[0].removeprefix("neve: ")
    return ConfigError(f"reservoir.query failed: {words}", hint="nothing of the window was published")
