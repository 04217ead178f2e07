"""A lake with metrics at chosen times, and a runner of rules over it, with a clock that tests move."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb

from neve.app.query.service import build_query_service
from neve.app.rules.evaluation import build_runner
from neve.app.settings import Settings
from neve.app.wiring import build_documents
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.query.request import Request
from neve.query.service import no_limits
from neve.state.leases import hold_worker_lease
from tests.promql.storage.otlp_metrics import attributes, message
from tests.query.lakes import ACME, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.query.service import QueryService
    from neve.rules.running.cycle_result import CycleResult
    from neve.rules.running.runner import RuleRunner

START_MS = 1_760_000_040_000  # a whole minute
MINUTE = 60_000
SEGMENT_MS = 2000  # the runner stays behind by the age of an open segment
_numbers = itertools.count()


@dataclass
class Desk:
    """A runner and its lake. Each call of `run` is a cycle at the time of the clock."""

    lake: Lake
    folder: Path
    rules: dict[str, Any] = field(default_factory=dict)
    now_ms: int = START_MS

    def __post_init__(self) -> None:
        given = settings_of(self.folder) | {
            "raw": {"location": str(self.folder / "raw")},
            "state": {"path": str(self.folder / "state.db")},
        }
        self.settings = Settings.model_validate({**given, "rules": self.rules})
        self.documents = build_documents(self.settings)
        self.service: QueryService = build_query_service(self.settings, self.lake, limits=no_limits)
        self.runner = self.open_runner()

    def open_runner(self) -> RuleRunner:
        """Return a new runner, as after a restart."""
        return build_runner(self.settings, self.lake, self.service, now_ms=lambda: self.now_ms + SEGMENT_MS)

    def restart(self) -> None:
        """Forget everything that is not stored."""
        self.runner = self.open_runner()

    def put(self, name: str, value: float, at_ms: int | None = None, org: str = ACME, **labels: str) -> None:
        """Commit a point of a gauge."""
        self.put_all(name, [(self.now_ms if at_ms is None else at_ms, value, labels)], org)

    def put_all(self, name: str, points: Sequence[tuple[int, float, dict[str, str]]], org: str = ACME) -> None:
        """Commit points of a gauge at once: times in milliseconds, values and labels."""
        made = [
            pb.NumberDataPoint(attributes=attributes(labels), time_unix_nano=at_ms * 1_000_000, as_double=value)
            for at_ms, value, labels in points
        ]
        body = message([pb.Metric(name=name, gauge=pb.Gauge(data_points=made))], "shop").SerializeToString()
        decoded = decode(Signal.METRICS, [body], Intake(org, points[0][0] * 1_000_000))
        table = self.lake.table("metrics")
        files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
        append_once(table, files, batch_id=f"put-{next(_numbers)}", operation="test")

    def run(self, at_ms: int | None = None) -> CycleResult:
        """Run a cycle, after moving the clock, and those that were missed. Return the last one."""
        self.now_ms = self.now_ms if at_ms is None else at_ms
        with self.lease() as lease:
            result = self.runner.run(lease)
            while self.runner.is_behind:
                result = self.runner.run(lease)
        return result

    @contextmanager
    def lease(self) -> Iterator[Any]:
        """Hold the lease of the rules."""
        with hold_worker_lease(self.documents, "rules", seconds=60) as lease:
            yield lease

    def ask(self, sql: str, org: str = ACME) -> list[dict[str, Any]]:
        """Return the rows of a statement."""
        running = self.service.start(Request(sql, org, fresh=True))
        found: list[dict[str, Any]] = pa.Table.from_batches(running.batches(), running.schema).to_pylist()
        return found

    def states(self) -> dict[str, list[str]]:
        """Return the states of the alerts of each rule, as the runner has them."""
        found: dict[str, list[str]] = {}
        for key, group in self.runner.known_groups.items():
            state = self.runner.state_of(key)
            for rule, one in zip(group.rules, state.states if state else (), strict=False):
                if one.alerts:
                    found.setdefault(rule.name, []).extend(sorted(alert.state.value for alert in one.alerts.values()))
        return found


def write_rules(folder: Path, text: str, name: str = "rules.yml") -> str:
    """Write a rule file and return its path."""
    path = folder / name
    path.write_text(text)
    return str(path)


def sent_kinds(results: Sequence[CycleResult]) -> list[tuple[str, int, bool]]:
    """Return name, start and end of all notifications that are not repeated."""
    return [
        (dict(one.notification.labels)["alertname"], one.notification.starts_at_ms, one.notification.is_resolved)
        for result in results
        for one in result.sent
        if not one.notification.is_repeated
    ]
