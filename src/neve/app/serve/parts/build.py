"""Builds the parts of the worker process from the settings, and the policies and pauses that they share."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from neve.app.audit import commit_or_log
from neve.app.rollup import clear_lag, refresh_lag
from neve.app.serve.parts.announcer import Announcer, AnnouncerPart, ChangedTables
from neve.app.serve.parts.executors import ExecutorsPart
from neve.app.serve.parts.rules import RulesPart
from neve.app.serve.parts.scheduler import BusGatherer, SchedulerPart, StoreGatherer
from neve.app.serve.parts.stream import StreamPart
from neve.app.serve.parts.tail import TailPart
from neve.app.serve.parts.worker import JobHandlers, WorkerPart, with_short_leases
from neve.app.serve.spark_sharing import (
    count_cores,
    listen_for_start_requests,
    with_compact_share,
    with_spare_slot,
)
from neve.app.serve.streams import Streams, sqs_bridge
from neve.app.wiring import build_bus, build_documents, build_policy_store
from neve.autopilot.history import History
from neve.autopilot.metrics import HistoryCollector
from neve.ingest.spark_crashes import engine_is_gone
from neve.jobs.batcher import PendingBatches
from neve.jobs.job import SCHEDULED_TASKS, Task, assign_tasks
from neve.jobs.pauses import Pauses
from neve.jobs.queue import JobQueue
from neve.jobs.routing import topic_for
from neve.jobs.scheduler import Scheduler
from neve.jobs.worker import Worker
from neve.lake.spark.jars import KAFKA
from neve.lake.spark.session import FAIR_SCHEDULING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from neve.app.serve.part import Part
    from neve.app.serve.parts.scheduler import Gatherer
    from neve.app.settings import Settings
    from neve.ingest.stream.job import BatchCallback, StreamJob
    from neve.jobs.job import Job
    from neve.jobs.policies import Policies, PolicyStore
    from neve.jobs.routing import Announcement
    from neve.lake.lake import Lake
    from neve.state.bus import Bus
    from neve.state.documents import Documents


FRESH_SECONDS = 5.0


@dataclass
class ActiveRules:
    """A cache of policies and pauses with a TTL of a few seconds; a changed policy applies after that time."""

    store: PolicyStore
    pauses: Pauses
    monotonic: Callable[[], float] = time.monotonic
    _loaded: tuple[Policies, datetime] | None = field(default=None, init=False)
    _until: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def policies(self) -> Policies:
        """Return the policies in force."""
        return self._fresh()[0]

    def against(self, job: Job) -> str | None:
        """Return the reason why a job may not start now, or none if it may."""
        pause = self.pauses.find(job.task, job.table)
        if pause is not None:
            return f"paused by {pause.by}: {pause.reason}"
        policies, now = self._fresh()
        return policies.quiet(job.task, job.table, now)

    def _fresh(self) -> tuple[Policies, datetime]:
        """Return the policies and the time of their lookup: quiet hours begin and end by the minute."""
        with self._lock:
            if self._loaded is None or self.monotonic() >= self._until:
                self._loaded = self.store.load(), self.store.now()
                self._until = self.monotonic() + FRESH_SECONDS
            return self._loaded


# Shares of the drain time: for a running job, and for the last batch of a stream.
PATIENCE, FINISH = 0.8, 0.5


def build_parts(settings: Settings, lake: Lake, wanted: Collection[str], instance: str) -> list[Part]:
    """Build the parts of these names, which share one Spark session and one connection to the state store."""
    builder, names = (
        _PartBuilder(with_compact_share(settings, count_cores()), _shared_lake(settings, lake), instance),
        set(wanted),
    )
    tasks = list_tasks(names)
    needs_spark = bool(tasks) or "ingest" in names
    if needs_spark:
        builder.lake.check_spark()  # now, though Spark starts when it is first needed
    listen_for_start_requests(builder.lake)
    parts: list[Part] = (
        [AnnouncerPart(builder.announcer, builder.changed_tables, builder.where)] if names - {"tail", "rules"} else []
    )
    if "ingest" in names:
        parts += builder.streams()
    if "scheduler" in names:
        parts.append(builder.scheduler())
    if tasks:
        parts += builder.workers(tasks)
    if Task.AUTOPILOT in tasks:
        REGISTRY.register(HistoryCollector(History(builder.documents)))
    if "tail" in names:
        parts.append(TailPart(settings, builder.lake))
    if "rules" in names:
        parts.append(RulesPart(settings, builder.lake, builder.changed_tables))
    if needs_spark and not builder.lake.spark_config.is_local:
        parts.append(ExecutorsPart())
    return parts


def list_tasks(names: Collection[str]) -> list[Task]:
    """Return the tasks that workers of these parts run: changes of layouts with the autopilot, simulations with any.

    >>> [task.value for task in list_tasks({"compact", "ingest"})], list_tasks({"ingest"})
    (['compact', 'simulate'], [])
    """
    tasks = [task for task in SCHEDULED_TASKS if task.value in names]
    requested = [*([Task.SIMULATE] if tasks else []), *([Task.LAYOUT] if Task.AUTOPILOT in tasks else [])]
    return [*tasks, *requested]


@dataclass(frozen=True)
class _PartBuilder:
    """The dependencies that the parts share."""

    settings: Settings
    lake: Lake
    instance: str

    @cached_property
    def documents(self) -> Documents:
        return build_documents(self.settings)

    @cached_property
    def bus(self) -> Bus | None:
        return build_bus(self.settings)

    @property
    def where(self) -> str:
        return "kafka" if self.bus else "state store"

    @cached_property
    def pending(self) -> PendingBatches:
        return PendingBatches(self.documents, batch_of=lambda task, table: self.rules.policies().batch(task, table))

    @cached_property
    def jobs(self) -> JobQueue:
        return JobQueue(self.documents)

    @cached_property
    def announcer(self) -> Announcer:
        return Announcer(self.lake, self.documents, self._publish)

    @cached_property
    def changed_tables(self) -> ChangedTables:
        return ChangedTables()

    @cached_property
    def rules(self) -> ActiveRules:
        return ActiveRules(build_policy_store(self.settings, self.documents), Pauses(self.documents))

    def streams(self) -> list[Part]:
        made = Streams(self.settings, self.lake)
        kinds: dict[str, Callable[[BatchCallback], StreamJob]] = {
            "raw": made.raw,
            "events": made.events,
            "kafka": made.kafka,
            "kafka-events": made.kafka_events,
        }
        patience = FINISH * self.settings.serve.drain_seconds
        parts = {
            name: StreamPart(
                f"ingest:{name}", kinds[name], self.documents, self.changed_tables, patience, self.instance
            )
            for name in self.settings.serve.streams
        }
        if "events" in parts:
            parts["events"] = replace(parts["events"], beside=partial(sqs_bridge, self.settings))
        return [*parts.values()]

    def scheduler(self) -> Part:
        scheduler = Scheduler(self.documents, self.jobs, self.rules.policies, self.lake.table_names)
        return SchedulerPart(
            self.documents,
            self.jobs,
            self.changed_tables,
            self.lake.table_names,
            self._gather,
            scheduler,
            self.instance,
            look=self._look,
            leave=clear_lag,
        )

    def _look(self) -> None:
        refresh_lag(self.settings, self.lake, self.documents)
        commit_or_log(self.lake, self.documents)

    def workers(self, tasks: Collection[Task]) -> list[Part]:
        handlers = JobHandlers(with_short_leases(self.settings), self.lake, self.documents)
        place = f"{socket.gethostname()}:{os.getpid()}"
        return [
            WorkerPart(
                f"worker-{number}",
                Worker(
                    self.jobs,
                    {task: handlers.of(task) for task in share},
                    owner=f"{place}:{number}",
                    allowed=self.rules.against,
                    ended=self._announce,
                    engine_is_gone=engine_is_gone,
                ),
                patience=PATIENCE * self.settings.serve.drain_seconds,
            )
            for number, share in enumerate(assign_tasks(tasks, self.settings.serve.workers), start=1)
        ]

    def _gather(self) -> Gatherer:
        if self.bus is None:
            return StoreGatherer(self.pending, self.jobs)
        return BusGatherer(self.bus, self.pending, self.jobs)

    def _publish(self, table: str, announcements: Sequence[Announcement]) -> None:
        if self.bus is None:
            self.pending.add(announcements)
        else:
            self.bus.publish(
                topic_for(announcements[0].operation, table), [(one.table, one.value) for one in announcements]
            )

    def _announce(self, job: Job) -> None:
        self.changed_tables.note([job.table] if job.table else self.lake.table_names())


def _shared_lake(settings: Settings, lake: Lake) -> Lake:
    """Return the lake with a Spark session for several kinds of work at once; settings of the user take precedence."""
    spark = with_spare_slot(lake.spark_config, count_cores())
    spark = spark.model_copy(update={"conf": {**FAIR_SCHEDULING, **spark.conf}})
    with_kafka = any(name.startswith("kafka") for name in settings.serve.streams)
    return replace(lake, spark_config=spark, further_jars=KAFKA if with_kafka else ())
