"""What every forge does with a proposal: git for real; GitHub and GitLab as servers on loopback."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from neve.autopilot.layout import TableSpec, format_spec, parse_spec, spec_has_layout
from neve.autopilot.propose.forge import ForgeError, ProposalState, StaleProposal
from neve.autopilot.propose.proposals import MergeDecision
from tests.autopilot.propose.examples import AFTER, BEFORE, OTHER, PROPOSAL, TABLE

if TYPE_CHECKING:
    from tests.autopilot.propose.conftest import Bench

PATH = f"tables/{TABLE}.yaml"
BRANCH = f"neve/autopilot/{TABLE}/{PROPOSAL.id}"


def test_a_proposal_is_one_commit_that_changes_the_spec(bench: Bench) -> None:
    """The branch has its name, one commit, and the new layout; main is as it was."""
    posted = bench.proposals.propose(PROPOSAL)
    assert (posted.branch, posted.action) == (BRANCH, "opened")
    assert bench.people.proposals() == [BRANCH]
    assert bench.people.commits(BRANCH) == 1
    assert spec_has_layout(bench.people.file(BRANCH, PATH), TABLE, AFTER)
    assert bench.people.file("main", PATH) is None
    assert bench.proposals.state(PROPOSAL).state is ProposalState.OPEN


def test_proposing_again_changes_nothing(bench: Bench) -> None:
    """The same proposal twice is one proposal, with the same commit."""
    bench.proposals.propose(PROPOSAL)
    assert bench.proposals.propose(PROPOSAL).action == "unchanged"
    assert bench.people.proposals() == [BRANCH]
    assert bench.people.commits(BRANCH) == 1


def test_proposing_again_with_other_numbers_updates(bench: Bench) -> None:
    """A second canary brings new words to the same proposal."""
    bench.proposals.propose(PROPOSAL)
    again = replace(PROPOSAL, cost_dollars=0.77)
    assert bench.proposals.propose(again).action == "updated"
    assert bench.proposals.propose(again).action == "unchanged"
    assert bench.people.proposals() == [BRANCH]
    assert bench.people.commits(BRANCH) == 1


def test_a_merge_approves(bench: Bench) -> None:
    """Whoever merges says yes; proposing it again leaves it."""
    bench.proposals.propose(PROPOSAL)
    bench.people.merge(BRANCH)
    verdict = bench.proposals.state(PROPOSAL, AFTER)
    assert (verdict.state, verdict.is_merged) == (ProposalState.APPROVED, True)
    assert bench.proposals.propose(PROPOSAL).action == "left"
    assert bench.proposals.merge(PROPOSAL) == bench.proposals.state(PROPOSAL)


def test_what_is_closed_is_rejected_and_stays_so(bench: Bench) -> None:
    """A proposal that people closed is not brought before them again."""
    bench.proposals.propose(PROPOSAL)
    bench.people.close(BRANCH)
    assert bench.proposals.state(PROPOSAL).state is ProposalState.REJECTED
    assert bench.proposals.propose(PROPOSAL).action == "left"
    assert bench.people.proposals() == []
    with pytest.raises(ForgeError, match="is rejected, expected approved"):
        bench.proposals.merge(PROPOSAL, MergeDecision(True, "within bounds"))


def test_a_spec_that_moved_on_makes_it_stale(bench: Bench) -> None:
    """Another layout on main: the proposal is closed and says why, and can't be merged or made again."""
    bench.proposals.propose(PROPOSAL)
    bench.people.write("main", PATH, format_spec(TableSpec(TABLE, OTHER)))
    verdict = bench.proposals.refresh(PROPOSAL)
    assert verdict.state is ProposalState.STALE
    assert "has changed" in verdict.reason
    assert bench.people.proposals() == []
    assert bench.proposals.state(PROPOSAL).state is ProposalState.STALE
    with pytest.raises(StaleProposal):
        bench.proposals.merge(PROPOSAL, MergeDecision(True, "within bounds"))
    with pytest.raises(StaleProposal, match="not the layout that the proposal"):
        bench.proposals.propose(PROPOSAL)


