"""A nightly run on Spark from a log to a merge that is measured; and what it decides without Spark."""

from __future__ import annotations

import subprocess
import threading
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from neve.app.autopilot import run_nightly
from neve.app.operator.layouts import Layouts, apply_change
from neve.autopilot.attempt import Attempt, Stage, Step
from neve.autopilot.attempt_runner import AttemptRunner, create_details
from neve.autopilot.config import AutopilotConfig, apply_environment
from neve.autopilot.estimate.confidence_interval import Interval
from neve.autopilot.expected_gain import expect_gains
from neve.autopilot.history import History
from neve.autopilot.layout import Layout
from neve.autopilot.metrics import compute_totals, serve_metrics
from neve.autopilot.nightly_run import LEASE, NightlyRun, TimeLimitReached, find_recent_rollback
from neve.autopilot.outcome import Outcome
from neve.autopilot.propose.proposals import Proposals, build_forge
from neve.autopilot.recommend.recommendation import Advice, Cost, Payback, Recommendation
from neve.autopilot.rollout.canary_queries import select_hot_queries, select_own_queries
from neve.autopilot.table_layout import current_layout
from neve.autopilot.workload.queries import Query, TableUse
from neve.autopilot.workload_scan import WorkloadScan, list_layout_changes, matches_table
from neve.errors import Cancelled, ConfigError, LakeError, LeaseTaken
from neve.jobs.queue import JobQueue
from neve.lake.tables import init_tables
from neve.predicate.filters import Test
from neve.state.config import StateConfig
from neve.state.leases import hold_worker_lease
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.autopilot.rollout.orders import TABLE, TARGET_BYTES, ids, make_orders, put_queries, rollout_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from neve.autopilot.nightly_run import RunReport
    from neve.errors import NeveError
    from neve.lake.lake import Lake

NOW = datetime(2026, 3, 1, 2, tzinfo=UTC)
SECRET = 987654321  # a customer that nobody else asks for
BEFORE, AFTER = Layout(), Layout(sort=("customer",))


def pilot_in(lake: Lake, folder: Path, **config: Any) -> tuple[AttemptRunner, SqlDocuments]:
    """The autopilot of a lake, at a fixed time, with a local repository of specs."""
    settings = AutopilotConfig.model_validate(
        {
            "tables": ["shop.*"],
            "recommend": {"min_table_bytes": 0, "sample_rows": 2000, "payback_days": 1e9, "settle_days": 3},
            "propose": {"repository": str(folder / "specs")},
            **config,
        }
    )
    documents = SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))
    history = History(documents)
    rollout = replace(rollout_in(lake, folder), history=history, config=settings.stage)
    survey = WorkloadScan(lake, settings, history, lambda: NOW)
    return AttemptRunner(survey, rollout, Proposals(build_forge(settings.propose), settings.propose)), documents


