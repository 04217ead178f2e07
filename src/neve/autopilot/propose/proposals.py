"""Proposals of the autopilot: made, looked after, and merged, whatever forge keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.autopilot.propose.body import body_of, message_of, title_of
from neve.autopilot.propose.github import GitHub
from neve.autopilot.propose.gitlab import GitLab
from neve.autopilot.propose.local import LocalGit
from neve.autopilot.propose.names import branch_of, spec_path
from neve.autopilot.propose.port import Change, ForgeError, StaleProposal
from neve.autopilot.propose.state import State, judge

if TYPE_CHECKING:
    from neve.autopilot.layout import Layout
    from neve.autopilot.propose.auto_merge import Decision
    from neve.autopilot.propose.port import Forge, Posted
    from neve.autopilot.propose.proposal import Proposal
    from neve.autopilot.propose.state import Verdict
    from neve.autopilot.propose_config import ProposeConfig


def build_forge(config: ProposeConfig) -> GitHub | GitLab | LocalGit:
    """The forge that is configured."""
    if config.forge == "github":
        return GitHub(config)
    return GitLab(config) if config.forge == "gitlab" else LocalGit(config)


class Proposals:
    """What is proposed, on one forge."""

    def __init__(self, forge: Forge, config: ProposeConfig) -> None:
        self._forge, self._config = forge, config

    def propose(self, proposal: Proposal) -> Posted:
        """Bring it before people, or update what is there; raises `StaleProposal` and marks it where it can't be.

        What was rejected stays so; the action `left` says that nothing was done.
        """
        change = self.change(proposal)
        try:
            return self._forge.propose(change)
        except StaleProposal as stale:
            self._forge.mark_stale(change, stale.message)
            raise

    def state(self, proposal: Proposal, current: Layout | None = None) -> Verdict:
        """What became of it; `current` is the table's own layout, where somebody looked."""
        change = self.change(proposal)
        return judge(change, self._forge.look(change), approvals=self._config.approvals, current=current)

    def refresh(self, proposal: Proposal, current: Layout | None = None) -> Verdict:
        """Its state; where the table has moved on, people are told so."""
        verdict = self.state(proposal, current)
        if verdict.state is State.STALE:
            self._forge.mark_stale(self.change(proposal), verdict.reason)
        return verdict

    def merge(self, proposal: Proposal, decision: Decision | None = None) -> Verdict:
        """Merge what is approved, or what a decision allows without; nothing to do for what is merged."""
        verdict = self.state(proposal)
        if verdict.state is State.STALE:
            raise StaleProposal(f"the proposal {proposal.id} of {proposal.table} is stale: {verdict.reason}")
        if verdict.is_merged:
            return verdict
        allowed = verdict.state is State.OPEN and decision is not None and decision.allowed
        if verdict.state is not State.APPROVED and not allowed:
            raise ForgeError(
                f"the proposal {proposal.id} of {proposal.table} is {verdict.state}, expected approved",
                hint=verdict.reason if decision is None else f"{verdict.reason}; auto_merge: {decision.reason}",
            )
        self._forge.merge(self.change(proposal))
        return self.state(proposal)

    def change(self, proposal: Proposal) -> Change:
        """The proposal as the forge sees it."""
        return Change(
            id=proposal.id,
            table=proposal.table,
            branch=branch_of(proposal.table, proposal.id),
            path=spec_path(self._config.folder, proposal.table),
            before=proposal.before,
            after=proposal.after,
            title=title_of(proposal),
            message=message_of(proposal),
            body=body_of(proposal, allow_literals=self._config.allow_literals),
        )
