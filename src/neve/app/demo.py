"""The demo: telemetry made, tables made, files taken in, questions asked. Each step says what it did."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import yaml

from neve.app.demo_autopilot import autopilot_settings, tune
from neve.app.otap import export_folder
from neve.app.reservoir import build_sampler, load_sample
from neve.app.rollup import build_rollup
from neve.app.settings import Settings, load_settings
from neve.app.tail import build_exporter, build_selector
from neve.app.wiring import build_compactor, build_lake
from neve.demo import generate
from neve.demo.policies import INCIDENT, POLICIES, TAIL
from neve.demo.questions import QUESTIONS, REQUESTS, Question
from neve.errors import ConfigError
from neve.ingest.files.job import FileRequest, ingest_files
from neve.ingest.files.result import combined
from neve.lake.statistics import table_statistics
from neve.lake.tables import init_tables
from neve.model.signals import Signal
from neve.query.run import run_query
from neve.reservoir.config import ReservoirConfig
from neve.reservoir.estimate.ask import Question as Wanted
from neve.reservoir.estimate.ask import estimate
from neve.reservoir.estimate.sample import Sample
from neve.reservoir.estimate.truth import Truth, compare
from neve.reservoir.star.sample import Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from neve.app.demo_autopilot import Tuned
    from neve.compact.result import CompactResult
    from neve.ingest.files.result import IngestResult
    from neve.lake.lake import Lake
    from neve.lake.tables import Outcome
    from neve.reservoir.estimate.result import Estimates
    from neve.reservoir.estimate.truth import Comparison
    from neve.reservoir.export.job import ExportResult
    from neve.reservoir.result import RunResult
    from neve.rollup.result import LevelResult
    from neve.tail.export.pump import PumpResult
    from neve.tail.result import CycleResult

ORGANIZATION = "shop"
OWN = "# made by `neve demo`\n"
HOUR_NANOS = 3600 * 1_000_000_000
KEPT_LOGS = 50  # of each service and hour
BY_SERVICE = "SELECT service_name, count(*) FROM logs GROUP BY service_name"


@dataclass(frozen=True)
class Place:
    """The folder of a demo and what is in it."""

    folder: Path

    @property
    def telemetry(self) -> Path:
        """The OTLP files."""
        return self.folder / "telemetry"

    @property
    def facts(self) -> Path:
        """What is known of the telemetry; written last, so that it stands for whole files."""
        return self.folder / "telemetry.json"

    @property
    def otap(self) -> Path:
        """Logs as OTAP Parquet."""
        return self.folder / "otap"

    @property
    def sampled(self) -> Path:
        """A sample of them."""
        return self.folder / "sampled"

    @property
    def policies(self) -> Path:
        """Which traces are kept."""
        return self.folder / "policies.yaml"

    @property
    def config(self) -> Path:
        """The configuration that other commands can go on with."""
        return self.folder / "neve.yaml"


@dataclass(frozen=True)
class Facts:
    """What was made, and the truth that the answers can be held against."""

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


def clear(place: Place) -> None:
    """Remove what an earlier demo made in its place, and nothing else."""
    for folder in (place.telemetry, place.otap, place.sampled, place.folder / "lake"):
        shutil.rmtree(folder, ignore_errors=True)
    place.facts.unlink(missing_ok=True)


def make_telemetry(place: Place, now_unix_nano: int) -> tuple[Facts, bool]:
    """The demo's files, and whether they had to be made."""
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


def demo_settings(place: Place) -> Settings:
    """Settings for a lake inside the demo's folder, also written there as a file."""
    lake = place.folder.resolve() / "lake"
    values = {
        "organization": ORGANIZATION,
        "lake": {"warehouse": str(lake / "warehouse")},
        "catalog": {"path": str(lake / "catalog.db")},
        "spark": {"log_file": str(lake / "spark.log")},
        "state": {"path": str(lake / "state.db")},
        "compact": {"hot_seconds": 0},  # nothing more will come for that hour
        "tail": {**TAIL, "policies": str(place.policies.resolve())},
        "autopilot": autopilot_settings(lake),
    }
    if place.config.exists() and not place.config.read_text().startswith(OWN):
        raise ConfigError(f"{place.config} is not the demo's", hint="choose another folder with --dir")
    place.folder.mkdir(parents=True, exist_ok=True)
    place.config.write_text(OWN + yaml.safe_dump(values, sort_keys=False))
    place.policies.write_text(POLICIES)
    return load_settings(str(place.config), {})


