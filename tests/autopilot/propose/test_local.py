"""Proposals in git itself: work trees stay as they are, patches apply, and nothing of the environment gets in."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from neve.autopilot.config import ProposeConfig
from neve.autopilot.layout import spec_has_layout
from neve.autopilot.propose.forge import ForgeError, ProposalState
from neve.autopilot.propose.local_git import Git, build_environment
from neve.autopilot.propose.proposals import MergeDecision, Proposals, build_forge
from neve.errors import EnvironmentFault
from tests.autopilot.propose.examples import AFTER, OTHER, PROPOSAL, TABLE
from tests.autopilot.propose.people import GitPeople

PATH = f"tables/{TABLE}.yaml"
BRANCH = f"neve/autopilot/{TABLE}/{PROPOSAL.id}"
YES = MergeDecision(True, "within bounds")


def proposals_in(folder: Path, **more: Any) -> Proposals:
    """Proposals in a repository."""
    config = ProposeConfig(repository=str(folder), **more)
    return Proposals(build_forge(config), config)


def git(folder: Path, *arguments: str) -> str:
    """A command of somebody else."""
    env = build_environment(ProposeConfig(author_name="A Person"))
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_work_tree_is_left_as_it_is(tmp_path: Path) -> None:
    """A new repository is clean; what somebody is writing there stays, and stays unstaged."""
    proposals_in(tmp_path).propose(PROPOSAL)
    assert git(tmp_path, "status", "--porcelain") == ""
    (tmp_path / "README.md").write_text("in the middle of it")
    (tmp_path / "tables").mkdir()
    proposals = proposals_in(tmp_path, author_name="Somebody Else")
    proposals.propose(PROPOSAL)
    proposals.refresh(PROPOSAL, OTHER)
    assert git(tmp_path, "status", "--porcelain") == " M README.md\n"
    assert git(tmp_path, "symbolic-ref", "HEAD") == "refs/heads/main\n"


def test_the_patch_applies_elsewhere(tmp_path: Path) -> None:
    """`git am` in another clone makes the same file, with the author of the settings; that approves it, too."""
    posted = proposals_in(tmp_path / "a", author_name="Autopilot", patches=str(tmp_path / "out")).propose(PROPOSAL)
    assert Path(posted.patch).parent == tmp_path / "out"
    git(tmp_path, "clone", "--quiet", "a", "b")
    git(tmp_path / "b", "am", "--quiet", posted.patch)
    assert git(tmp_path / "b", "log", "-1", "--format=%an") == "Autopilot\n"
    assert git(tmp_path / "b", "show", f"HEAD:{PATH}") == git(tmp_path / "a", "show", f"{BRANCH}:{PATH}")
    assert "## Rollback" in (tmp_path / "b" / "proposals" / TABLE / f"{PROPOSAL.id}.md").read_text()


def test_looking_at_a_proposal_does_not_approve_it(tmp_path: Path) -> None:
    """Whoever checks its branch out has not merged it, and does not lose it under their feet."""
    proposals = proposals_in(tmp_path)
    proposals.propose(PROPOSAL)
    git(tmp_path, "checkout", "--quiet", BRANCH)
    assert proposals.state(PROPOSAL).state is ProposalState.OPEN
    assert proposals.propose(PROPOSAL).action == "unchanged"
    for change in (
        lambda: proposals.refresh(PROPOSAL, OTHER),
        lambda: proposals.propose(replace(PROPOSAL, cost_seconds=1)),
    ):
        with pytest.raises(ForgeError, match="is checked out in"):
            change()
    assert git(tmp_path, "status", "--porcelain") == ""
    assert proposals.merge(PROPOSAL, YES).is_merged
    assert git(tmp_path, "status", "--porcelain") == ""


def test_a_squash_approves(tmp_path: Path) -> None:
    """The spec on main is what counts, whichever way it came there."""
    proposals = proposals_in(tmp_path)
    proposals.propose(PROPOSAL)
    git(tmp_path, "merge", "--quiet", "--squash", BRANCH)
    git(tmp_path, "commit", "--quiet", "-m", "squashed")
    git(tmp_path, "branch", "-D", BRANCH)
    assert proposals.state(PROPOSAL).is_merged


def test_what_is_stale_is_a_tag_that_says_why(tmp_path: Path) -> None:
    """No branch that somebody could merge, no patch that somebody could apply."""
    proposals = proposals_in(tmp_path)
    patch = Path(proposals.propose(PROPOSAL).patch)
    assert patch.exists()
    proposals.refresh(PROPOSAL, OTHER)
    assert "the table has changed" in git(tmp_path, "tag", "-n9", "-l", "neve/stale/*")
    assert git(tmp_path, "branch", "--list", "neve/*") == ""
    assert not patch.exists()


def test_the_autopilot_merges_where_nobody_is(tmp_path: Path) -> None:
    """In a bare repository, and where another branch is checked out: no work tree is left behind."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "first")
    git(tmp_path / "first", "commit", "--quiet", "--allow-empty", "-m", "begin")
    for folder, arguments in ((tmp_path / "bare", ["clone", "--bare"]), (tmp_path / "other", ["clone"])):
        git(tmp_path, *arguments, "--quiet", "first", str(folder))
        if folder.name == "other":
            git(folder, "checkout", "--quiet", "-b", "mine")
        proposals = proposals_in(folder, default_branch="main")
        proposals.propose(PROPOSAL)
        assert proposals.merge(PROPOSAL, YES).is_merged
        assert spec_has_layout(git(folder, "show", f"main:{PATH}"), TABLE, AFTER)
        assert len(git(folder, "worktree", "list").splitlines()) == 1
    assert git(tmp_path / "other", "status", "--porcelain") == ""


