"""Random histories of a lake: whatever happened in between, the tables are those of a run from scratch."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.compact import Compactor
from neve.compact.config import CompactConfig
from neve.compact.plan import Request
from neve.errors import CommitConflict, LeaseLost, LeaseTaken
from neve.lake.commit.java_commit import change_rows
from neve.lake.time_ranges import BEGINNING
from neve.model.levels import LEVELS
from neve.rollup import job
from neve.rollup.config import RollupConfig
from neve.rollup.job import Rollup
from tests.compact.tables import documents_in
from tests.rollup.compare import plain
from tests.rollup.points import BEGIN, histories
from tests.rollup.test_job import START, check, point, put, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from neve.lake.lake import Lake
    from neve.rollup.job import LevelResult

pytestmark = pytest.mark.long

CONFIG = RollupConfig()
EAGER = CompactConfig(fragments=2, minor_seconds=0, hot_seconds=0, close_seconds=0, delete_files=1, delete_ratio=0.01)
OPENING = datetime.fromtimestamp(BEGIN // 10**9, UTC)
LATER = OPENING + timedelta(days=30)  # for compaction, to which no partition is young then
SHIFTS = (-3000, -40, 0, 35, 100)  # minutes; each history is 20 minutes long
DELETED = ("http.server.duration", "jvm.memory")
STEPS = (
    *("append",) * 4,
    *("run",) * 4,
    *("again", "compact", "compact", "levels", "delete merge-on-read", "delete copy-on-write"),
    *("definition", "since", "expire"),
)
_numbers = itertools.count()


@dataclass
class House:
    """A lake whose clock is the test's, and what happens to it."""

    lake: Lake
    folder: Path
    config: RollupConfig = CONFIG
    now: datetime = OPENING
    batches: list[list[dict[str, Any]]] = field(default_factory=list)
    is_current: bool = False

    @property
    def raw(self) -> list[dict[str, Any]]:
        """The points that are in the table now."""
        found: list[dict[str, Any]] = rows(self.lake, "metrics").to_pylist()
        return found

    def rollup(self, **more: Any) -> Rollup:
        """A rollup as a new process would make it."""
        given = {"config": self.config, "documents": documents_in(self.folder), "clock": lambda: self.now, **more}
        return Rollup(self.lake, **given)

    def append(self, points: list[dict[str, Any]]) -> None:
        """One more commit of points."""
        if points:
            put(self.lake, points, f"batch {next(_numbers)}")
            self.is_current = False

    def compact(self, name: str) -> None:
        """Rewrite what can be."""
        compactor = Compactor(self.lake, documents=documents_in(self.folder), config=EAGER, clock=lambda: LATER)
        compactor.compact(name, Request(thorough=True))

    def delete(self, condition: str, mode: str = "copy-on-write") -> None:
        """Delete points as a user of Spark would."""
        name = self.lake.spark_name("metrics")
        self.lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode' = '{mode}')")
        self.lake.spark.sql(f"DELETE FROM {name} WHERE {condition}")
        self.is_current = False

    def expire(self, name: str) -> None:
        """Forget all snapshots but the last, as a user of Spark would."""
        self.lake.spark.sql(
            f"CALL {self.lake.catalog_config.name}.system.expire_snapshots(table => 'telemetry.{name}', "
            "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
        )

    def run(self, **more: Any) -> list[LevelResult]:
        """Roll up, and once more, when there is nothing left to do."""
        found = self.rollup(**more).run()
        assert self.idle(**more)
        self.is_current = True
        return found

    def idle(self, **more: Any) -> bool:
        """Whether a run does nothing."""
        return not any(level.committed for level in self.rollup(**more).run())

    def check(self, points: list[dict[str, Any]] | None = None) -> None:
        """All closed windows are those of the reference."""
        until = self.now - timedelta(seconds=self.config.grace_seconds)
        check(self.lake, self.raw if points is None else points, until, self.config)

    def states(self) -> list[int | None]:
        """The snapshots of the levels."""
        return [self.lake.table(level.table).metadata.current_snapshot_id for level in LEVELS]


@pytest.fixture
def make_house(make_lake: Callable[..., Lake], tmp_path: Path, spark: SparkSession) -> Callable[..., House]:
    """Houses, each in a folder of its own."""

    def make(**given: Any) -> House:
        folder = tmp_path / f"house{next(_numbers)}"
        folder.mkdir()
        return House(make_lake(folder), folder, **given)

    return make


