"""Proposals on any forge: open, refresh and merge them, and decide whether one may merge without a person."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from neve.autopilot.propose.forge import ForgeError, ProposalState, ProposedChange, StaleProposal, judge_change
from neve.autopilot.propose.github import GitHub
from neve.autopilot.propose.gitlab import GitLab
from neve.autopilot.propose.local_git import LocalGit
from neve.autopilot.propose.proposal import format_body, format_message, format_title, proposal_branch, spec_path
from neve.text import format_bytes, format_dollars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.autopilot.config import AutoMergeConfig, ProposeConfig
    from neve.autopilot.layout import Layout
    from neve.autopilot.propose.forge import Forge, PostedChange, Verdict
    from neve.autopilot.propose.proposal import Proposal


@dataclass(frozen=True)
class MergeDecision:
    """A decision and its reason; a refusal names every bound that is violated."""

    allowed: bool
    reason: str


def decide_auto_merge(proposal: Proposal, bounds: AutoMergeConfig, at: datetime) -> MergeDecision:
    """Decide whether a proposal may be merged at a time without a person."""
    if not bounds.enabled:
        return MergeDecision(False, "auto_merge is off")
    refusals = tuple(_find_refusals(proposal, bounds, at))
    if refusals:
        return MergeDecision(False, "; ".join(refusals))
    return MergeDecision(
        True,
        f"{proposal.kind} of {format_bytes(proposal.table_bytes)} for {format_dollars(proposal.cost_dollars)} "
        f"with at least {proposal.least_reduction_pct:.1f} % less to scan is within the bounds of auto_merge",
    )


def is_within_hours(hour: int, from_hour: int, to_hour: int) -> bool:
    """Return whether an hour is in a span of the day, which may cross midnight.

    >>> is_within_hours(23, 22, 6), is_within_hours(6, 22, 6), is_within_hours(5, 0, 24)
    (True, False, True)
    """
    if from_hour < to_hour:
        return from_hour <= hour < to_hour
    return hour >= from_hour or hour < to_hour


def _find_refusals(proposal: Proposal, bounds: AutoMergeConfig, at: datetime) -> Iterator[str]:
    # Each condition is positive (the bound holds), so that NaN is refused.
    if not proposal.canary_passed:
        yield "no canary with equal results"
    if proposal.kind not in bounds.kinds:
        yield f"the kind is {proposal.kind}, expected one of {', '.join(bounds.kinds) or 'none'}"
    if not proposal.table_bytes <= bounds.largest_table_bytes:
        yield (
            f"the table has {format_bytes(proposal.table_bytes)}, "
            f"expected at most {format_bytes(bounds.largest_table_bytes)}"
        )
    if not proposal.least_reduction_pct >= bounds.least_reduction_pct:
        yield f"the reduction may be as low as {proposal.least_reduction_pct:.1f} %, expected at least " + (
            f"{bounds.least_reduction_pct:.1f} %"
        )
    if not proposal.cost_dollars <= bounds.most_dollars:
        most = format_dollars(bounds.most_dollars)
        yield f"it costs {format_dollars(proposal.cost_dollars)}, expected at most {most}"
    hour = at.astimezone(UTC).hour
    if not is_within_hours(hour, bounds.from_hour, bounds.to_hour):
        yield f"it is {hour} h UTC, expected {bounds.from_hour} to {bounds.to_hour} h"


def build_forge(config: ProposeConfig) -> GitHub | GitLab | LocalGit:
    """Build the configured forge."""
    if config.forge == "github":
        return GitHub(config)
    return GitLab(config) if config.forge == "gitlab" else LocalGit(config)


class Proposals:
    """Proposals on one forge."""

    def __init__(self, forge: Forge, config: ProposeConfig) -> None:
        self._forge, self._config = forge, config

    def propose(self, proposal: Proposal) -> PostedChange:
        """Propose a change for review, or update the existing proposal.

        Raises `StaleProposal` if it no longer applies, and marks it as stale. A rejected proposal stays rejected: the
        action `left` means that nothing was done.
        """
        change = self.change(proposal)
        try:
            return self._forge.propose(change)
        except StaleProposal as stale:
            self._forge.mark_stale(change, stale.message)
            raise

    def state(self, proposal: Proposal, current: Layout | None = None) -> Verdict:
        """Return the state of a proposal; `current` is the table's own layout, if it was read."""
        change = self.change(proposal)
        return judge_change(change, self._forge.fetch_state(change), approvals=self._config.approvals, current=current)

    def refresh(self, proposal: Proposal, current: Layout | None = None) -> Verdict:
        """Return the state of a proposal; if the table has changed since, mark the proposal as stale on the forge."""
        verdict = self.state(proposal, current)
        if verdict.state is ProposalState.STALE:
            self._forge.mark_stale(self.change(proposal), verdict.reason)
        return verdict

    def merge(self, proposal: Proposal, decision: MergeDecision | None = None) -> Verdict:
        """Merge a proposal that is approved or that a decision allows; do nothing if it is merged already."""
        verdict = self.state(proposal)
        if verdict.state is ProposalState.STALE:
            raise StaleProposal(f"the proposal {proposal.id} of {proposal.table} is stale: {verdict.reason}")
        if verdict.is_merged:
            return verdict
        allowed = verdict.state is ProposalState.OPEN and decision is not None and decision.allowed
        if verdict.state is not ProposalState.APPROVED and not allowed:
            raise ForgeError(
                f"the proposal {proposal.id} of {proposal.table} is {verdict.state}, expected approved",
                hint=verdict.reason if decision is None else f"{verdict.reason}; auto_merge: {decision.reason}",
            )
        self._forge.merge(self.change(proposal))
        return self.state(proposal)

    def change(self, proposal: Proposal) -> ProposedChange:
        """Return the proposal in the form for the forge."""
        return ProposedChange(
            id=proposal.id,
            table=proposal.table,
            branch=proposal_branch(proposal.table, proposal.id),
            path=spec_path(self._config.folder, proposal.table),
            before=proposal.before,
            after=proposal.after,
            title=format_title(proposal),
            message=format_message(proposal),
            body=format_body(proposal, allow_literals=self._config.allow_literals),
        )