def test_a_table_that_moved_on_makes_it_stale_until_it_is_proposed_again(bench: Bench) -> None:
    """The table itself has another layout; when it is back, the same proposal is opened again."""
    bench.proposals.propose(PROPOSAL)
    assert bench.proposals.state(PROPOSAL, BEFORE).state is ProposalState.OPEN
    assert bench.proposals.refresh(PROPOSAL, OTHER).state is ProposalState.STALE
    assert bench.proposals.refresh(PROPOSAL, OTHER).state is ProposalState.STALE
    assert bench.proposals.propose(PROPOSAL).action == "updated"
    assert bench.proposals.state(PROPOSAL, BEFORE).state is ProposalState.OPEN
    assert bench.people.proposals() == [BRANCH]


def test_a_branch_that_others_changed_is_not_what_was_proven(bench: Bench) -> None:
    """Somebody writes another layout to the branch: it is stale, and the forge does not merge it."""
    bench.proposals.propose(PROPOSAL)
    bench.people.write(BRANCH, PATH, format_spec(TableSpec(TABLE, OTHER)))
    assert "was changed" in bench.proposals.state(PROPOSAL).reason
    with pytest.raises(ForgeError, match="can't be merged"):
        bench.forge.merge(bench.proposals.change(PROPOSAL))


def test_a_decision_merges_what_nobody_approved(bench: Bench) -> None:
    """The autopilot merges within its bounds; without a decision it waits."""
    bench.proposals.propose(PROPOSAL)
    with pytest.raises(ForgeError, match="is open, expected approved"):
        bench.proposals.merge(PROPOSAL)
    with pytest.raises(ForgeError, match="too large"):
        bench.proposals.merge(PROPOSAL, MergeDecision(False, "too large"))
    assert bench.proposals.merge(PROPOSAL, MergeDecision(True, "within bounds")).is_merged
    assert spec_has_layout(bench.people.file("main", PATH), TABLE, AFTER)
    assert bench.people.proposals() == []


def test_properties_of_the_file_stay(bench: Bench) -> None:
    """What people wrote beside the layout is on the branch, too."""
    properties = (("write.format.default", "parquet"),)
    bench.forge.fetch_state(bench.proposals.change(PROPOSAL))
    bench.people.write("main", PATH, format_spec(TableSpec(TABLE, BEFORE, properties)))
    bench.proposals.propose(PROPOSAL)
    assert parse_spec(bench.people.file(BRANCH, PATH) or "") == TableSpec(TABLE, AFTER, properties)


def test_what_was_taken_back_can_be_proposed_again(bench: Bench) -> None:
    """A merge that was reverted on main is a rejection, until somebody proposes it anew."""
    bench.proposals.propose(PROPOSAL)
    bench.people.merge(BRANCH)
    bench.people.write("main", PATH, format_spec(TableSpec(TABLE, BEFORE)))
    assert bench.proposals.state(PROPOSAL).state is ProposalState.REJECTED
    assert bench.proposals.propose(PROPOSAL).action == "opened"
    assert bench.proposals.state(PROPOSAL).state is ProposalState.OPEN
    assert bench.people.commits(BRANCH) == 1
    bench.people.merge(BRANCH)
    assert bench.proposals.state(PROPOSAL).is_merged


def test_what_was_never_proposed_has_no_state(bench: Bench) -> None:
    """A question about nothing is an error with a hint."""
    with pytest.raises(ForgeError, match="does not exist"):
        bench.proposals.state(PROPOSAL)


def test_two_tables_with_odd_names_do_not_meet(bench: Bench) -> None:
    """Names that git or an address would not take have branches and files of their own."""
    odd = [replace(PROPOSAL, table=name) for name in ("lake.a b%2F", "lake.a/b?#.lock", "lake.ä..~^:")]
    for proposal in odd:
        assert bench.proposals.propose(proposal).action == "opened"
    assert len(set(bench.people.proposals())) == 3
    assert {bench.proposals.state(proposal).state for proposal in odd} == {ProposalState.OPEN}