def moved(one: dict[str, Any], minutes: int) -> dict[str, Any]:
    """A point that was made some minutes later."""
    span = timedelta(minutes=minutes)
    times = {
        name: one[name] and one[name] + minutes * 60 * 10**9 for name in ("time_unix_nano", "start_time_unix_nano")
    }
    words = one["record_id"] + str(minutes).encode()
    return {
        **one,
        **times,
        "timestamp": one["timestamp"] + span,
        "ingested_at": one["ingested_at"] + span,
        "record_id": hashlib.blake2b(words, digest_size=16).digest(),
    }


@st.composite
def points_of_all_time(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Points of one to three times, in any order: cut into batches, some are late and some fill gaps of long ago."""
    shifts = draw(st.lists(st.sampled_from(SHIFTS), min_size=1, max_size=3, unique=True))
    found = [moved(one, minutes) for minutes in shifts for one in draw(histories(max_streams=3, max_points=8))]
    return draw(st.permutations(found))


stories = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99)), min_size=4, max_size=8)


def take_step(house: House, step: str, chance: int, waiting: list[dict[str, Any]]) -> None:  # noqa: C901 - one branch each
    """One thing that happens."""
    if step == "append":
        size = 1 + len(waiting) * chance // 200
        house.batches.append(waiting[:size])
        del waiting[:size]
        house.append(house.batches[-1])
    elif step == "again" and house.batches:
        house.append(house.batches[chance % len(house.batches)])
    elif step == "compact":
        house.compact("metrics")
        assert not house.is_current or house.idle()
    elif step == "levels":
        for level in LEVELS:
            house.compact(level.table)
        assert not house.is_current or house.idle()
    elif step.startswith("delete"):
        house.delete(f"metric_name = '{DELETED[chance % 2]}' AND second(timestamp) < {chance}", step.split()[1])
    elif step == "definition":
        house.config = RollupConfig(attributes=("all", "none")[chance % 2], quantiles=(0.9,) if chance % 3 else ())
    elif step == "since":
        house.rollup().run(since=OPENING - timedelta(minutes=chance))
        house.check()
    elif step == "expire":
        house.expire("metrics")
    elif step == "run":
        house.now += timedelta(minutes=chance % 40)
        house.run()
        house.check()


@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(points=points_of_all_time(), story=stories)
def test_whatever_happened_the_tables_are_right(
    make_house: Callable[..., House], points: list[dict[str, Any]], story: list[tuple[str, int]]
) -> None:
    """After every run, as far as windows are closed; and in the end, when all of them are."""
    house = make_house()
    waiting = list(points)
    for step, chance in story:
        take_step(house, step, chance, waiting)
    house.append(waiting)
    house.now += timedelta(days=3)
    house.run()
    house.check()
    assert all(row["is_final"] for level in LEVELS for row in plain(rows(house.lake, level.table)).values())


def counter(seconds: int, value: float) -> dict[str, Any]:
    """A point of a counter that never began anew."""
    kind = {"metric_type": "sum", "is_monotonic": True, "aggregation_temporality": 2}
    return {**point(seconds, value, name="requests"), **kind}


def steady(start: int = 0, end: int = 3600, step: int = 30) -> list[dict[str, Any]]:
    """A gauge and a counter for some seconds."""
    times = range(start, end, step)
    return [made for at in times for made in (point(at, at % 13), counter(at, at * 1.5))]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_rows_that_only_moved_change_nothing(make_house: Callable[..., House], mode: str) -> None:
    """Compaction of the source drops copies and applies deletes: no level has anything to commit."""
    house = make_house(now=START + timedelta(minutes=20))
    for batch in (steady(end=300), steady(300, 600), steady(end=300)):
        house.append(batch)
    house.delete("metric_name = 'cpu' AND minute(timestamp) = 3", mode)
    house.run()
    house.check()
    before, copies = house.states(), len(house.raw)
    house.compact("metrics")
    assert len(house.raw) < copies
    assert house.idle()
    assert house.states() == before
    house.append([point(95, 50.0)])
    house.run()
    house.check()


def test_frozen_windows_stay(make_house: Callable[..., House]) -> None:
    """Retention took their points: the rows stay as they were, and late points change nothing there."""
    house = make_house(now=START + timedelta(hours=1, minutes=5))
    points = steady()
    house.append(points)
    house.run()
    horizon = int((START + timedelta(minutes=30)).timestamp()) * 1_000_000
    frozen = {"frozen": lambda source: lambda _owner: horizon if source == "metrics" else BEGINNING}
    house.delete("timestamp < TIMESTAMP '2026-01-01T10:30:00Z'")
    results = house.run(**frozen)
    assert results[0].left_windows > 0
    house.check(points)
    house.append([point(125, 99.0), point(1000, 99.0)])
    before = house.states()
    late = house.run(**frozen)
    assert late[0].left_windows >= 2
    assert house.states() == before
    # Windows up to the look-back after the horizon may miss what their first points are compared with.
    house.append([point(905, 77.0), point(2070, 99.0), point(2101, 55.0)])
    house.now += timedelta(days=1)
    assert house.run(**frozen)[0].left_windows >= 2
    house.check([*points, point(2101, 55.0)])


def test_a_single_late_point_of_a_frozen_window_is_told(make_house: Callable[..., House]) -> None:
    """Its file has one moment."""
    house = make_house(now=START + timedelta(hours=1, minutes=5))
    house.append(steady())
    house.run()
    horizon = int((START + timedelta(minutes=30)).timestamp()) * 1_000_000
    house.delete("timestamp < TIMESTAMP '2026-01-01T10:30:00Z'")
    frozen = {"frozen": lambda _source: lambda _owner: horizon}
    house.run(**frozen)
    house.append([point(125, 99.0)])
    assert house.run(**frozen)[0].left_windows >= 1


def test_open_windows(make_house: Callable[..., House]) -> None:
    """With `partial` they are there and not final; closed, they are final and exact."""
    house = make_house(config=RollupConfig(partial=True), now=START + timedelta(seconds=430))
    house.append(steady(end=420))
    house.run()
    states = [
        {(row["timestamp"] // 10**6 - int(START.timestamp())) // level.seconds: row["is_final"] for row in found}
        for level in LEVELS
        if (found := list(plain(rows(house.lake, level.table)).values()))
    ]
    hour = -10 * 3600 // 86_400
    assert states == [
        {**dict.fromkeys(range(6), True), 6: False},
        {0: True, 1: False},
        {0: False},
        {hour: False},
    ]
    house.append(steady(420, 600))
    house.now += timedelta(days=2)
    house.run()
    house.check()
    assert all(row["is_final"] for level in LEVELS for row in plain(rows(house.lake, level.table)).values())


def test_another_definition_computes_everything(make_house: Callable[..., House]) -> None:
    """Attributes that are no longer kept are gone from every level, and come back when they are kept again."""
    house = make_house(now=START + timedelta(days=2))
    house.append([*steady(end=900), *(point(at, 3.0, owner="other") for at in range(0, 900, 60))])
    house.run()
    house.config = RollupConfig(attributes="none", quantiles=(0.9,))
    results = house.run()
    assert all("definition changed" in level.reason and level.committed for level in results)
    house.check()
    assert not any(row["attributes"] for row in plain(rows(house.lake, "metrics_1d")).values())
    house.config = CONFIG
    house.run()
    house.check()


def test_a_lost_place_in_the_source_computes_everything(make_house: Callable[..., House]) -> None:
    """The snapshot of the last run was expired: what happened since can't be known."""
    house = make_house(now=START + timedelta(hours=1, minutes=5))
    house.append(steady())
    house.run()
    house.delete("metric_name = 'cpu' AND minute(timestamp) < 20")
    house.append([point(65, 9.0), point(4000, 8.0)])
    house.expire("metrics")
    house.now += timedelta(days=1)
    results = house.run()
    assert "has expired" in results[0].reason
    house.check()


def test_since_gives_the_same_rows(make_house: Callable[..., House]) -> None:
    """Asked for, windows are computed again, from that one on, and are what they were."""
    house = make_house(now=START + timedelta(days=2))
    house.append(steady())
    house.run()
    before = [plain(rows(house.lake, level.table)) for level in LEVELS]
    results = house.rollup().run(since=START + timedelta(minutes=40, seconds=7))
    assert [(level.committed, level.windows) for level in results] == [(True, 20), (True, 4), (True, 1), (True, 1)]
    assert [plain(rows(house.lake, level.table)) for level in LEVELS] == before
    assert house.idle()


def test_one_run_of_a_level_at_a_time(make_house: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run that begins while the first commits is turned away, and spoils nothing."""
    house = make_house(now=START + timedelta(days=2))
    house.append(steady(end=600))
    refused = []

    def commit(*args: Any, **kwargs: Any) -> Any:
        with pytest.raises(LeaseTaken) as turned_away:
            house.rollup().run()
        refused.append(turned_away.value)
        return change_rows(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(job, "change_rows", commit)
        house.rollup().run(LEVELS[:1])
    assert len(refused) == 1
    house.run()
    house.check()


def test_compaction_of_the_target_meanwhile(make_house: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files whose rows were to be marked are replaced before the commit: the run looks again, and is right."""
    house = make_house(now=START + timedelta(hours=1, minutes=5))
    for start in (0, 900):
        house.append(steady(start, start + 900))
        house.now += timedelta(minutes=1)
        house.run()
    house.append([point(65, 9.0), point(1000, 8.0)])
    tries = []

    def commit(lake: Lake, name: str, *args: Any, **kwargs: Any) -> Any:
        tries.append(name)
        if len(tries) == 1:
            before = lake.table(name).metadata.current_snapshot_id
            house.compact(name)
            assert lake.table(name).metadata.current_snapshot_id != before
        return change_rows(lake, name, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(job, "change_rows", commit)
        house.rollup().run()
    assert tries[:2] == ["metrics_1m", "metrics_1m"]
    assert tries.count("metrics_1m") == 2
    house.now += timedelta(days=1)
    house.run()
    house.check()


def test_a_run_that_was_thought_to_be_dead_adds_nothing(
    make_house: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still between its last look at the lease and its commit, while another one did its work."""
    house = make_house(now=START + timedelta(hours=1, minutes=5))
    house.append(steady(end=600))

    def commit(lake: Lake, name: str, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        house.rollup(steal=True).run()
        return change_rows(lake, name, *args, **kwargs)

    monkeypatch.setattr(job, "change_rows", commit)
    with pytest.raises((CommitConflict, LeaseLost)):
        house.rollup().run(LEVELS[:1])
    house.run()
    house.check()


def test_rows_outlive_their_points_whatever_is_lost(make_house: Callable[..., House]) -> None:
    """Retention took points, then its rule went, then the level's place or its definition: the rows are still there."""
    house = make_house(now=START + timedelta(days=3))
    points = [*steady(end=600), *steady(90_000, 90_600)]
    house.append(points)
    house.run()
    house.delete("timestamp < TIMESTAMP '2026-01-02T00:00:00Z'")
    horizon = int((START + timedelta(hours=14)).timestamp()) * 1_000_000
    house.run(frozen=lambda source: lambda _owner: horizon if source == "metrics" else BEGINNING)
    house.check(points)
    house.config = RollupConfig(quantiles=(0.9,))
    results = house.run()
    assert results[0].committed
    assert len(rows(house.lake, "metrics_1m")) == len({point["timestamp"].replace(second=0) for point in points}) * 2
    name, catalog = house.lake.spark_name("metrics_1m"), house.lake.catalog_config.name
    house.lake.spark.sql(
        f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    )
    house.expire("metrics_1m")
    before = plain(rows(house.lake, "metrics_1m"))
    lost = house.run()
    assert "position of the level is lost" in lost[0].reason
    assert plain(rows(house.lake, "metrics_1m")) == before


def test_a_file_of_two_organizations_in_a_level(make_house: Callable[..., House]) -> None:
    """Someone wrote the level's table anew without its partitions: one's late point leaves the other's rows alone."""
    house = make_house(now=START + timedelta(days=2))
    house.append([*steady(end=600), *(point(at, 3.0, owner="other") for at in range(0, 600, 60))])
    house.run()
    name, catalog = house.lake.spark_name("metrics_1m"), house.lake.catalog_config.name
    for part in ("organization_id", "timestamp_day"):
        house.lake.spark.sql(f"ALTER TABLE {name} DROP PARTITION FIELD {part}")
    house.lake.spark.sql(
        f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    )
    house.append([point(95, 50.0)])
    house.run()
    house.check()


def test_away_for_longer_than_points_are_kept(make_house: Callable[..., House]) -> None:
    """Windows that were never computed are, from what there is."""
    house = make_house(now=START + timedelta(minutes=20))
    house.append(steady(end=600))
    house.run()
    house.append(steady(1200, 1800))
    house.now += timedelta(days=20)
    horizon = int((house.now - timedelta(days=7)).timestamp()) * 1_000_000
    house.run(frozen=lambda source: lambda _owner: horizon if source == "metrics" else BEGINNING)
    house.check()
