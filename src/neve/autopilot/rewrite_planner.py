"""`RewritePlanner`: staging, canary and merge by the names that the service had before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import structlog

from neve.autopilot.canary.statement import HotQuery
from neve.autopilot.stage.begin import Change
from neve.autopilot.stage.branching import branches_of
from neve.errors import ConfigError, LakeError
from neve.lake.branches import MAIN, PREFIX, branch_name, check_ours

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neve.autopilot.layout import Layout
    from neve.autopilot.rollout import Rollout
    from neve.lake.branches import Branches

ID_DIGITS = 12
log = structlog.get_logger(__name__)


class Advised(Protocol):
    """What a plan needs of a recommendation."""

    @property
    def type(self) -> str:
        """What kind of change it is."""

    @property
    def after(self) -> Layout:
        """The layout that is recommended."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties that it needs."""


@dataclass(frozen=True)
class RewritePlan:
    """A layout and the branch that it is tried on."""

    table_name: str
    branch_name: str
    action_type: str
    change: Change


class RewritePlanner:
    """A face of `Rollout`. Tables are staged on Iceberg's own branches: lakeFS's open version has none for tables."""

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

    def create_optimization_branch(self, table_name: str, base_branch: str = MAIN) -> str:
        """Make a branch of main; its name."""
        if base_branch != MAIN:
            raise ConfigError(f"base_branch is {base_branch!r}, expected {MAIN!r}: layouts are merged there")
        name = branch_name(uuid4().hex[:ID_DIGITS])
        branches = self._branches(table_name)
        version = branches.head(MAIN)
        if version is None:
            raise LakeError(f"{table_name} has no rows, so there is nothing to lay out")
        branches.create(name, version)
        self._tables[name] = table_name
        return name

    def plan_rewrite(self, table_name: str, recommendation: Advised, branch_name: str) -> RewritePlan:
        """What is to be done on the branch; nothing is changed yet."""
        change = Change(_id(branch_name), table_name, recommendation.after, properties=dict(recommendation.properties))
        return RewritePlan(table_name, branch_name, recommendation.type, change)

    def execute_rewrite(self, plan: RewritePlan) -> dict[str, Any]:
        """Rewrite the table on the branch, or go on where a killed run stopped."""
        return self._rollout.stage(plan.change).as_document()

    def run_canary_test(self, plan: RewritePlan, test_queries: Iterable[str | HotQuery]) -> dict[str, Any]:
        """Ask queries of main and of the branch; one that fails is taken back. `scan_reduction` is the lower bound."""
        queries = [one if isinstance(one, HotQuery) else HotQuery(one) for one in test_queries]
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
        """Publish what is on the branch."""
        return self._rollout.merge(_id(branch_name), commit_message).as_document()

    def rollback_branch(self, branch_name: str) -> dict[str, Any]:
        """Take a branch back, or its merge; again is no error."""
        attempt_id = _id(branch_name)
        if self._rollout.stager.records.find(attempt_id) is None and branch_name in self._tables:
            self._branches(self._tables[branch_name]).remove(branch_name)
            return {"branch": branch_name, "reason": "nothing was staged on it"}
        return self._rollout.rollback(attempt_id).as_document()

    def _branches(self, table_name: str) -> Branches:
        stager = self._rollout.stager
        return branches_of(stager.config, stager.lake, table_name)


def _id(branch_name: str) -> str:
    check_ours(branch_name)
    return branch_name.removeprefix(PREFIX)
