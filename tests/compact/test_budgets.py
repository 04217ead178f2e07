"""Budgets by organization: what is cut and why, whom it does not concern, and that nothing is spent twice."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.compact.budgets import (
    Allowances,
    BudgetLedger,
    OrganizationBudget,
    Spent,
    apply_budgets,
    find_organization_places,
)
from neve.compact.compactor import Compactor
from neve.compact.config import CompactConfig
from neve.compact.execution.duplicate_search import add_duplicate_groups
from neve.compact.execution.group_runner import GroupRunner
from neve.compact.health import Measure
from neve.compact.journal import Journal
from neve.compact.plan import InputFile
from neve.compact.planning.groups import make_dedupe_group
from neve.compact.planning.limits import Limits
from neve.compact.planning.plan_builder import make_plan
from neve.compact.strategies import strategy_of
from neve.errors import Cancelled, LakeError, NeveError
from tests.compact.model import TARGET, ModelFile, ModelTable, Tended
from tests.compact.tables import documents_in, fill_logs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from neve.compact.plan import Plan
    from neve.lake.lake import Lake
    from neve.lake.read.file_index import IndexedFile
    from neve.lake.read.partition_stats import PartitionId

FRAGMENT = TARGET // 100
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
PLACES = {0: 0}
ROUNDING = 1 + 1e-6


def partition_of(organization: str, day: int, files: int, size: int = FRAGMENT) -> list[ModelFile]:
    """Small files of one organization and day."""
    return [ModelFile(size, partition=f'["{organization}",{day}]') for _file in range(files)]


def planned(files: list[ModelFile], allowances: Allowances, config: CompactConfig | None = None) -> Plan:
    """The plan of a table of organizations and days."""
    tended = Tended(ModelTable(files, fields=("organization_id", "day")), "small_files", config or CompactConfig())
    question = tended.question
    measures = [Measure(stats, tended.facts.sizes) for stats in tended.table.stats(question)]

    def fetch(wanted: Mapping[PartitionId, bool], most: int) -> dict[PartitionId, list[IndexedFile]]:
        return tended.table.candidates(question, wanted, most)

    limits = Limits.of(tended.config)
    return make_plan(tended.context, strategy_of("small_files"), measures, fetch, limits, allowances)


def allowed(*budgets: OrganizationBudget, **spent: Spent) -> Allowances:
    """Budgets of which something is spent."""
    return Allowances(budgets, PLACES, spent)


def spent_by(plan: Plan, organization: str) -> Spent:
    """What a plan takes for an organization."""
    return Spent.of([group for group in plan.groups if group.partition.values[0] == organization])


def labels(plan: Plan) -> set[str]:
    """The partitions that are rewritten."""
    return {group.partition.label for group in plan.groups}


def test_what_a_budget_cuts_is_said() -> None:
    """With the organization, the budget, what is left of it, and what this takes; others go on."""
    files = [*partition_of("acme", 1, 12), *partition_of("acme", 2, 20), *partition_of("beta", 1, 12)]
    budget = OrganizationBudget("acme", bytes_per_day=25 * FRAGMENT)
    plan = planned(files, allowed(budget, acme=Spent(bytes=4 * FRAGMENT)))
    assert labels(plan) == {"organization_id=acme/day=2", "organization_id=beta/day=1"}
    [cut] = plan.cut
    assert (cut.partition.label, cut.files, cut.limit) == ("organization_id=acme/day=1", 12, "bytes_per_day")
    assert cut.reason == (
        "12 files of 120 kB are postponed to another day: the budget of organization 'acme' has 10 kB of 250 kB left "
        "today (bytes_per_day), and this needs 120 kB"
    )
    assert plan.reason.endswith("1 partition cut by a limit")


def test_what_no_day_could_pay_is_said() -> None:
    """The person is told to raise the budget; smaller work of the same organization has its turn."""
    files = [*partition_of("acme", 1, 12), *partition_of("acme", 2, 40)]
    plan = planned(files, allowed(OrganizationBudget("*", bytes_per_day=20 * FRAGMENT)))
    assert labels(plan) == {"organization_id=acme/day=1"}
    assert plan.cut[0].reason.endswith("and this needs 400 kB: more than a whole day's, raise it")


def test_dollars_are_a_budget_too() -> None:
    """A hair more than nothing allows nothing."""
    plan = planned(partition_of("acme", 1, 12), allowed(OrganizationBudget("acme", dollars_per_day=1e-12)))
    assert plan.groups == ()
    assert [cut.limit for cut in plan.cut] == ["dollars_per_day"]
    assert "organization 'acme' has $0.000000000001 of $0.000000000001 left today" in plan.cut[0].reason


def test_who_has_no_budget_left_takes_nothing_of_the_run() -> None:
    """The largest work is an organization's that may do nothing today: the limits of the run are there for others."""
    files = [*partition_of("acme", 1, 40), *partition_of("beta", 1, 12)]
    config = CompactConfig(max_files=40)
    assert labels(planned(files, Allowances(), config)) == {"organization_id=acme/day=1"}
    used_up = allowed(OrganizationBudget("acme", bytes_per_day=1), acme=Spent(bytes=1))
    assert labels(planned(files, used_up, config)) == {"organization_id=beta/day=1"}


