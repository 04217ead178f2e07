"""Sections of a policy file: keys of each policy type, with the collector's defaults, and the node that they become.

What the collector accepts is accepted, even if it is unlikely to be meant. Such a section has an oddity, which becomes
a remark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from neve.model.settings import Section
from neve.tail.policy import conditions
from neve.tail.policy.conditions import make_fact
from neve.tail.policy.config.value_types import Count, Listed, Seconds, Small, SomeTexts, Texts, Whole, Word
from neve.tail.policy.ottl.syntax import OttlError
from neve.tail.policy.ottl.translate import Condition, combine_conditions, translate_condition
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import (
    DEFAULT_SALT,
    Always,
    Dynamic,
    Holds,
    Key,
    Latency,
    Node,
    Probabilistic,
    RateLimit,
    SpanCount,
)

if TYPE_CHECKING:
    from neve.tail.policy.config.problems import ConfigProblems
    from neve.tail.policy.span_sql import Sql


@dataclass
class PolicyFile:
    """File that is read: its semantics, its problems and remarks, and the keys of dynamic rates over all policies."""

    semantics: Semantics
    problems: ConfigProblems
    remarks: list[str] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)


@dataclass(frozen=True)
class PolicyPlace:
    """Place of a policy in its file, and the policies nested in it."""

    file: PolicyFile
    path: str  # of its section
    name: str
    kind: str
    parts: tuple[Node, ...] = ()

    def holds(self, condition: Sql, inverted: bool = False) -> Holds:
        """Return a policy that samples if a span meets a condition."""
        return Holds(self.name, self.kind, make_fact(condition), inverted)


class PolicySection(Section):
    """Section with strict types: no text for a number, no number for a text."""

    model_config = ConfigDict(strict=True)

    @property
    def oddity(self) -> str:
        """Remark on a valid but unusual section."""
        return ""

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        raise NotImplementedError


DEFAULT_BURST_FACTOR = 2  # times the limit per second, if no burst is set


class AlwaysSection(PolicySection):
    """Every trace."""

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return Always(at.name, at.kind)


class ErrorSection(PolicySection):
    """Traces with an error."""

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return at.holds(conditions.status_code(["ERROR"]))


class TraceFlagsSection(PolicySection):
    """Traces that the sender sampled."""

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return at.holds(conditions.trace_flags())


class LatencySection(PolicySection):
    """Traces that take longer than a threshold."""

    threshold_ms: Whole = 0
    upper_threshold_ms: Whole = 0

    @property
    def oddity(self) -> str:
        """Remark on an incomplete policy."""
        return "" if self.model_fields_set else "threshold_ms is not set, so every trace of a millisecond is sampled"

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        upper = self.upper_threshold_ms or None
        running = upper is not None and at.file.semantics is Semantics.OTELCOL
        return Latency(at.name, at.kind, self.threshold_ms, upper, running)


class KeyedSection(PolicySection):
    """A section about one key."""

    key: str = ""

    @property
    def oddity(self) -> str:
        """Remark on a key that no client sends."""
        return super().oddity or ("" if self.key else "key is empty")


class NumericSection(KeyedSection):
    """Traces with a whole number within bounds; 0 is no bound, as in the collector."""

    min_value: Whole = 0
    max_value: Whole = 0
    invert_match: bool = False

    @model_validator(mode="after")
    def _has_a_bound(self) -> NumericSection:
        if self.min_value == 0 and self.max_value == 0:
            raise ValueError("min_value and max_value are both missing or 0, expected one that is not 0")
        return self

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        condition = conditions.numeric_attribute(self.key, self.min_value or None, self.max_value or None)
        return at.holds(condition, self.invert_match)


class BooleanSection(KeyedSection):
    """Traces with a boolean."""

    value: bool = False
    invert_match: bool = False

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return at.holds(conditions.boolean_attribute(self.key, self.value), self.invert_match)


def _check_patterns(values: tuple[str, ...], enabled: bool) -> None:
    for value in values if enabled else ():
        problem = conditions.find_regex_error(value)
        if problem is not None:
            raise ValueError(f"got {value!r}, expected a regular expression of RE2: {problem}")


def _describe_empty_values(values: tuple[str, ...]) -> str:
    return "" if any(values) else "values has no text, so no trace matches"


class ServiceSection(PolicySection):
    """Traces that a service takes part in."""

    values: SomeTexts
    enabled_regex_matching: bool = False
    invert_match: bool = False

    @model_validator(mode="after")
    def _check_regular_expressions(self) -> ServiceSection:
        _check_patterns(self.values, self.enabled_regex_matching)
        return self

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return at.holds(conditions.service_name(self.values, regex=self.enabled_regex_matching), self.invert_match)


class StringSection(KeyedSection):
    """Traces with a text."""

    values: Texts = ()
    enabled_regex_matching: bool = False
    cache_max_size: Whole = 0  # of a cache that is not needed here
    invert_match: bool = False

    @model_validator(mode="after")
    def _check_regular_expressions(self) -> StringSection:
        _check_patterns(self.values, self.enabled_regex_matching)
        return self

    @property
    def oddity(self) -> str:
        """Remark on a section without values to match."""
        return super().oddity or _describe_empty_values(self.values)

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        condition = conditions.string_attribute(self.key, self.values, regex=self.enabled_regex_matching)
        return at.holds(condition, self.invert_match)


class StatusSection(PolicySection):
    """Traces with a span of one of the statuses."""

    status_codes: Annotated[tuple[Literal["OK", "ERROR", "UNSET"], ...], Listed, Field(min_length=1)]

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return at.holds(conditions.status_code(self.status_codes))


class TraceStateSection(KeyedSection):
    """Traces whose state has one of the values for a key."""

    values: Texts = ()

    @property
    def oddity(self) -> str:
        """Remark on a section without values to match."""
        return super().oddity or _describe_empty_values(self.values)

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return at.holds(conditions.trace_state_value(self.key, self.values))


class SpanCountSection(PolicySection):
    """Traces by how many spans they have."""

    min_spans: Small = 0
    max_spans: Small = 0

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return SpanCount(at.name, at.kind, self.min_spans, self.max_spans or None)


class ProbabilisticSection(PolicySection):
    """A share of all traces."""

    sampling_percentage: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    hash_salt: str = ""

    @property
    def oddity(self) -> str:
        """Remark on a percentage that samples nothing."""
        return "" if self.sampling_percentage > 0 else "sampling_percentage is not more than 0, so no trace is sampled"

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return Probabilistic(at.name, at.kind, max(self.sampling_percentage, 0.0), self.hash_salt or DEFAULT_SALT)


class LimitSection(PolicySection):
    """A limit with a burst; 0 is the default burst."""

    burst_capacity: Whole = 0

    def limit(self, at: PolicyPlace, per_second: int, unit: str) -> Node:
        """Return the policy."""
        burst = self.burst_capacity if self.burst_capacity > 0 else DEFAULT_BURST_FACTOR * per_second
        return RateLimit(at.name, at.kind, per_second, burst, unit)


class RateSection(LimitSection):
    """Limit of spans per second."""

    spans_per_second: Count = 0

    @property
    def oddity(self) -> str:
        """Remark on a limit that samples nothing."""
        return "" if self.spans_per_second else "spans_per_second is 0, so next to no trace is sampled"

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return self.limit(at, self.spans_per_second, "spans")


class BytesSection(LimitSection):
    """Limit of bytes per second."""

    bytes_per_second: Count = 0

    @property
    def oddity(self) -> str:
        """Remark on a limit that samples nothing."""
        return "" if self.bytes_per_second else "bytes_per_second is 0, so next to no trace is sampled"

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        return self.limit(at, self.bytes_per_second, "bytes")


class OttlSection(PolicySection):
    """Traces for which a condition holds, of a span or of one of its events."""

    error_mode: str = ""
    span: Texts = ()
    spanevent: Texts = ()

    @field_validator("error_mode")
    @classmethod
    def _check_mode(cls, value: str) -> str:
        if value.lower() not in ("", "ignore", "propagate", "silent"):
            raise ValueError(f"got {value!r}, expected ignore, propagate or silent")
        return value.lower()

    @model_validator(mode="after")
    def _require_condition(self) -> OttlSection:
        if not self.span and not self.spanevent:
            raise ValueError("span and spanevent are both empty, expected one condition or more")
        return self

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        if self.error_mode == "propagate":
            at.file.remarks.append(
                f"{at.path}.error_mode propagate applies to one span here: "
                "if a condition fails on a span, the other spans of the trace are still evaluated"
            )
        of_span, of_events = self._translate(at, "span"), self._translate(at, "spanevent")
        return at.holds(combine_conditions(of_span, of_events, stop=self.error_mode == "propagate"))

    def _translate(self, at: PolicyPlace, context: Literal["span", "spanevent"]) -> list[Condition]:
        found = []
        for place, text in enumerate(getattr(self, context)):
            try:
                found.append(translate_condition(text, context))
            except OttlError as error:
                at.file.problems.add(f"{at.path}.{context}[{place}]", error.about(at.name, text))
        return found


class DynamicSection(PolicySection):
    """Keys that are seen often are sampled less."""

    goal_sample_rate: Annotated[float, Field(ge=1, allow_inf_nan=False)]
    fields: Annotated[tuple[Word, ...], Listed, Field(min_length=1)]
    weight: Annotated[float, Field(gt=0, le=1)] = 0.5
    adjustment_interval: Annotated[Seconds, Field(ge=1)] = Field(15.0, validate_default=False)

    def build(self, at: PolicyPlace) -> Node:
        """Return the policy."""
        key = conditions.make_key(self.fields)
        if key not in at.file.keys:
            at.file.keys.append(key)
        interval = round(self.adjustment_interval)
        return Dynamic(at.name, at.kind, at.file.keys.index(key), self.goal_sample_rate, self.weight, interval)


LEAF_SECTIONS: dict[str, type[PolicySection]] = {
    "always_sample": AlwaysSection,
    "latency": LatencySection,
    "numeric_attribute": NumericSection,
    "boolean_attribute": BooleanSection,
    "string_attribute": StringSection,
    "status_code": StatusSection,
    "trace_state": TraceStateSection,
    "trace_flags": TraceFlagsSection,
    "span_count": SpanCountSection,
    "probabilistic": ProbabilisticSection,
    "rate_limiting": RateSection,
    "bytes_limiting": BytesSection,
    "ottl_condition": OttlSection,
    # Policy types of Neve
    "service_name": ServiceSection,
    "error": ErrorSection,
    "dynamic": DynamicSection,
}
