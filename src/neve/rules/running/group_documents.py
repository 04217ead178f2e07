"""Groups, states and results of rules as JSON documents, which pass between the service and its query workers."""

from __future__ import annotations

import struct
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from neve.promql.histograms.native import Histogram
from neve.promql.series import STALE
from neve.rules.alerts import Alert, AlertState, Notification
from neve.rules.evaluation import EvaluationOptions, RecordedSample, RuleResult, RuleState
from neve.rules.rule_file import Group, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.promql.labels import Labels

__all__ = [
    "build_group",
    "build_options",
    "build_result",
    "build_state",
    "describe_group",
    "describe_options",
    "describe_result",
    "describe_state",
]

Document = dict[str, Any]


def _labels(pairs: Sequence[Sequence[str]]) -> Labels:
    return tuple((name, value) for name, value in pairs)


def describe_group(group: Group) -> Document:
    """Return a group as a document."""
    return asdict(group)


def build_group(document: Mapping[str, Any]) -> Group:
    """Return the group of a document."""
    rules = tuple(
        Rule(**{**one, "labels": _labels(one["labels"]), "annotations": _labels(one["annotations"])})
        for one in document["rules"]
    )
    return Group(**{**document, "rules": rules})


def describe_options(options: EvaluationOptions) -> Document:
    """Return the settings of an evaluation as a document."""
    return asdict(options)


def build_options(document: Mapping[str, Any]) -> EvaluationOptions:
    """Return the settings of a document."""
    return EvaluationOptions(**document)


def describe_alert(alert: Alert) -> Document:
    """Return an alert as a document."""
    return asdict(alert)


def build_alert(document: Mapping[str, Any]) -> Alert:
    """Return the alert of a document."""
    return Alert(
        **{
            **document,
            "labels": _labels(document["labels"]),
            "annotations": _labels(document["annotations"]),
            "state": AlertState(document["state"]),
        }
    )


def describe_state(state: RuleState) -> Document:
    """Return the state of a rule as a document."""
    return {
        "alerts": [describe_alert(one) for one in state.alerts.values()],
        "series": sorted(state.series),
        "evaluated_at_ms": state.evaluated_at_ms,
        "error": state.error,
    }


def build_state(document: Mapping[str, Any]) -> RuleState:
    """Return the state of a document."""
    alerts = [build_alert(one) for one in document["alerts"]]
    series = frozenset(_labels(one) for one in document["series"])
    return RuleState({one.labels: one for one in alerts}, series, document["evaluated_at_ms"], document["error"])


def describe_result(result: RuleResult) -> Document:
    """Return a result as a document. A stale mark has no value."""
    return {
        "state": describe_state(result.state),
        "samples": [[one.labels, one.time_ms, _describe_value(one.value)] for one in result.samples],
        "notifications": [asdict(one) for one in result.notifications],
    }


def build_result(document: Mapping[str, Any]) -> RuleResult:
    """Return the result of a document."""
    samples = tuple(
        RecordedSample(_labels(labels), time_ms, STALE if value is None else value)
        for labels, time_ms, value in document["samples"]
    )
    notifications = tuple(
        Notification(**{**one, "labels": _labels(one["labels"]), "annotations": _labels(one["annotations"])})
        for one in document["notifications"]
    )
    return RuleResult(build_state(document["state"]), samples, notifications)


def is_stale_mark(value: float | Histogram) -> bool:
    """Return whether a value is the mark that ends a series, and not another NaN."""
    return not isinstance(value, Histogram) and struct.pack("<d", value) == struct.pack("<d", STALE)


def _describe_value(value: float | Histogram) -> float | None:
    if isinstance(value, Histogram):
        raise TypeError("a native histogram has no place in a document")
    return None if is_stale_mark(value) else value