def test_a_merge_that_would_overwrite_is_refused(tmp_path: Path) -> None:
    """Somebody has the file open and not committed: nothing is lost, and the branch waits."""
    proposals = proposals_in(tmp_path)
    proposals.propose(PROPOSAL)
    (tmp_path / "tables").mkdir()
    (tmp_path / PATH).write_text("mine")
    with pytest.raises(ForgeError, match="would be overwritten by merge"):
        proposals.merge(PROPOSAL, YES)
    assert (tmp_path / PATH).read_text() == "mine"
    assert proposals.state(PROPOSAL).state is ProposalState.OPEN


def test_a_merge_that_conflicts_is_taken_back(tmp_path: Path) -> None:
    """Main got a file in the place of the proposal's own: no half of a merge is left."""
    proposals = proposals_in(tmp_path)
    proposals.propose(PROPOSAL)
    GitPeople(tmp_path).write("main", f"proposals/{TABLE}/{PROPOSAL.id}.md", "other words")
    with pytest.raises(ForgeError, match="git merge failed"):
        proposals.merge(PROPOSAL, YES)
    assert git(tmp_path, "status", "--porcelain") == ""


def test_a_remote_has_all_of_it(tmp_path: Path) -> None:
    """Two machines share it: one proposes, people reject on the remote, the other knows; and the same for a merge."""
    proposals_in(tmp_path / "seed").propose(replace(PROPOSAL, table="lake.other"))
    git(tmp_path, "clone", "--quiet", "--bare", "seed", "hub")
    for name in ("one", "two"):
        git(tmp_path, "clone", "--quiet", "hub", name)
    one, two = (proposals_in(tmp_path / name, remote="origin") for name in ("one", "two"))
    assert one.propose(PROPOSAL).action == "opened"
    assert two.propose(PROPOSAL).action == "unchanged"
    two.refresh(PROPOSAL, OTHER)
    assert one.state(PROPOSAL).state is ProposalState.STALE
    assert one.propose(PROPOSAL).action == "updated"
    assert two.state(PROPOSAL).state is ProposalState.OPEN
    git(tmp_path / "hub", "branch", "-D", BRANCH)
    assert two.state(PROPOSAL).state is ProposalState.REJECTED
    git(tmp_path / "hub", "branch", BRANCH, f"refs/neve/proposed/{TABLE}/{PROPOSAL.id}")
    assert two.merge(PROPOSAL, YES).is_merged
    assert one.state(PROPOSAL).is_merged
    assert spec_has_layout(git(tmp_path / "hub", "show", f"main:{PATH}"), TABLE, AFTER)


def test_the_environment_stays_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither variables, nor a user's configuration, nor hooks change what is done."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[commit]\n\tgpgSign = true\n[user]\n\tname = Wrong\n")
    for name, value in (("HOME", tmp_path / "home"), ("GIT_DIR", "/nowhere"), ("GIT_AUTHOR_NAME", "Wrong")):
        monkeypatch.setenv(name, str(value))
    folder = tmp_path / "specs"
    proposals = proposals_in(folder)
    proposals.propose(PROPOSAL)
    for name in ("pre-merge-commit", "commit-msg", "reference-transaction"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    assert proposals.merge(PROPOSAL, YES).is_merged
    monkeypatch.delenv("GIT_DIR")
    assert set(git(folder, "log", "--format=%an").split("\n")) == {"Neve autopilot", ""}


def test_a_folder_with_other_files_is_not_taken(tmp_path: Path) -> None:
    """Nor one that is to have a remote and is no clone, nor one whose branch is not there."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ForgeError, match="has files, but is not a git repository"):
        proposals_in(tmp_path).propose(PROPOSAL)
    assert not (tmp_path / ".git").exists()
    with pytest.raises(ForgeError, match="is not a git repository"):
        proposals_in(tmp_path / "new", remote="origin").propose(PROPOSAL)
    git(tmp_path, "init", "--quiet", "empty")
    with pytest.raises(ForgeError, match="has no branch trunk"):
        proposals_in(tmp_path / "empty", default_branch="trunk").propose(PROPOSAL)


def test_errors_of_git_have_no_login(tmp_path: Path) -> None:
    """An address of a remote may have a password in it, and git repeats what it does not understand."""
    git(tmp_path, "init", "--quiet")
    with pytest.raises(ForgeError, match="git check-mailmap failed") as error:
        Git(tmp_path, ProposeConfig()).run("check-mailmap", "http://me:hunter2@host/x")
    assert "http://…@host/x" in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_remote_that_is_away_is_an_error(tmp_path: Path) -> None:
    """Nobody listens there."""
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "remote", "add", "origin", "http://127.0.0.1:1/specs.git")
    with pytest.raises(ForgeError, match="git fetch failed"):
        proposals_in(tmp_path, remote="origin").propose(PROPOSAL)


def test_a_machine_without_git_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="can't run git"):
        proposals_in(tmp_path / "specs").propose(PROPOSAL)