def test_the_first_budget_that_matches_counts() -> None:
    """And each organization that a pattern matches has it for itself."""
    allowances = allowed(OrganizationBudget("acme", bytes_per_day=1), OrganizationBudget("*", bytes_per_day=10**9))
    files = [*partition_of("acme", 1, 12), *partition_of("beta", 1, 12), *partition_of("Acme", 1, 12)]
    assert labels(planned(files, allowances)) == {"organization_id=beta/day=1", "organization_id=Acme/day=1"}


def test_partitions_that_are_nobodys_have_no_budget() -> None:
    """Of a spec without the organization, and of no organization at all."""
    files = [ModelFile(FRAGMENT, partition="[null,1]") for _file in range(12)]
    everybody = OrganizationBudget("*", bytes_per_day=1)
    assert len(planned(files, allowed(everybody)).groups) == 1
    assert len(planned(partition_of("acme", 1, 12), Allowances((everybody,), {7: 0})).groups) == 1


files_of_all = st.lists(
    st.tuples(st.sampled_from(["acme", "beta", "free"]), st.integers(1, 3), st.integers(1, TARGET)),
    min_size=1,
    max_size=60,
)


@settings(max_examples=60)
@given(files_of_all, st.integers(1, 8 * TARGET), st.integers(0, 4 * TARGET), st.floats(1e-6, 1e-3))
def test_no_plan_passes_a_budget_and_others_are_not_touched(
    files: list[tuple[str, int, int]], budget: int, before: int, dollars: float
) -> None:
    """Bytes and dollars of a day, those before included; who has no budget is planned for as without any."""
    data = [ModelFile(size, partition=f'["{name}",{day}]') for name, day, size in files]
    budgets = (OrganizationBudget("acme", bytes_per_day=budget), OrganizationBudget("beta", dollars_per_day=dollars))
    plan = planned(data, allowed(*budgets, acme=Spent(bytes=before)))
    free = planned(data, Allowances())
    assert not spent_by(plan, "acme").bytes or before + spent_by(plan, "acme").bytes <= budget
    assert spent_by(plan, "beta").dollars <= dollars * ROUNDING
    assert [one for one in plan.groups if one.partition.values[0] == "free"] == [
        one for one in free.groups if one.partition.values[0] == "free"
    ]
    assert all(cut.partition.values[0] != "free" for cut in plan.cut)
    assert {group.id for group in plan.groups} <= {group.id for group in free.groups}
    assert sum(len(one.files) for one in plan.groups) + sum(cut.files for cut in plan.cut) == sum(
        len(one.files) for one in free.groups
    )


