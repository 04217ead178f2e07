"""Groups, rules and alerts in the format of Prometheus' API, from their last evaluation."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from neve.promql.http.parameters import BadData
from neve.promql.labels import make_labels, match_sets
from neve.rules.notify.outgoing_alert import format_rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from neve.lexical.matchers import Matcher
    from neve.rules.status import GroupStatus

__all__ = ["RuleFilter", "describe_alerts", "describe_groups", "format_exponent"]

TYPES = {"": ("alerting", "recording"), "alert": ("alerting",), "record": ("recording",)}
MS = 1000


@dataclass(frozen=True)
class RuleFilter:
    """Parameters of a request for rules. An empty set allows everything."""

    kind: str = ""
    names: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    selectors: tuple[Sequence[Matcher], ...] = ()
    exclude_alerts: bool = False
    limit: int = 0
    next_token: str = ""

    def __post_init__(self) -> None:
        if self.kind not in TYPES:
            raise BadData(f'not supported value "{self.kind[:100]}"')
        if self.next_token and not self.limit:
            raise BadData("group_limit needs to be present in order to paginate over the groups")

    def allows_group(self, document: Mapping[str, Any]) -> bool:
        """Return whether a group is in the answer, by its name and file."""
        is_named = not self.groups or document["name"] in self.groups
        return is_named and (not self.files or name_file(document["file"]) in self.files)

    def allows_rule(self, rule: Mapping[str, Any]) -> bool:
        """Return whether a rule is in the answer, by its kind, name and labels."""
        if rule["kind"] not in TYPES[self.kind] or (self.names and rule["name"] not in self.names):
            return False
        labels = make_labels(rule["labels"])
        return not self.selectors or any(match_sets([labels], one)[0] for one in self.selectors)


def name_file(path: str) -> str:
    """Return the name of a rule file without its folder, which is not for clients."""
    return PurePath(path).name


def describe_groups(groups: Iterable[GroupStatus], wanted: RuleFilter) -> dict[str, Any]:
    """Return the data of `/rules`."""
    found = []
    for one in sorted(groups, key=lambda one: (name_file(one.document["file"]), one.document["name"])):
        if wanted.allows_group(one.document):
            rules = [
                _describe_rule(rule, one.document, wanted) for rule in one.document["rules"] if wanted.allows_rule(rule)
            ]
            if rules:
                found.append(_describe_group(one.document, rules))
    return _paginate(found, wanted)


def _paginate(groups: list[dict[str, Any]], wanted: RuleFilter) -> dict[str, Any]:
    if not wanted.limit:
        return {"groups": groups}
    tokens = [
        hashlib.sha1(f"{one['file']};{one['name']}".encode(), usedforsecurity=False).hexdigest() for one in groups
    ]
    if wanted.next_token and wanted.next_token not in tokens:
        raise BadData("invalid group_next_token: rules have changed since the last request")
    first = tokens.index(wanted.next_token) if wanted.next_token else 0
    following = tokens[first + wanted.limit : first + wanted.limit + 1]
    page: dict[str, Any] = {"groups": groups[first : first + wanted.limit]}
    return {**page, "groupNextToken": following[0]} if following else page


def _describe_group(document: Mapping[str, Any], rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": document["name"],
        "file": name_file(document["file"]),
        "interval": document["interval_ms"] / MS,
        "limit": document["limit"],
        "rules": rules,
        "evaluationTime": document["seconds"],
        "lastEvaluation": format_rfc3339(document["time_ms"]),
    }


def _describe_rule(rule: Mapping[str, Any], group: Mapping[str, Any], wanted: RuleFilter) -> dict[str, Any]:
    shared = {
        "name": rule["name"],
        "query": rule["expression"],
        "labels": rule["labels"],
        "health": "err" if rule["error"] else "ok",
        **({"lastError": rule["error"]} if rule["error"] else {}),
        "evaluationTime": group["seconds"],
        "lastEvaluation": format_rfc3339(group["time_ms"]),
        "type": rule["kind"],
    }
    if rule["kind"] == "recording":
        return shared
    return {
        **shared,
        "state": rule["state"],
        "duration": rule["hold_ms"] / MS,
        "keepFiringFor": rule["keep_firing_ms"] / MS,
        "annotations": rule["annotations"],
        "alerts": [] if wanted.exclude_alerts else [describe_alert(one) for one in rule["alerts"] if is_active(one)],
    }


def is_active(alert: Mapping[str, Any]) -> bool:
    """Return whether an alert is pending or firing."""
    return alert["state"] in {"pending", "firing"}


def describe_alerts(groups: Iterable[GroupStatus]) -> dict[str, Any]:
    """Return the data of `/alerts`: pending and firing alerts."""
    return {
        "alerts": [describe_alert(one.document) for group in groups for one in group.alerts if is_active(one.document)]
    }


def describe_alert(alert: Mapping[str, Any]) -> dict[str, Any]:
    """Return an alert."""
    since = alert["keep_firing_since_ms"]
    return {
        "labels": alert["labels"],
        "annotations": alert["annotations"],
        "state": alert["state"],
        "activeAt": format_rfc3339(alert["active_at_ms"]),
        **({} if since is None else {"keepFiringSince": format_rfc3339(since)}),
        "value": format_exponent(float(alert["value"])),
    }


def format_exponent(value: float) -> str:
    """Return a number as Prometheus writes the value of an alert.

    >>> [format_exponent(value) for value in (1.0, 0.025, 12345.5, float("inf"), float("nan"))]
    ['1e+00', '2.5e-02', '1.23455e+04', '+Inf', 'NaN']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    number, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{number}e{exponent[0]}{exponent[1:]:0>2}"
