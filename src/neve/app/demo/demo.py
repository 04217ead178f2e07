"""The demo: generates telemetry, creates tables, ingests files and runs queries. Each step returns its result."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import yaml

from neve.app.demo.alert import RULES, AlertTiming, time_alert
from neve.app.demo.autopilot import autopilot_settings, tune_layout
from neve.app.demo.traces import find_incident
from neve.app.otap import export_folder
from neve.app.reservoir import build_sampler, load_sample
from neve.app.rollup import build_rollup
from neve.app.settings import Settings, load_settings
from neve.app.tail import build_exporter, build_selector
from neve.app.wiring import build_compactor, build_lake
from neve.demo import generate
from neve.demo.questions import INCIDENT, POLICIES, QUESTIONS, REQUESTS, TAIL, Question
from neve.errors import ConfigError
from neve.ingest.files.job import FileRequest, ingest_files
from neve.ingest.results import combine_results
from neve.lake.read.statistics import read_table_statistics
from neve.lake.tables import init_tables
from neve.model.signals import Signal
from neve.query.service import run_query
from neve.reservoir.config import ReservoirConfig
from neve.reservoir.estimate.comparison import Truth, compare
from neve.reservoir.estimate.estimators import Question as Wanted
from neve.reservoir.estimate.estimators import estimate
from neve.reservoir.estimate.sample import Sample
from neve.reservoir.otap.sample_reader import SampleRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from neve.app.demo.autopilot import TuningResult
    from neve.app.demo.traces import TraceFinding
    from neve.compact.result import CompactResult
    from neve.ingest.results import IngestResult
    from neve.lake.lake import Lake
    from neve.lake.tables import Outcome
    from neve.reservoir.estimate.comparison import Comparison
    from neve.reservoir.estimate.result import Estimates
    from neve.reservoir.otap.export import ExportResult
    from neve.reservoir.results import RunResult
    from neve.rollup.job import LevelResult
    from neve.tail.decisions import CycleResult
    from neve.tail.export.destination import DeliveryResult

ORGANIZATION = "shop"
DEMO_MARK = "# created by `neve demo`\n"
HOUR_NANOS = 3600 * 1_000_000_000
KEPT_LOGS = 100  # per service and hour
BY_SERVICE = "SELECT service_name, count(*) FROM logs GROUP BY service_name"


@dataclass(frozen=True)
class DemoFolder:
    """The folder of a demo, and the paths in it."""

    folder: Path

    @property
    def telemetry(self) -> Path:
        """The OTLP files."""
        return self.folder / "telemetry"

    @property
    def facts(self) -> Path:
        """The facts about the telemetry; written last, so that this file implies complete telemetry files."""
        return self.folder / "telemetry.json"

    @property
    def otap(self) -> Path:
        """Logs as OTAP Parquet."""
        return self.folder / "otap"

    @property
    def sample_folder(self) -> Path:
        """A sample of the OTAP logs."""
        return self.folder / "sampled"

    @property
    def policies(self) -> Path:
        """The policies of tail sampling."""
        return self.folder / "policies.yaml"

    @property
    def rules(self) -> Path:
        """The rules of the incident's alert."""
        return self.folder / "rules.yml"

    @property
    def config(self) -> Path:
        """A configuration file for further commands on the demo's lake."""
        return self.folder / "neve.yaml"


@dataclass(frozen=True)
class Facts:
    """Facts about the generated telemetry, to compare query results with."""

    files: int
    bytes: int
    traces: int
    spans: int
    logs: int
    points: int
    incident_service: str
    incident_start_unix_nano: int
    incident_end_unix_nano: int
    requests_in_window: int
    failed_in_window: int

    @property
    def start_unix_nano(self) -> int:
        """The start of the hour that the telemetry covers."""
        return self.incident_start_unix_nano // HOUR_NANOS * HOUR_NANOS


