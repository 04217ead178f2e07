"""`RewritePlanner`: public API for branch, rewrite, canary, merge and rollback of one layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from neve.autopilot.rollout.canary_queries import CanaryQuery
from neve.autopilot.rollout.stage_setup import StageRequest
from neve.errors import ConfigError, LakeError
from neve.lake.commit.branch_servers import LakeFSBranches, NessieBranches
from neve.lake.commit.branches import BRANCH_PREFIX, MAIN_BRANCH, IcebergBranches, branch_name, check_own_branch
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neve.autopilot.config import StageConfig
    from neve.autopilot.layout import Layout
    from neve.autopilot.rollout.rollout import Rollout
    from neve.lake.commit.branches import Branches
    from neve.lake.lake import Lake


def open_branches(config: StageConfig, lake: Lake, table: str) -> Branches:
    """Open Iceberg's own branches of a table, or those of the server that versions its catalog or its files."""
    match config.branches:
        case "nessie":
            return NessieBranches(config.nessie.url, config.nessie.token.get_secret_value())
        case "lakefs":
            one = config.lakefs
            return LakeFSBranches(one.endpoint, one.repository, one.access_key, one.secret_key.get_secret_value())
    return IcebergBranches(lake, table)


BRANCH_ID_DIGITS = 12
log = get_logger(__name__)


class RecommendedLayout(Protocol):
    """The parts of a recommendation that a plan needs."""

    @property
    def type(self) -> str:
        """The kind of change."""

    @property
    def after(self) -> Layout:
        """The recommended layout."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties that the layout needs."""


@dataclass(frozen=True)
class RewritePlan:
    """A layout and the branch for it."""

    table_name: str
    branch_name: str
    action_type: str
    change: StageRequest


class RewritePlanner:
    """A facade of `Rollout`.

    Tables are staged on Iceberg's own branches, because the open version of lakeFS has none for tables.
    """

    def __init__(
        self, lakefs_endpoint: str = "", lakefs_access_key: str = "", lakefs_secret_key: str = "", *, rollout: Rollout
    ) -> None:
        self._rollout = rollout
        self._tables: dict[str, str] = {}
        if lakefs_endpoint or lakefs_access_key or lakefs_secret_key:
            log.warning(
                "lakefs is not used",
                endpoint=lakefs_endpoint,
                reason="its open version has no Iceberg catalog; the table's own branches are used",
            )

    def create_optimization_branch(self, table_name: str, base_branch: str = MAIN_BRANCH) -> str:
        """Create a branch of main, and return its name."""
        if base_branch != MAIN_BRANCH:
            raise ConfigError(f"base_branch is {base_branch!r}, expected {MAIN_BRANCH!r}: layouts are merged there")
        name = branch_name(uuid4().hex[:BRANCH_ID_DIGITS])
        branches = self._branches(table_name)
        version = branches.head(MAIN_BRANCH)
        if version is None:
            raise LakeError(f"{table_name} has no rows")
        branches.create(name, version)
        self._tables[name] = table_name
        return name

    def plan_rewrite(self, table_name: str, recommendation: RecommendedLayout, branch_name: str) -> RewritePlan:
        """Plan a rewrite on the branch; nothing is changed yet."""
        change = StageRequest(
            _attempt_id(branch_name), table_name, recommendation.after, properties=dict(recommendation.properties)
        )
        return RewritePlan(table_name, branch_name, recommendation.type, change)

    def execute_rewrite(self, plan: RewritePlan) -> dict[str, Any]:
        """Rewrite the table on the branch, or resume a run that was killed."""
        return self._rollout.stage(plan.change).as_document()

    def run_canary_test(self, plan: RewritePlan, test_queries: Iterable[str | CanaryQuery]) -> dict[str, Any]:
        """Run queries on main and on the branch, and roll a failed branch back.

        `scan_reduction` is the lower bound.
        """
        queries = [one if isinstance(one, CanaryQuery) else CanaryQuery(one) for one in test_queries]
        trial = self._rollout.canary(plan.change.attempt_id, queries)
        report = trial.canary
        return {
            "passed": report.passed,
            "tests_run": len(report.results),
            "tests_passed": sum(one.equal for one in report.results),
            "tests_skipped": len(report.skipped),
            "scan_reduction": 100 * report.reduction.low if report.reduction else 0.0,
            **trial.as_document(),
        }

    def merge_to_main(self, branch_name: str, commit_message: str = "") -> dict[str, Any]:
        """Publish the branch."""
        return self._rollout.merge(_attempt_id(branch_name), commit_message).as_document()

    def rollback_branch(self, branch_name: str) -> dict[str, Any]:
        """Roll back a branch or its merge; a repeated call is not an error."""
        attempt_id = _attempt_id(branch_name)
        if self._rollout.history.find_branch(attempt_id) is None and branch_name in self._tables:
            self._branches(self._tables[branch_name]).remove(branch_name)
            return {"branch": branch_name, "reason": "nothing was staged on the branch"}
        return self._rollout.rollback(attempt_id).as_document()

    def _branches(self, table_name: str) -> Branches:
        return open_branches(self._rollout.config, self._rollout.lake, table_name)


def _attempt_id(branch_name: str) -> str:
    check_own_branch(branch_name)
    return branch_name.removeprefix(BRANCH_PREFIX)
