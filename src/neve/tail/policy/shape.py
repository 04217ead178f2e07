"""The sections of a policy: what users write under each type, with the collector's names and defaults.

What the collector takes is taken, also where it can hardly be meant; such a section has an oddity, for a remark.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from neve.tail.policy import regexes
from neve.tail.policy.fields import Count, Listed, Seconds, Shape, Small, SomeTexts, Texts, Whole, Word

DEFAULT_SALT = "default-hash-seed"


class Nothing(Shape):
    """A type that has nothing to set."""


class LatencyShape(Shape):
    """Traces that take longer than a threshold."""

    threshold_ms: Whole = 0
    upper_threshold_ms: Whole = 0

    @property
    def oddity(self) -> str:
        """A policy that was left unfinished."""
        return "" if self.model_fields_set else "threshold_ms is not set, so every trace of a millisecond is sampled"


class KeyedShape(Shape):
    """A section about one key."""

    key: str = ""

    @property
    def oddity(self) -> str:
        """A key that nobody sends."""
        return super().oddity or ("" if self.key else "key is empty")


class NumericShape(KeyedShape):
    """Traces with a whole number within bounds; 0 is no bound, as in the collector."""

    min_value: Whole = 0
    max_value: Whole = 0
    invert_match: bool = False

    @model_validator(mode="after")
    def _has_a_bound(self) -> NumericShape:
        if self.min_value == 0 and self.max_value == 0:
            raise ValueError("min_value and max_value are both missing or 0, expected one that is not 0")
        return self


class BooleanShape(KeyedShape):
    """Traces with a boolean."""

    value: bool = False
    invert_match: bool = False


def _compile(values: tuple[str, ...], enabled: bool) -> None:
    for value in values if enabled else ():
        complaint = regexes.complaint_of(value)
        if complaint is not None:
            raise ValueError(f"got {value!r}, expected a regular expression of RE2: {complaint}")


def _no_values(values: tuple[str, ...]) -> str:
    return "" if any(values) else "values has no text, so no trace matches"


class ServiceShape(Shape):
    """Traces that a service takes part in."""

    values: SomeTexts
    enabled_regex_matching: bool = False
    invert_match: bool = False

    @model_validator(mode="after")
    def _compiles(self) -> ServiceShape:
        _compile(self.values, self.enabled_regex_matching)
        return self


class StringShape(KeyedShape):
    """Traces with a text."""

    values: Texts = ()
    enabled_regex_matching: bool = False
    cache_max_size: Whole = 0  # of a cache that nothing here needs
    invert_match: bool = False

    @model_validator(mode="after")
    def _compiles(self) -> StringShape:
        _compile(self.values, self.enabled_regex_matching)
        return self

    @property
    def oddity(self) -> str:
        """Nothing to match."""
        return super().oddity or _no_values(self.values)


class StatusShape(Shape):
    """Traces with a span of one of the statuses."""

    status_codes: Annotated[tuple[Literal["OK", "ERROR", "UNSET"], ...], Listed, Field(min_length=1)]


class TraceStateShape(KeyedShape):
    """Traces whose state has one of the values for a key."""

    values: Texts = ()

    @property
    def oddity(self) -> str:
        """Nothing to match."""
        return super().oddity or _no_values(self.values)


class SpanCountShape(Shape):
    """Traces by how many spans they have."""

    min_spans: Small = 0
    max_spans: Small = 0


class ProbabilisticShape(Shape):
    """A share of all traces."""

    sampling_percentage: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    hash_salt: str = ""

    @property
    def oddity(self) -> str:
        """A share of nothing."""
        return "" if self.sampling_percentage > 0 else "sampling_percentage is not more than 0, so no trace is sampled"


class RateShape(Shape):
    """So many spans a second."""

    spans_per_second: Count = 0
    burst_capacity: Whole = 0

    @property
    def oddity(self) -> str:
        """A limit that lets nothing through."""
        return "" if self.spans_per_second else "spans_per_second is 0, so next to no trace is sampled"


class BytesShape(Shape):
    """So many bytes a second."""

    bytes_per_second: Count = 0
    burst_capacity: Whole = 0

    @property
    def oddity(self) -> str:
        """A limit that lets nothing through."""
        return "" if self.bytes_per_second else "bytes_per_second is 0, so next to no trace is sampled"


class OttlShape(Shape):
    """Traces for which a condition holds, of a span or of one of its events."""

    error_mode: str = ""
    span: Texts = ()
    spanevent: Texts = ()

    @field_validator("error_mode")
    @classmethod
    def _is_a_mode(cls, value: str) -> str:
        if value.lower() not in ("", "ignore", "propagate", "silent"):
            raise ValueError(f"got {value!r}, expected ignore, propagate or silent")
        return value.lower()

    @model_validator(mode="after")
    def _has_one(self) -> OttlShape:
        if not self.span and not self.spanevent:
            raise ValueError("span and spanevent are both empty, expected one condition or more")
        return self


class DynamicShape(Shape):
    """Keys that are seen often are sampled less."""

    goal_sample_rate: Annotated[float, Field(ge=1, allow_inf_nan=False)]
    fields: Annotated[tuple[Word, ...], Listed, Field(min_length=1)]
    weight: Annotated[float, Field(gt=0, le=1)] = 0.5
    adjustment_interval: Annotated[Seconds, Field(ge=1)] = Field(15.0, validate_default=False)


class ShareShape(Shape):
    """The share of one part of a composite policy."""

    policy: str = ""
    percent: Count = 0


LEAVES: dict[str, type[Shape]] = {
    "always_sample": Nothing,
    "latency": LatencyShape,
    "numeric_attribute": NumericShape,
    "boolean_attribute": BooleanShape,
    "string_attribute": StringShape,
    "status_code": StatusShape,
    "trace_state": TraceStateShape,
    "trace_flags": Nothing,
    "span_count": SpanCountShape,
    "probabilistic": ProbabilisticShape,
    "rate_limiting": RateShape,
    "bytes_limiting": BytesShape,
    "ottl_condition": OttlShape,
    # Neve's own
    "service_name": ServiceShape,
    "error": Nothing,
    "dynamic": DynamicShape,
}
