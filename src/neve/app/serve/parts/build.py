"""Which parts the process that tends the lake has: settings and names in, parts out."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from neve.app.policies import build_policy_store
from neve.app.rollup import forget_lag, refresh_lag
from neve.app.serve.announcer import Announcer
from neve.app.serve.handlers import Handlers
from neve.app.serve.leases import with_short_leases
from neve.app.serve.parts.announcing import AnnouncePart, Noted
from neve.app.serve.parts.dispatch import DispatchPart
from neve.app.serve.parts.stream import StreamPart
from neve.app.serve.parts.tailing import TailPart
from neve.app.serve.parts.working import WorkPart
from neve.app.serve.rules import Rules
from neve.app.serve.shares import cores, with_a_spare_place, with_shares
from neve.app.streams import Streams, sqs_bridge
from neve.app.wiring import build_bus, build_documents
from neve.autopilot.journal import History
from neve.autopilot.metrics import HistoryCollector
from neve.ingest.stream.jvm import engine_is_gone
from neve.lake.jars import KAFKA
from neve.lake.pools import FAIR
from neve.work.boxer import Boxer
from neve.work.jobs import Jobs
from neve.work.pauses import Pauses
from neve.work.scheduler import Scheduler
from neve.work.task import Task, shared_out
from neve.work.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from neve.app.serve.part import Part
    from neve.app.settings import Settings
    from neve.ingest.stream.job import StreamJob, Tell
    from neve.lake.bus import Bus, Reader
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.work.job import Job

# Of the time in which parts may end, a job has so much, and a stream's last look so much.
PATIENCE, FINISH = 0.8, 0.5


def build_parts(settings: Settings, lake: Lake, wanted: Collection[str], instance: str) -> list[Part]:
    """The parts of these names, which share one Spark session and one connection to the state store."""
    house, names = _House(with_shares(settings, cores()), _for_all(settings, lake), instance), set(wanted)
    tasks = [task for task in Task if task.value in names]
    if tasks or "ingest" in names:
        _ = house.lake.spark  # before there are threads that would each start one
    parts: list[Part] = [AnnouncePart(house.announcer, house.noted)] if names - {"tail"} else []
    if "ingest" in names:
        parts += house.streams()
    if "scheduler" in names:
        parts.append(house.scheduler())
    if tasks:
        parts += house.workers(tasks)
    if Task.AUTOPILOT in tasks:
        REGISTRY.register(HistoryCollector(History(house.documents)))
    if "tail" in names:
        parts.append(TailPart(settings, house.lake))
    return parts


@dataclass(frozen=True)
class _House:
    """What the parts have in common."""

    settings: Settings
    lake: Lake
    instance: str

    @cached_property
    def documents(self) -> Documents:
        return build_documents(self.settings)

    @cached_property
    def bus(self) -> Bus:
        return build_bus(self.settings)

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.documents)

    @cached_property
    def announcer(self) -> Announcer:
        return Announcer(self.lake, self.documents, self.bus)

    @cached_property
    def noted(self) -> Noted:
        return Noted()

    @cached_property
    def rules(self) -> Rules:
        return Rules(build_policy_store(self.settings, self.documents), Pauses(self.documents))

    def streams(self) -> list[Part]:
        made = Streams(self.settings, self.lake)
        kinds: dict[str, Callable[[Tell], StreamJob]] = {
            "raw": made.raw,
            "events": made.events,
            "kafka": made.kafka,
            "kafka-events": made.kafka_events,
        }
        patience = FINISH * self.settings.serve.drain_seconds
        parts = {
            name: StreamPart(f"ingest:{name}", kinds[name], self.documents, self.noted, patience, self.instance)
            for name in self.settings.serve.streams
        }
        if "events" in parts:
            parts["events"] = replace(parts["events"], beside=partial(sqs_bridge, self.settings))
        return [*parts.values()]

    def scheduler(self) -> Part:
        scheduler = Scheduler(self.documents, self.jobs, self.rules.policies, self.lake.table_names)
        return DispatchPart(
            self.documents,
            self.bus,
            self.jobs,
            self.noted,
            self.lake.table_names,
            self._boxer,
            scheduler,
            self.instance,
            look=lambda: refresh_lag(self.settings, self.lake, self.documents),
            leave=forget_lag,
        )

    def workers(self, tasks: Collection[Task]) -> list[Part]:
        handlers = Handlers(with_short_leases(self.settings), self.lake, self.documents)
        place = f"{socket.gethostname()}:{os.getpid()}"
        return [
            WorkPart(
                f"worker-{number}",
                Worker(
                    self.jobs,
                    {task: handlers.of(task) for task in share},
                    owner=f"{place}:{number}",
                    allowed=self.rules.against,
                    ended=self._announce,
                    engine_is_gone=engine_is_gone,
                ),
                self.lake,
                patience=PATIENCE * self.settings.serve.drain_seconds,
            )
            for number, share in enumerate(shared_out(tasks, self.settings.serve.workers), start=1)
        ]

    def _boxer(self, reader: Reader) -> Boxer:
        return Boxer(
            self.documents, reader, self.jobs, batch_of=lambda task, table: self.rules.policies().batch(task, table)
        )

    def _announce(self, job: Job) -> None:
        self.noted.note([job.table] if job.table else self.lake.table_names())


def _for_all(settings: Settings, lake: Lake) -> Lake:
    """The lake whose session suits several kinds of work at once; what the user set wins."""
    spark = with_a_spare_place(lake.spark_config, cores())
    spark = spark.model_copy(update={"conf": {**FAIR, **spark.conf}})
    with_kafka = any(name.startswith("kafka") for name in settings.serve.streams)
    return replace(lake, spark_config=spark, further_jars=KAFKA if with_kafka else ())
