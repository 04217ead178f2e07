"""Reviews on forges: whose count, on what, and what they come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from neve.autopilot.propose.forge import ProposalState
from neve.autopilot.propose.proposals import Proposals, build_forge
from tests.autopilot.propose.conftest import github_config, gitlab_config
from tests.autopilot.propose.examples import OTHER, PROPOSAL
from tests.autopilot.propose.hosted import Pull

if TYPE_CHECKING:
    from tests.autopilot.propose.github_server import GitHubServer
    from tests.autopilot.propose.gitlab_server import GitLabServer


def on_github(server: GitHubServer, **more: Any) -> Proposals:
    """Proposals with one made."""
    config = github_config(server, **more)
    proposals = Proposals(build_forge(config), config)
    proposals.propose(PROPOSAL)
    return proposals


def review(server: GitHubServer, name: str, state: str, association: str = "MEMBER", sha: str = "") -> None:
    """Somebody reviews what is there."""
    pull = server.hosted.pulls[-1]
    head = sha or server.hosted.branches[pull.branch]
    pull.reviews.append({"user": {"login": name}, "state": state, "author_association": association, "commit_id": head})


def test_a_review_approves_before_a_merge(github: GitHubServer) -> None:
    """And the autopilot merges what it was told to."""
    proposals = on_github(github)
    review(github, "ada", "APPROVED")
    verdict = proposals.state(PROPOSAL)
    assert (verdict.state, verdict.reason, verdict.is_merged) == (ProposalState.APPROVED, "approved by ada", False)
    assert proposals.merge(PROPOSAL).is_merged
    assert github.hosted.pulls[0].state == "merged"


@pytest.mark.parametrize(
    ("reviews", "said"),
    [
        ([("ada", "COMMENTED", "MEMBER", "")], "0 of 1"),
        ([("eve", "APPROVED", "NONE", "")], "0 of 1"),
        ([("eve", "APPROVED", "CONTRIBUTOR", "")], "0 of 1"),
        ([("ada", "APPROVED", "MEMBER", "0" * 40)], "0 of 1"),
        ([("ada", "APPROVED", "OWNER", ""), ("ada", "DISMISSED", "OWNER", "")], "0 of 1"),
        ([("ada", "APPROVED", "OWNER", ""), ("bob", "CHANGES_REQUESTED", "COLLABORATOR", "")], "requested by bob"),
    ],
)
def test_not_every_review_counts(github: GitHubServer, reviews: list[tuple[str, str, str, str]], said: str) -> None:
    """Strangers, comments, older commits, approvals that were withdrawn, and objections of others."""
    proposals = on_github(github)
    for one in reviews:
        review(github, *one)
    verdict = proposals.state(PROPOSAL)
    assert verdict.state is ProposalState.OPEN
    assert said in verdict.reason


def test_the_last_word_counts_on_whatever_page(github: GitHubServer) -> None:
    """After a hundred others, on the second page."""
    proposals = on_github(github, approvals=2)
    review(github, "bob", "CHANGES_REQUESTED")
    for _ in range(100):
        review(github, "ada", "APPROVED")
    review(github, "bob", "APPROVED")
    assert proposals.state(PROPOSAL).state is ProposalState.APPROVED


def test_without_reviews_only_a_merge_approves(github: GitHubServer) -> None:
    """Where the setting says 0."""
    proposals = on_github(github, approvals=0)
    review(github, "ada", "APPROVED")
    assert proposals.state(PROPOSAL).reason == "waiting for a merge"


def test_a_proposal_again_keeps_its_approvals(github: GitHubServer) -> None:
    """No new commit, so nobody has to look again."""
    proposals = on_github(github)
    review(github, "ada", "APPROVED")
    proposals.propose(PROPOSAL)
    assert proposals.state(PROPOSAL).state is ProposalState.APPROVED


def test_a_stale_proposal_whose_branch_is_gone_is_opened_anew(github: GitHubServer) -> None:
    """GitHub opens no pull request again whose branch was deleted."""
    proposals = on_github(github)
    proposals.refresh(PROPOSAL, OTHER)
    assert github.hosted.pulls[0].title.startswith("[stale] ")
    assert "**Stale:** the table has changed" in github.hosted.pulls[0].body
    del github.hosted.branches[github.hosted.pulls[0].branch]
    assert proposals.propose(PROPOSAL).action == "opened"
    assert [one.state for one in github.hosted.pulls] == ["closed", "open"]


def test_a_branch_of_a_fork_is_not_ours(github: GitHubServer, gitlab: GitLabServer) -> None:
    """A stranger's merge request of the same name neither stands for ours nor closes it."""
    for proposals, hosted in (
        (on_github(github), github.hosted),
        (on_gitlab(gitlab), gitlab.hosted),
    ):
        hosted.pulls.append(Pull(2, hosted.pulls[0].branch, "main", "mine", "", state="closed", fork=True))
        assert proposals.state(PROPOSAL).state is ProposalState.OPEN


def on_gitlab(server: GitLabServer) -> Proposals:
    """Proposals with one made."""
    config = gitlab_config(server)
    proposals = Proposals(build_forge(config), config)
    proposals.propose(PROPOSAL)
    return proposals


def test_gitlab_counts_those_who_approved(gitlab: GitLabServer) -> None:
    """`approved` is true where nobody had to; only a name is an approval."""
    proposals = on_gitlab(gitlab)
    assert proposals.state(PROPOSAL).state is ProposalState.OPEN
    gitlab.hosted.pulls[0].reviews.append({"user": {"username": "ada"}})
    assert proposals.state(PROPOSAL).reason == "approved by ada"


def test_commits_have_the_author_of_the_settings(github: GitHubServer, gitlab: GitLabServer) -> None:
    """And a message that names the proposal."""
    on_github(github)
    on_gitlab(gitlab)
    for hosted in (github.hosted, gitlab.hosted):
        commit = hosted.commits[hosted.branches[hosted.pulls[0].branch]]
        assert commit.author == "Neve autopilot <autopilot@neve.invalid>"
        assert f"Neve-Proposal: {PROPOSAL.id}" in commit.message