def clear_folder(place: DemoFolder) -> None:
    """Remove the files that an earlier demo created in the folder, and nothing else."""
    for folder in (place.telemetry, place.otap, place.sample_folder, place.folder / "lake"):
        shutil.rmtree(folder, ignore_errors=True)
    place.facts.unlink(missing_ok=True)


def make_telemetry(place: DemoFolder, now_unix_nano: int) -> tuple[Facts, bool]:
    """Return the facts about the demo's files, and whether the files had to be generated."""
    if place.facts.exists():
        return Facts(**json.loads(place.facts.read_text())), False
    shutil.rmtree(place.telemetry, ignore_errors=True)
    start = now_unix_nano // HOUR_NANOS * HOUR_NANOS - HOUR_NANOS
    made = generate(place.telemetry, start_unix_nano=start)
    facts = Facts(
        files=len(made.files),
        bytes=made.bytes,
        traces=made.traces,
        spans=made.spans,
        logs=made.logs,
        points=made.points,
        incident_service=made.incident.service,
        incident_start_unix_nano=made.incident.window.start,
        incident_end_unix_nano=made.incident.window.end,
        requests_in_window=made.truth.payment_in_window.requests,
        failed_in_window=made.truth.payment_in_window.failed,
    )
    place.facts.write_text(json.dumps(vars(facts), indent=2))
    return facts, True


def demo_settings(place: DemoFolder) -> Settings:
    """Return the settings of a lake inside the demo's folder, and write them there as a file."""
    lake = place.folder.resolve() / "lake"
    values = {
        "organization": ORGANIZATION,
        "lake": {"warehouse": str(lake / "warehouse")},
        "catalog": {"path": str(lake / "catalog.db")},
        "spark": {"log_file": str(lake / "spark.log")},
        "state": {"path": str(lake / "state.db")},
        "compact": {"hot_seconds": 0},  # no more data arrives for that hour
        "tail": {**TAIL, "policies": str(place.policies.resolve())},
        "autopilot": autopilot_settings(lake),
    }
    if place.config.exists() and not place.config.read_text().startswith(DEMO_MARK):
        raise ConfigError(f"{place.config} was not created by the demo", hint="choose another folder with --dir")
    place.folder.mkdir(parents=True, exist_ok=True)
    place.config.write_text(DEMO_MARK + yaml.safe_dump(values, sort_keys=False))
    place.policies.write_text(POLICIES)
    place.rules.write_text(RULES)
    return load_settings(str(place.config), {})


