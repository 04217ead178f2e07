"""The one alert of an organization about its rules: some of them fail, or their evaluation is delayed.

A failed query resolves no alert. Without this alert nobody would notice, and with one for each rule everybody would be
paged at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.rules.evaluation import Evaluation, RuleState
from neve.rules.rule_file import Group, Rule
from neve.rules.running.recorded_rows import GroupKey, GroupResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.rules.evaluation import EvaluationOptions, Vector

__all__ = ["ALERT_NAME", "build_group", "build_key", "evaluate_source"]

ALERT_NAME = "RulesFailing"
FILE, GROUP = "neve", "rules"
HOLD_MS = 60_000
MAX_ERROR_CHARACTERS = 300


def build_key(organization: str) -> GroupKey:
    """Return the key of the group that has the alert."""
    return GroupKey(organization, FILE, GROUP)


def build_group(reason: str = "") -> Group:
    """Return the group that has the alert."""
    shown = reason[:MAX_ERROR_CHARACTERS].replace("{{", "{ {")  # an annotation is a template
    annotations = (("description", shown), ("summary", "rules fail or are delayed: their alerts can be missing"))
    rule = Rule(ALERT_NAME, is_alert=True, expression="", hold_ms=HOLD_MS, annotations=annotations)
    return Group(GROUP, (rule,), path=FILE)


def evaluate_source(
    organization: str,
    failures: Mapping[str, str],
    lag_seconds: float,
    state: RuleState,
    time_ms: int,
    options: EvaluationOptions,
) -> GroupResult:
    """Return the state of the alert. `failures` are the errors of failing rules, by the name of the rule.

    `lag_seconds` is 0 unless the delay is longer than it should be.
    """
    reasons = [f"{name}: {error}" for name, error in failures.items()]
    if lag_seconds:
        reasons.append(f"the evaluation is {lag_seconds:.0f} s behind")
    found: Vector = [((), float(len(reasons)))] if reasons else []
    group = build_group("; ".join(reasons))
    evaluation = Evaluation(group, time_ms, lambda _text, _time: found, options)
    return GroupResult(build_key(organization), group, time_ms, [evaluation.evaluate(group.rules[0], state)])