@dataclass(frozen=True)
class Scanned:
    """The files that questions read."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Tended:
    """What compaction did to the lake."""

    results: tuple[CompactResult, ...]
    before: Scanned
    after: Scanned


@dataclass(frozen=True)
class Reservoir:
    """A sample of logs, and what it tells beside the truth."""

    exported: ExportResult | None
    config: ReservoirConfig
    run: RunResult
    beside: Comparison
    told: Estimates


@dataclass(frozen=True)
class Demo:
    """A demo in its place."""

    place: Place
    settings: Settings
    lake: Lake

    @classmethod
    def at(cls, folder: Path) -> Demo:
        """The demo in this folder."""
        place = Place(folder)
        settings = demo_settings(place)
        return cls(place, settings, build_lake(settings))

    def init(self) -> tuple[Outcome, ...]:
        """Make the tables."""
        return init_tables(self.lake)

    def ingest(self, say: Callable[[str, int, int], None]) -> IngestResult:
        """Take the files in as they came: those of the same minutes together, in commits of their own."""
        rounds: dict[str, list[str]] = {}
        for path in sorted(self.place.telemetry.glob("*/*")):
            rounds.setdefault(path.name.split(".")[0], []).append(str(path))
        results = []
        for number, paths in enumerate(rounds.values(), 1):
            results.append(ingest_files(self.lake, self.settings.ingest, FileRequest(tuple(paths), ORGANIZATION)))
            say("commits", number, len(rounds))
        return combined(results)

    def roll_up(self, say: Callable[[str, int, int], None]) -> list[LevelResult]:
        """Roll the metrics up."""
        return build_rollup(self.settings, self.lake, say).run()

    def sample(self, say: Callable[[str, int, int], None]) -> tuple[CycleResult, list[PumpResult]]:
        """Decide which traces are kept, and put the kept ones into a table."""
        selector = build_selector(self.settings, self.lake, say)
        return selector.run(), build_exporter(selector).run()

    def answer_from_sample(self) -> tuple[Question, pa.Table, float]:
        """What the kept traces tell."""
        return self._answer(INCIDENT)

    def reservoir(self, say: Callable[[str, int, int], None]) -> Reservoir:
        """Keep a few logs of each service and hour, and estimate from them what there were."""
        exported = None  # compaction changes files, not rows: what was written once is what would be written again
        if not list(self.place.otap.glob("_neve/exports/*.json")):
            exported = export_folder(self.lake, str(self.place.otap), "logs", ORGANIZATION, (None, None), say)
        config = ReservoirConfig(
            source=str(self.place.otap), target=str(self.place.sampled), k=KEPT_LOGS, window_seconds=3600
        )
        run = build_sampler(self.settings, self.lake, config, say).run()
        sample = Sample.of(load_sample(self.lake, str(self.place.sampled), Asked()))
        told = estimate(sample, Wanted(None, (), 0.95))
        counted = run_query(self.lake, self.settings.query, BY_SERVICE, ORGANIZATION).read_all()
        return Reservoir(
            exported, config, run, compare(told, Truth.of(counted.rename_columns(["group", "count"]))), told
        )

    def compact(self, say: Callable[[str, int, int], None]) -> Tended:
        """Compact the tables of telemetry."""
        compactor = build_compactor(self.settings, self.lake)
        before = self._scanned()
        results = [compactor.compact(signal.table, progress=partial(say, signal.table)) for signal in Signal]
        return Tended(tuple(results), before, self._scanned())

    def tune(self, facts: Facts, say: Callable[[str, int, int], None]) -> Tuned | str:
        """Let the layout of the logs follow what is asked of them."""
        start = facts.incident_start_unix_nano // HOUR_NANOS * HOUR_NANOS
        return tune(self.settings, self.lake, ORGANIZATION, start, say)

    def _scanned(self) -> Scanned:
        """What a question that reads everything has to open."""
        statistics = [table_statistics(self.lake.table(signal.table)) for signal in Signal]
        return Scanned(sum(one.files for one in statistics), sum(one.bytes for one in statistics))

    def answers(self) -> Iterator[tuple[Question, pa.Table, float]]:
        """Each question with its answer and the seconds that it took."""
        for question in QUESTIONS:
            yield self._answer(question)

    def answer_from_rollup(self) -> tuple[Question, pa.Table, float]:
        """What the rolled-up metrics tell."""
        return self._answer(REQUESTS)

    def _answer(self, question: Question) -> tuple[Question, pa.Table, float]:
        started = time.monotonic()
        table = run_query(self.lake, self.settings.query, question.sql, ORGANIZATION).read_all()
        return question, table, time.monotonic() - started
