"""The job of a stream of segments: lists the raw zone at intervals, and starts Spark only if there are new segments.

A Structured Streaming query would do the same with a Python process for its source and one for its planner, and wake
the JVM several times a second, whether or not there is data. Spark's own checkpoint is not needed: the positions in the
tables decide which rows are new.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from neve.errors import EnvironmentFault
from neve.ingest.spark_crashes import has_engine_ended
from neve.ingest.stream.job import GONE_HINT, Stream, StreamJob, commit_seconds
from neve.lake.storage.filesystem import resolve_filesystem
from neve.local_folders import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.ingest.results import BatchResult
    from neve.raw.segments import Segment

STARTED = "segments.json"  # in the checkpoint of a stream that has started on this lake


class SegmentStream(Stream, Protocol):
    """A source of batches of sealed segments."""

    def open(self, *, anew: bool) -> None:
        """Prepare a run. With `anew`, the tables are new to the stream: all segments of the zone are read again."""

    def find(self) -> list[Segment]:
        """Return the segments of the next batch; empty if there is nothing new."""

    def ingest(self, segments: list[Segment]) -> BatchResult | None:
        """Ingest a batch of segments."""


@dataclass
class SegmentJob(StreamJob):
    """One run of a stream of segments."""

    stream: SegmentStream

    def _run(self, until_caught_up: bool, well: Callable[[], None]) -> None:
        checkpoint = self._checkpoint()
        self.stream.open(anew=not self._has_started(checkpoint))
        self._mark_started(checkpoint)
        if until_caught_up:
            self._catch_up()
        else:
            self._follow(well)

    def _catch_up(self) -> None:
        while not self._stop.is_set():
            before = self.result.batches
            while not self._stop.is_set() and self._ingest_next() and not self.stream.caught_up():
                pass
            self._retry()
            if self.stream.caught_up() or self.result.batches == before:
                return

    def _follow(self, well: Callable[[], None]) -> None:
        is_well = False
        seconds = commit_seconds(self.config, self.lake)
        while not self._stop.is_set():
            began = time.monotonic()
            if has_engine_ended():  # the process must be restarted, though nothing needs Spark at the moment
                raise EnvironmentFault(f"the engine of the stream {self.name} has ended", hint=GONE_HINT)
            self._ingest_next()
            if not is_well:
                is_well = True
                well()
            self._retry()
            self._stop.wait(max(0.0, began + seconds - time.monotonic()))

    def _ingest_next(self) -> bool:
        """Ingest the next batch, and return whether there was one."""
        try:
            segments = self.stream.find()
            if segments and not self._start_engine():
                return False
            if segments:
                self._count(self.observe(lambda: self.stream.ingest(segments)))
        except EnvironmentFault:
            raise
        except Exception as error:
            # Any error of Spark, the storage or the catalog: the next attempt repeats the batch.
            raise self._failure(error) from error
        return bool(segments)

    def _has_started(self, checkpoint: str) -> bool:
        """Return whether the stream has run on this lake before, also as a query of Spark in an earlier release."""
        filesystem, inner = resolve_filesystem(checkpoint, self.lake.s3)
        found = filesystem.get_file_info([f"{inner}/{STARTED}", f"{inner}/metadata"])
        return any(one.is_file for one in found)

    def _mark_started(self, checkpoint: str) -> None:
        if "://" not in checkpoint:
            make_private_folder(Path(checkpoint))
        filesystem, inner = resolve_filesystem(f"{checkpoint}/{STARTED}", self.lake.s3)
        with filesystem.open_output_stream(inner) as stream:
            stream.write(b"{}\n")