def approve(folder: Path) -> None:
    """Merge the one open proposal, as a person would."""
    git = ["git", "-C", str(folder / "specs"), "-c", "user.name=A", "-c", "user.email=a@b.invalid"]
    [branch] = subprocess.run(
        [*git, "for-each-ref", "--format=%(refname:short)", "refs/heads/neve/autopilot"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    subprocess.run([*git, "merge", "-q", "--no-ff", "-m", "yes", branch], check=True)


@pytest.fixture
def shop(make_lake: Callable[..., Lake]) -> Lake:
    """A lake with orders that are asked by customer."""
    lake = make_lake(init=False)
    make_orders(lake, files=8)
    init_tables(lake)
    with lake.table(TABLE).transaction() as change:
        change.set_properties({"write.target-file-size-bytes": str(TARGET_BYTES)})
    asked = [
        f"SELECT count(*) AS n, sum(price) FROM shop.orders WHERE customer = {number % 97}" for number in range(60)
    ]
    asked += [f"SELECT id FROM shop.orders WHERE customer = {SECRET}", "SELECT FROM WHERE 'oops"]
    put_queries(lake, asked, NOW)
    return lake


def attempt_of(*stages: Stage, after: Layout = AFTER, at: datetime = NOW) -> Attempt:
    """An attempt that went through these stages."""
    return Attempt("a1", TABLE, "sort", BEFORE, after, tuple(Step(one, at, f"{one}!") for one in stages))


def advice(low: float) -> Advice:
    """One recommendation of a sort."""
    found = Recommendation(
        TABLE, "sort", BEFORE, AFTER, Interval(low, low + 0.1, low + 0.2), Cost(1, 1, 1), Payback(1, 1, 1), "because"
    )
    return Advice(TABLE, BEFORE, 30, recommendations=(found,))


def outcome_of(delivered: float, number: int = 0) -> Outcome:
    """A sort that promised 60 %."""
    return Outcome(TABLE, f"o{number}", "sort", NOW, 60.0, 50.0, delivered)


@pytest.mark.long
@pytest.mark.spark
def test_a_night_and_the_next(spark: SparkSession, shop: Lake, tmp_path: Path) -> None:
    """The first run stages, tries and proposes; after a person's approval the second one merges and measures."""
    assert shop.spark is spark
    pilot, documents = pilot_in(shop, tmp_path, canary_queries=5)
    before, layout = ids(shop), current_layout(shop.table(TABLE))
    told: list[str] = []
    nightly = NightlyRun(pilot, documents, on_report=lambda one: told.append(one.table))
    first = nightly.run()
    assert (told, first.left, first.unparsed, first.has_failed) == ([TABLE], (), 1, False)
    [report] = first.tables
    assert report.stage == Stage.PROPOSED, report
    assert "waits for an approval" in report.reason
    assert current_layout(shop.table(TABLE)) == layout
    [attempt] = pilot.history.attempts()
    details = pilot.find(attempt.id).details
    assert details is not None
    told_to_people = pilot.proposals.change(details.proposal).body
    assert str(SECRET) not in told_to_people
    assert "customer = ?" in told_to_people
    assert f"neve autopilot rollback {attempt.id}" in told_to_people

    assert nightly.run().tables[0].stage == Stage.PROPOSED  # it waits, and nothing is staged twice
    assert len(pilot.history.attempts()) == 1

    approve(tmp_path)
    [report] = nightly.run().tables
    assert report.stage == Stage.MERGED, report
    assert report.delivered_pct is not None
    assert report.delivered_pct >= 30
    assert ids(shop) == before
    assert "customer" in str(current_layout(shop.table(TABLE)))
    [outcome] = pilot.history.outcomes()
    assert outcome.delivered_pct == report.delivered_pct
    assert compute_totals(pilot.history).executed == 1

    [settled] = nightly.run().tables
    assert "the next change is considered after" in settled.reason
    attempt, _report = pilot.rollback(pilot.find(attempt.id[:8]), "test")
    assert current_layout(shop.table(TABLE)) == layout
    assert [one.after for one in list_layout_changes(attempt)] == [attempt.after, attempt.before]


@pytest.mark.long
@pytest.mark.spark
def test_an_operator_approves_and_rolls_back_by_jobs(spark: SparkSession, shop: Lake, tmp_path: Path) -> None:
    """Each change has its reason in the history, keeps all rows, and may be repeated by another worker."""
    assert shop.spark is spark
    pilot, documents = pilot_in(shop, tmp_path, canary_queries=5)
    rows, layout = ids(shop), current_layout(shop.table(TABLE))
    NightlyRun(pilot, documents).run()
    [attempt] = pilot.history.attempts()
    jobs = JobQueue(documents)
    layouts = Layouts(documents, jobs)
    for change, stage in (("approve", Stage.MERGED), ("rollback", Stage.ROLLED_BACK)):
        wanted: Any = change
        job = layouts.request(attempt.id, wanted, table=TABLE, by="on call", reason="reviewed")
        words = apply_change(pilot, job)
        assert TABLE in words
        assert apply_change(pilot, job)
        jobs.cancel(job.id)
        last = pilot.find(attempt.id).steps[-1]
        assert (last.stage, "by on call: reviewed" in last.reason) == (stage, True)
        assert ids(shop) == rows
        assert (current_layout(shop.table(TABLE)) == layout) == (change == "rollback")
    assert len(list(pilot.history.outcomes())) == 1


def test_a_run_without_spark_recommends_and_takes_back_what_fails(
    shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure is in the history, nothing stays open, and the same is not tried again the next night."""
    pilot, documents = pilot_in(shop, tmp_path)

    def broken(*_given: object) -> None:
        raise LakeError("the storage is away")

    monkeypatch.setattr(type(pilot.rollout), "stage", broken)
    nightly = NightlyRun(pilot, documents)
    [report] = nightly.run().tables
    assert (report.failed, report.stage) == (True, Stage.ROLLED_BACK)
    assert [step.stage for step in pilot.history.attempts()[0].steps][-2:] == [Stage.FAILED, Stage.ROLLED_BACK]
    [again] = nightly.run().tables
    assert "rolled back (the storage is away)" in again.reason
    assert len(pilot.history.attempts()) == 1


def test_what_people_rejected_is_not_staged_again(shop: Lake, tmp_path: Path) -> None:
    """A proposal whose branch somebody removed is not made again, however good it looks."""
    pilot, documents = pilot_in(shop, tmp_path)
    promises = pilot.scan.advise(TABLE, pilot.scan.analyze())
    best = promises.gains[0]
    assert pilot.rejected_before(best, promises.advice) == ""
    case = create_details(best, (), attempt_id="a1", table_bytes=1, created=NOW)
    posted = pilot.proposals.propose(case.proposal)
    subprocess.run(["git", "-C", str(tmp_path / "specs"), "branch", "-q", "-D", posted.branch], check=True)
    [report] = NightlyRun(pilot, documents).run().tables
    assert report.reason == "the same change was proposed and rejected: closed without a merge"
    assert pilot.history.attempts() == []


def test_runs_begin_at_their_hour(shop: Lake, tmp_path: Path) -> None:
    """One after the other until it is told to stop; one that fails does not end them."""
    pilot, documents = pilot_in(shop, tmp_path, tables=["nothing.*"])
    almost = replace(pilot, scan=replace(pilot.scan, clock=lambda: NOW - timedelta(milliseconds=5)))
    stop, told, failed = threading.Event(), [], []

    def tell(report: RunReport) -> None:
        told.append(report.tables)
        stop.set()

    def fail(error: NeveError) -> None:
        failed.append(error)
        other.close()

    with ExitStack() as other:
        other.enter_context(hold_worker_lease(documents, LEASE, seconds=60, what="test"))
        run_nightly(NightlyRun(almost, documents), (), tell, fail, stop)
    assert told == [()]
    assert [type(one) for one in failed] == [LeaseTaken]


def test_a_run_holds_a_lease_and_a_time_limit(shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run is refused; when the time is up staging stops, and the attempt waits for the next run."""
    pilot, documents = pilot_in(shop, tmp_path, time_limit_seconds=100)
    clock = iter([0.0, 0.0, 101.0, 101.0, 102.0])
    nightly = NightlyRun(pilot, documents, monotonic=lambda: next(clock))
    with hold_worker_lease(documents, LEASE, seconds=60, what="test"), pytest.raises(LeaseTaken):
        NightlyRun(pilot, documents).run()

    def slow(_rollout: object, _change: object, progress: Callable[[int, int], None]) -> None:
        progress(1, 2)

    monkeypatch.setattr(type(pilot.rollout), "stage", slow)
    result = nightly.run()
    assert result.tables[0].stage == Stage.RECOMMENDED
    assert "reached its time limit of 100 s" in result.tables[0].reason
    assert not result.has_failed
    late = NightlyRun(pilot, documents, monotonic=iter([0.0, 200.0, 200.0]).__next__).run()
    assert (late.tables, late.left) == ((), (TABLE,))
    assert issubclass(TimeLimitReached, Exception)


def test_a_run_that_is_cancelled_leaves_its_attempt_to_the_next(
    shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no failure: nothing is taken back, no other table has its turn, and the next run goes on."""

    def given_up(step: str, done: int, total: int) -> None:
        raise Cancelled(f"cancelled at {done} of {total} of {step}")

    def slow(_rollout: object, _change: object, progress: Callable[[int, int], None]) -> None:
        progress(1, 2)
        raise LakeError("it went on")

    pilot, documents = pilot_in(shop, tmp_path, tables=["shop.*", "telemetry.*"])
    monkeypatch.setattr(type(pilot.rollout), "stage", slow)
    told: list[str] = []
    with pytest.raises(Cancelled, match="1 of 2 of stage"):
        NightlyRun(replace(pilot, progress=given_up), documents, on_report=lambda one: told.append(one.table)).run()
    assert told == []
    [attempt] = pilot.history.attempts()
    assert attempt.stage is Stage.RECOMMENDED
    [again, *_others] = NightlyRun(pilot, documents).run().tables
    assert (again.attempt_id, again.reason) == (attempt.id, "it went on")


def test_old_variables_fill_what_is_not_set() -> None:
    """A setting wins over a variable; a wrong variable is named."""
    config = AutopilotConfig.model_validate({"logs": {"trino": {"host": "here"}}})
    variables = {"TRINO_HOST": "there", "TRINO_PORT": "81", "LOOKBACK_DAYS": "3", "LAKEFS_SECRET_KEY": "s"}
    found = apply_environment(config, variables)
    assert (found.logs.trino.host, found.logs.trino.port, found.logs.lookback_days) == ("here", 81, 3)
    assert found.stage.lakefs.secret_key.get_secret_value() == "s"
    assert apply_environment(config, {}) is config
    with pytest.raises(ConfigError, match="CLICKHOUSE_PORT is wrong"):
        apply_environment(config, {"CLICKHOUSE_PORT": "many"})


def test_patterns_spare_tables_that_neve_keeps_for_itself() -> None:
    """They are looked after only by their full names."""
    assert matches_table("telemetry.spans", "telemetry.*")
    assert not matches_table("telemetry.ingested_files", "telemetry.*")
    assert matches_table("telemetry.ingested_files", "ingested_files")
    assert not matches_table("shop.orders", "orders")


def test_a_canary_asks_every_kind_of_query() -> None:
    """Kinds weigh as often as they were asked, however many of each are chosen."""

    def asked(number: int, text: str) -> Query:
        at = NOW - timedelta(minutes=number)
        return Query(str(number), "trino", at, text, 1.0, (TableUse(TABLE, Test("customer", "eq", (number,))),))

    queries = [asked(number, f"SELECT id FROM orders WHERE customer = {number}") for number in range(10)]
    queries += [asked(99, "SELECT max(price) FROM orders"), asked(100, "")]
    found = select_hot_queries(TABLE, queries, 4)
    assert [one.text for one in found] == [
        *(f"SELECT id FROM orders WHERE customer = {number}" for number in range(3)),
        "SELECT max(price) FROM orders",
    ]
    assert sum(one.weight for one in found) == pytest.approx(11)
    assert select_hot_queries("shop.other", queries, 4) == []
    acme, other = (replace(queries[0], implied=(Test("organization_id", "eq", (name,)),)) for name in ("acme", "other"))
    of_both = select_hot_queries(TABLE, [acme, other, acme], 4)
    assert [(one.text, one.implied) for one in of_both] == [(acme.text, acme.implied), (other.text, other.implied)]
    assert len({one.name for one in of_both}) == 2
    own = ["SELECT 1 FROM shop.orders", "SELECT 1 FROM shop.other", "SELECT ((("]
    assert [one.text for one in select_own_queries(TABLE, own, NOW)] == [own[0], own[2]]


def test_past_outcomes_correct_promises() -> None:
    """What delivered half of what it promised has to promise twice as much; the estimate itself is kept."""
    half = [outcome_of(30.0, number) for number in range(3)]
    [kept] = expect_gains(advice(0.7), half, 0.3).gains
    assert [kept.raw.low_pct, kept.calibrated.low_pct] == pytest.approx([70, 35])
    assert "delivered 0.50" in kept.lesson
    refused = expect_gains(advice(0.4), half, 0.3)
    assert refused.gains == ()
    assert "the lower bound is 20 %, expected at least 30 %" in refused.advice.rejected[0].reason
    assert refused.advice.reason
    assert expect_gains(advice(0.4), [], 0.3).gains[0].lesson == ""


def test_what_was_taken_back_is_not_tried_again_soon() -> None:
    """Unless another layout is meant, or enough days have passed."""
    past = [attempt_of(Stage.RECOMMENDED, Stage.ROLLED_BACK)]
    assert "tried as a1" in find_recent_rollback(past, AFTER, NOW + timedelta(days=2), 3)
    assert find_recent_rollback(past, AFTER, NOW + timedelta(days=4), 3) == ""
    assert find_recent_rollback(past, BEFORE, NOW, 3) == ""
    assert list(list_layout_changes(past[0])) == []


def test_metrics_have_the_names_of_old(tmp_path: Path) -> None:
    """Counted from the history, so that each night goes on where the last one ended."""
    history = History(SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db")))))
    history.begin(attempt_of(Stage.RECOMMENDED, Stage.STAGED, Stage.CANARY, Stage.ROLLED_BACK))
    history.begin(replace(attempt_of(Stage.RECOMMENDED, Stage.MERGED), id="a2"))
    history.deliver(outcome_of(40.0, 1))
    history.deliver(outcome_of(60.0, 2))
    with serve_metrics(history, "127.0.0.1", 0) as port:
        text = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"), serve_metrics(history, "127.0.0.1", port):
            pass
    for line in (
        "autopilot_recommendations_total 2.0",
        "autopilot_optimizations_executed 1.0",
        "autopilot_scan_reduction_pct 50.0",
        "autopilot_canary_failures 1.0",
    ):
        assert line in text.splitlines()
