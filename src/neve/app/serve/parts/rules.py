"""The rules part: evaluates rules when data is complete, and sends alerts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from neve.app.query.service import build_query_service
from neve.app.rules.evaluation import build_runner
from neve.app.rules.service import RuleService
from neve.app.wiring import build_documents
from neve.lake.calendar import now_utc
from neve.model.recorded import RECORDED_TABLE
from neve.query.daily_usage import DailyUsage
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports

if TYPE_CHECKING:
    import threading

    from neve.app.serve.part import ReportDetails
    from neve.app.serve.parts.announcer import ChangedTables
    from neve.app.settings import Settings
    from neve.lake.lake import Lake

IDLE = "no rule files in rules.files"


@dataclass(frozen=True)
class RulesPart:
    """Part that evaluates rules in query workers of its own, with the limits of their organization.

    It notes its commits for the announcer, so that its table is compacted.
    """

    settings: Settings
    lake: Lake
    changed_tables: ChangedTables
    name: str = "rules"

    def run(self, stop: threading.Event, report: ReportDetails) -> None:
        """Run cycles until asked to stop. One instance evaluates, the others are on standby."""
        if not self.settings.rules.files:
            report({"idle": IDLE})
            stop.wait()
            return
        documents = build_documents(self.settings)
        places = {"concurrency": self.settings.rules.concurrency, "warm_workers": 1}
        engine = WorkerPool(self.lake, self.settings.query.model_copy(update=places))
        ports = Ports(engine=engine, usage=DailyUsage(documents, now_utc))
        service = build_query_service(self.settings, self.lake, ports=ports)
        try:
            runner = build_runner(self.settings, self.lake, service)
            committed = partial(self.changed_tables.note, [RECORDED_TABLE])
            RuleService(runner, documents, committed=committed).run_forever(stop, report)
        finally:
            service.close()
            documents.close()
