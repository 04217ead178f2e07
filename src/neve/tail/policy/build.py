"""From policies as they were written to the tree that decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from neve.tail.policy import conditions, shape
from neve.tail.policy.conditions import fact
from neve.tail.policy.ottl.errors import OttlError
from neve.tail.policy.ottl.translate import Truth, any_condition, read_condition
from neve.tail.policy.tree import (
    All,
    Always,
    Composite,
    Drop,
    Dynamic,
    Holds,
    Key,
    Latency,
    Node,
    Not,
    Probabilistic,
    RateLimit,
    Semantics,
    Share,
    SpanCount,
)

if TYPE_CHECKING:
    from neve.tail.policy.complaints import Complaints
    from neve.tail.policy.stated import CompositeShape, Stated

BURST = 2  # times what is allowed in a second, where no burst is set


class Builder:
    """Builds policies one by one; keys of dynamic rates are numbered over all of them."""

    def __init__(self, semantics: Semantics, complaints: Complaints) -> None:
        self.semantics = semantics
        self.complaints = complaints
        self.keys: list[Key] = []
        self.remarks: list[str] = []

    def build(self, policy: Stated) -> Node:
        """The node of a policy, with those of the policies in it."""
        make = getattr(self, f"_{policy.type}")
        return cast("Node", make(policy, policy.name or policy.type, policy.section))

    def _always_sample(self, policy: Stated, name: str, _section: shape.Nothing) -> Node:
        return Always(name, policy.type)

    def _latency(self, policy: Stated, name: str, section: shape.LatencyShape) -> Node:
        upper = section.upper_threshold_ms or None
        running = upper is not None and self.semantics is Semantics.OTELCOL
        return Latency(name, policy.type, section.threshold_ms, upper, running)

    def _numeric_attribute(self, policy: Stated, name: str, section: shape.NumericShape) -> Node:
        asked = conditions.numeric_attribute(section.key, section.min_value or None, section.max_value or None)
        return Holds(name, policy.type, fact(asked), section.invert_match)

    def _boolean_attribute(self, policy: Stated, name: str, section: shape.BooleanShape) -> Node:
        asked = conditions.boolean_attribute(section.key, section.value)
        return Holds(name, policy.type, fact(asked), section.invert_match)

    def _string_attribute(self, policy: Stated, name: str, section: shape.StringShape) -> Node:
        asked = conditions.string_attribute(section.key, section.values, regex=section.enabled_regex_matching)
        return Holds(name, policy.type, fact(asked), section.invert_match)

    def _service_name(self, policy: Stated, name: str, section: shape.ServiceShape) -> Node:
        asked = conditions.service_name(section.values, regex=section.enabled_regex_matching)
        return Holds(name, policy.type, fact(asked), section.invert_match)

    def _status_code(self, policy: Stated, name: str, section: shape.StatusShape) -> Node:
        return Holds(name, policy.type, fact(conditions.status_code(section.status_codes)))

    def _error(self, policy: Stated, name: str, _section: shape.Nothing) -> Node:
        return Holds(name, policy.type, fact(conditions.status_code(["ERROR"])))

    def _trace_state(self, policy: Stated, name: str, section: shape.TraceStateShape) -> Node:
        return Holds(name, policy.type, fact(conditions.trace_state_value(section.key, section.values)))

    def _trace_flags(self, policy: Stated, name: str, _section: shape.Nothing) -> Node:
        return Holds(name, policy.type, fact(conditions.trace_flags()))

    def _ottl_condition(self, policy: Stated, name: str, section: shape.OttlShape) -> Node:
        if section.error_mode == "propagate":
            self.remarks.append(
                f"{policy.path}.{policy.type}.error_mode propagate is for one span here: "
                "where a condition fails on a span, the trace's other spans are still asked"
            )
        of_span, of_events = self._conditions(policy, "span"), self._conditions(policy, "spanevent")
        asked = any_condition(of_span, of_events, stop=section.error_mode == "propagate")
        return Holds(name, policy.type, fact(asked))

    def _conditions(self, policy: Stated, context: str) -> list[Truth]:
        found = []
        for at, text in enumerate(getattr(policy.section, context)):
            try:
                found.append(read_condition(text, context))
            except OttlError as error:
                self.complaints.add(f"{policy.path}.{policy.type}.{context}[{at}]", error.about(policy.name, text))
        return found

    def _span_count(self, policy: Stated, name: str, section: shape.SpanCountShape) -> Node:
        return SpanCount(name, policy.type, section.min_spans, section.max_spans or None)

    def _probabilistic(self, policy: Stated, name: str, section: shape.ProbabilisticShape) -> Node:
        percentage = max(section.sampling_percentage, 0.0)
        return Probabilistic(name, policy.type, percentage, section.hash_salt or shape.DEFAULT_SALT)

    def _rate_limiting(self, policy: Stated, name: str, section: shape.RateShape) -> Node:
        burst = section.burst_capacity if section.burst_capacity > 0 else BURST * section.spans_per_second
        return RateLimit(name, policy.type, section.spans_per_second, burst, "spans")

    def _bytes_limiting(self, policy: Stated, name: str, section: shape.BytesShape) -> Node:
        burst = section.burst_capacity if section.burst_capacity > 0 else BURST * section.bytes_per_second
        return RateLimit(name, policy.type, section.bytes_per_second, burst, "bytes")

    def _dynamic(self, policy: Stated, name: str, section: shape.DynamicShape) -> Node:
        key = conditions.key_of(section.fields)
        if key not in self.keys:
            self.keys.append(key)
        interval = round(section.adjustment_interval)
        return Dynamic(name, policy.type, self.keys.index(key), section.goal_sample_rate, section.weight, interval)

    def _and(self, policy: Stated, name: str, _section: Any) -> Node:
        return All(name, policy.type, tuple(map(self.build, policy.parts)))

    def _not(self, policy: Stated, name: str, _section: Any) -> Node:
        return Not(name, policy.type, self.build(policy.parts[0]))

    def _drop(self, policy: Stated, name: str, _section: Any) -> Node:
        return Drop(name, policy.type, tuple(map(self.build, policy.parts)))

    def _composite(self, policy: Stated, name: str, section: CompositeShape) -> Node:
        total = section.max_total_spans_per_second
        percents = {share.policy: share.percent for share in section.rate_allocation}
        shares = [
            Share(self.build(part), _share(total, percents.get(part.name, 0), len(policy.parts)))
            for part in self._in_order(policy, section)
        ]
        return Composite(name, policy.type, total, tuple(shares))

    def _in_order(self, policy: Stated, section: CompositeShape) -> list[Stated]:
        """The collector's code never looks at `policy_order`, and asks the parts as they stand."""
        parts = list(policy.parts)
        if self.semantics is Semantics.OTELCOL:
            return parts
        places = {name: at for at, name in reversed(list(enumerate(section.policy_order)))}
        return sorted(parts, key=lambda part: places.get(part.name, len(places)))


def _share(total: int, percent: int, parts: int) -> int:
    """Spans a second of a part: its percentage, or an equal share where none is set; in the collector's arithmetic."""
    return int((percent / 100) * float(total)) if percent > 0 else int(float(total) / parts)