@dataclass(frozen=True)
class ScannedFiles:
    """The files that queries read."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Compacted:
    """The effect of compaction on the lake."""

    results: tuple[CompactResult, ...]
    before: ScannedFiles
    after: ScannedFiles


@dataclass(frozen=True)
class ReservoirSample:
    """A sample of logs, with its estimates and the true numbers."""

    exported: ExportResult | None
    config: ReservoirConfig
    run: RunResult
    beside: Comparison
    estimates: Estimates


@dataclass(frozen=True)
class Demo:
    """A demo in its folder."""

    place: DemoFolder
    settings: Settings
    lake: Lake

    @classmethod
    def at(cls, folder: Path) -> Demo:
        """Return the demo in this folder."""
        place = DemoFolder(folder)
        settings = demo_settings(place)
        return cls(place, settings, build_lake(settings))

    def init(self) -> tuple[Outcome, ...]:
        """Create the tables."""
        return init_tables(self.lake)

    def ingest(self, say: Callable[[str, int, int], None]) -> IngestResult:
        """Ingest the files in the order of their arrival, with one commit for the files of the same minutes."""
        rounds: dict[str, list[str]] = {}
        for path in sorted(self.place.telemetry.glob("*/*")):
            rounds.setdefault(path.name.split(".")[0], []).append(str(path))
        results = []
        for number, paths in enumerate(rounds.values(), 1):
            results.append(ingest_files(self.lake, self.settings.ingest, FileRequest(tuple(paths), ORGANIZATION)))
            say("commits", number, len(rounds))
        return combine_results(results)

    def roll_up(self, facts: Facts, say: Callable[[str, int, int], None]) -> list[LevelResult]:
        """Compute the rollups of the metrics as of the end of their hour.

        With the time of the run, more windows would be closed in a second demo, which then has to start Spark.
        """
        end = datetime.fromtimestamp((facts.start_unix_nano + HOUR_NANOS) // 10**9, UTC)
        as_of = end + timedelta(seconds=self.settings.rollup.grace_seconds)
        return build_rollup(self.settings, self.lake, say, clock=lambda: as_of).run()

    def sample(self, say: Callable[[str, int, int], None]) -> tuple[CycleResult, list[DeliveryResult]]:
        """Decide which traces are sampled, and deliver them to a table."""
        selector = build_selector(self.settings, self.lake, say)
        return selector.run(), build_exporter(selector).run()

    def answer_from_sample(self) -> tuple[Question, pa.Table, float]:
        """Run a query on the sampled traces."""
        return self._answer(INCIDENT)

    def reservoir(self, say: Callable[[str, int, int], None]) -> ReservoirSample:
        """Sample a few logs of each service and hour, and estimate the totals from them."""
        exported = None  # compaction changes files, not rows: an earlier export is still correct
        if not list(self.place.otap.glob("_neve/exports/*.json")):
            exported = export_folder(self.lake, str(self.place.otap), "logs", ORGANIZATION, (None, None), say)
        config = ReservoirConfig(
            source=str(self.place.otap),
            target=str(self.place.sample_folder),
            k=KEPT_LOGS,
            method="exact_total",  # with priority sampling, totals of a group would be up to 30 % off at this size
            window_seconds=3600,
        )
        run = build_sampler(self.settings, self.lake, config, say).run()
        sample = Sample.of(load_sample(self.lake, str(self.place.sample_folder), SampleRequest()))
        estimates = estimate(sample, Wanted(None, (), 0.95))
        counted = run_query(self.lake, self.settings.query, BY_SERVICE, ORGANIZATION).read_all()
        return ReservoirSample(
            exported, config, run, compare(estimates, Truth.of(counted.rename_columns(["group", "count"]))), estimates
        )

    def compact(self, say: Callable[[str, int, int], None]) -> Compacted:
        """Compact the telemetry tables."""
        compactor = build_compactor(self.settings, self.lake)
        before = self._count_files()
        results = [compactor.compact(signal.table, progress=partial(say, signal.table)) for signal in Signal]
        return Compacted(tuple(results), before, self._count_files())

    def tune(self, facts: Facts, say: Callable[[str, int, int], None]) -> TuningResult | str:
        """Adapt the layout of the logs to the queries on them."""
        return tune_layout(self.settings, self.lake, ORGANIZATION, facts.start_unix_nano, say)

    def _count_files(self) -> ScannedFiles:
        """Return the files that a full scan has to open."""
        statistics = [read_table_statistics(self.lake.table(signal.table)) for signal in Signal]
        return ScannedFiles(sum(one.files for one in statistics), sum(one.bytes for one in statistics))

    def answers(self) -> Iterator[tuple[Question, pa.Table, float]]:
        """Yield each query with its result and its duration in seconds."""
        for question in QUESTIONS:
            yield self._answer(question)

    def time_alert(self, facts: Facts) -> AlertTiming | None:
        """Return when the incident raised the alert of the demo's rules."""
        where = facts.incident_service, facts.incident_start_unix_nano
        return time_alert(self.settings, self.lake, self.place.rules, *where)

    def find_incident(self, facts: Facts) -> list[TraceFinding]:
        """Return the answers to the questions about traces."""
        return find_incident(self.settings, self.lake, facts.start_unix_nano)

    def answer_from_rollup(self) -> tuple[Question, pa.Table, float]:
        """Run a query on the rolled-up metrics."""
        return self._answer(REQUESTS)

    def _answer(self, question: Question) -> tuple[Question, pa.Table, float]:
        started = time.monotonic()
        table = run_query(self.lake, self.settings.query, question.sql, ORGANIZATION).read_all()
        return question, table, time.monotonic() - started