@settings(max_examples=25)
@given(files_of_all, st.integers(1, 6 * TARGET), st.integers(1, 5))
def test_no_day_passes_a_budget_however_many_runs(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[str, int, int]], budget: int, runs: int
) -> None:
    """Every run pays for what it takes, also where it planned before the others had paid."""
    data = [ModelFile(size, partition=f'["{name}",{day}]') for name, day, size in files]
    ledger = BudgetLedger.at(documents_in(tmp_path_factory.mktemp("b")), NOON)
    allowances = allowed(OrganizationBudget("acme", bytes_per_day=budget))
    plan = planned(data, allowances)
    paid = [ledger.pay(plan, allowances) for _run in range(runs)]
    taken = sum(spent_by(one, "acme").bytes for one in paid)
    assert taken <= budget
    assert ledger.spent().get("acme", Spent()).bytes == taken
    assert paid[0] == plan
    assert "beta" not in ledger.spent()
    assert all(spent_by(one, "beta") == spent_by(plan, "beta") for one in paid)


def test_two_at_once_do_not_spend_the_same_money(tmp_path: Path) -> None:
    """Eight workers, and a budget for three of them."""
    allowances = allowed(OrganizationBudget("acme", bytes_per_day=40 * FRAGMENT))
    plan = planned(partition_of("acme", 1, 12), allowances)
    taken: list[int] = []

    def work() -> None:
        taken.append(len(BudgetLedger.at(documents_in(tmp_path), NOON).pay(plan, allowances).groups))

    threads = [threading.Thread(target=work) for _worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [0, 0, 0, 0, 0, 1, 1, 1]
    assert BudgetLedger.at(documents_in(tmp_path), NOON).spent() == {"acme": Spent.of(plan.groups * 3)}


def test_what_was_not_begun_is_given_back(tmp_path: Path) -> None:
    """So that another run may have it; a day has its own budget, and old days are forgotten."""
    documents = documents_in(tmp_path)
    ledger, allowances = BudgetLedger.at(documents, NOON), allowed(OrganizationBudget("acme/b", bytes_per_day=10**6))
    plan = planned(partition_of("acme/b", 1, 12), allowances)
    ledger.pay(plan, allowances)
    assert ledger.spent() == {"acme/b": Spent.of(plan.groups)}
    ledger.refund(plan.groups, allowances)
    assert ledger.spent() == {"acme/b": Spent()}
    assert BudgetLedger.at(documents, NOON + timedelta(days=1)).spent() == {}
    BudgetLedger.at(documents, NOON + timedelta(days=60)).pay(plan, allowances)
    assert ledger.spent() == {}


def test_what_a_cancelled_run_did_not_begin_is_given_back(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two groups the first was begun, and is all that the organization has paid for."""
    seen = broken_off(lake, tmp_path, monkeypatch, Cancelled("it was told to stop"))
    [begun] = [group for run in seen.runs() for group in run.plan.groups[:1]]
    assert [entry.group.id for run in seen.runs() for entry in seen.entries(run.id)] == [begun.id]
    assert BudgetLedger.at(documents_in(tmp_path), NOON).spent() == {"acme": Spent.of([begun])}


def test_what_another_one_has_settled_stays_spent(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was taken for dead finds nothing in the journal of what it began: it gives nothing back."""
    seen = broken_off(lake, tmp_path, monkeypatch, LakeError("the lease is lost"), settled=True)
    assert list(seen.runs()) == []
    assert BudgetLedger.at(documents_in(tmp_path), NOON).spent()["acme"].bytes > 0


def broken_off(
    lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch, error: NeveError, *, settled: bool = False
) -> Journal:
    """The journal of a run of two groups that ended in an error after the first; perhaps another one settled it."""
    for first in (0, 200_000):  # seconds: these are of different days
        fill_logs(lake, files=3, rows=2, first=first)
    documents = documents_in(folder)
    journal = Journal(documents, "telemetry.logs")
    config = CompactConfig(fragments=2, hot_seconds=0, deduplicate=False, concurrency=1)
    budget = OrganizationBudget("acme", bytes_per_day=10**9)
    compactor = Compactor(lake, documents=documents, config=config, budgets=(budget,), clock=lambda: NOON)
    assert len(compactor.plan("logs").groups) == 2

    def unwritten(*_given: object) -> None:
        raise LakeError("no room left")

    def give_up(_done: int, _total: int) -> None:
        for run in list(journal.runs()) if settled else ():
            journal.end(run.id)
        raise error

    monkeypatch.setattr("neve.compact.execution.group_runner.BUNDLE_GROUPS", 1)
    monkeypatch.setattr(GroupRunner, "_by_arrow", unwritten)
    with pytest.raises(type(error)):
        compactor.compact("logs", progress=give_up)
    return journal


def test_a_partition_is_cut_whole_where_others_were_quicker() -> None:
    """It is not remembered as laid out, nor as looked through for duplicates."""
    allowances = allowed(OrganizationBudget("acme", bytes_per_day=13 * FRAGMENT))
    plan = planned([*partition_of("acme", 1, 12), *partition_of("beta", 1, 12)], allowances)
    own = next(group.partition for group in plan.groups if group.partition.values[0] == "acme")
    marked = type(plan)(**{**vars(plan), "lays_out": (own,), "check_duplicates": (own,)})
    assert apply_budgets(marked, allowances) is marked
    cut = apply_budgets(marked, allowed(*allowances.budgets, acme=Spent(bytes=2 * FRAGMENT)))
    assert (cut.lays_out, cut.check_duplicates) == ((), ())
    assert labels(cut) == {"organization_id=beta/day=1"}
    assert [one.partition for one in cut.cut] == [own]


def test_the_removal_of_duplicates_is_paid_for() -> None:
    """One that is over the budget leaves the partition the groups that it has, and is looked for again."""
    allowances = allowed(OrganizationBudget("acme", bytes_per_day=15 * FRAGMENT))
    plan = planned(partition_of("acme", 1, 12), allowances)
    partition = plan.groups[0].partition
    context = Tended(ModelTable(partition_of("acme", 1, 12))).context
    large = make_dedupe_group(partition, [InputFile("a", 16 * FRAGMENT, 10, 1)], 3, context)
    small = make_dedupe_group(partition, [InputFile("a", 14 * FRAGMENT, 10, 1)], 3, context)
    asked = type(plan)(**{**vars(plan), "check_duplicates": (partition,)})
    kept = add_duplicate_groups(asked, [large], Limits(), allowances)
    assert (kept.groups, kept.check_duplicates) == (plan.groups, ())
    assert kept.cut[0].limit == "bytes_per_day"
    taken = add_duplicate_groups(asked, [small], Limits(), allowances)
    assert (taken.groups, taken.check_duplicates, taken.cut) == ((small,), (partition,), ())


@pytest.mark.long
def test_runs_pay_and_stop_when_nothing_is_left(spark_lake: Lake, tmp_path: Path) -> None:
    """On a real table: too small a budget leaves the files as they are and says so, a larger one is charged."""
    fill_logs(spark_lake)
    documents, eager = documents_in(tmp_path), CompactConfig(fragments=2, hot_seconds=0)
    [organization] = {row["organization_id"] for row in spark_lake.table("logs").scan().to_arrow().to_pylist()}

    def compactor(limit: int) -> Compactor:
        budget = OrganizationBudget(organization, bytes_per_day=limit)
        return Compactor(spark_lake, documents=documents, config=eager, budgets=(budget,), clock=lambda: NOON)

    poor = compactor(1).compact("logs")
    assert (poor.planned, poor.cut) == (0, 1)
    assert BudgetLedger.at(documents, NOON).spent() == {}
    plan = compactor(10**9).plan("logs")
    rich = compactor(10**9).compact("logs")
    assert (rich.files_in, rich.files_out) == (6, 1)
    assert BudgetLedger.at(documents, NOON).spent() == {organization: Spent.of(plan.groups)}
    fill_logs(spark_lake, first=1000)
    [cut] = compactor(rich.bytes_in + 1).plan("logs").cut
    assert f"organization {organization!r} has 1 B of" in cut.reason


def test_where_the_organization_stands(lake: Lake) -> None:
    """In every one of the lake's tables that have it in their partitions, after a change of the spec too."""
    table = lake.table("spans")
    assert find_organization_places(table) == {0: 0}
    with table.update_spec() as update:
        update.remove_field("organization_id")
    assert find_organization_places(lake.table("spans")) == {0: 0}
