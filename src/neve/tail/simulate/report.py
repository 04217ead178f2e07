"""Results of a simulation and of a comparison, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Volume:
    """Traces, their spans, and the cost: `bytes` is their share of the data files, `cost` is by a price."""

    traces: int = 0
    spans: int = 0
    bytes: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class PolicyVolume:
    """Volume of the traces that a policy decided, as the first that voted for the decision."""

    name: str
    kind: str
    decision: str  # sampled, or dropped for a policy that drops
    traces: int = 0
    spans: int = 0


@dataclass(frozen=True)
class ErrorGroup:
    """Traces with an error that begin with the same operation, with some of their ids."""

    organization: str
    service: str
    operation: str
    traces: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Errors:
    """Traces with an error, and those that would not be kept, whose largest groups are in `groups`."""

    traces: int = 0
    missed: int = 0
    missed_dropped: int = 0  # missed traces that a policy drops on purpose
    groups: tuple[ErrorGroup, ...] = ()

    @property
    def missed_share(self) -> float:
        """Share of the traces with an error that is missed."""
        return self.missed / self.traces if self.traces else 0.0


@dataclass(frozen=True)
class Estimate:
    """Value over all traces, and its estimate from the kept ones.

    `error` is relative to the actual value. It is `None` if no kept trace allows an estimate, or if the actual value is
    0.
    """

    truth: float
    estimated: float | None
    error: float | None = field(init=False)

    def __post_init__(self) -> None:
        known = self.estimated is not None and self.truth
        object.__setattr__(self, "error", (self.estimated - self.truth) / self.truth if known else None)  # type: ignore[operator]


@dataclass(frozen=True)
class ServiceEstimate:
    """Number of traces that begin with a service, of the kept ones, and of the traces that these represent."""

    organization: str
    service: str
    traces: int
    kept: int
    count: Estimate


@dataclass(frozen=True)
class Estimates:
    """Accuracy of estimates from the kept traces.

    Traces that a sender removed before count on both sides, so that the whole error is that of the policies.
    """

    traces: Estimate
    error_rate: Estimate
    latency_ms: dict[str, Estimate]  # by p50, p95, p99
    services: tuple[ServiceEstimate, ...]  # the largest
    services_left: int  # services that are not listed
    mean_error: float | None  # of the number of traces by service, absolute, weighted by traces, over all services


@dataclass(frozen=True)
class Simulation:
    """Simulated decisions of policies about the traces of a period."""

    source: str
    snapshot_id: int | None
    since: str | None
    until: str | None
    judged_at: str
    policies_hash: str
    semantics: str
    price: float  # for a million spans
    files: int
    engine: str
    before: Volume
    kept: Volume
    not_sampled: Volume
    dropped: Volume
    open: int  # traces that would not be complete yet, and are not judged
    policies: tuple[PolicyVolume, ...]
    errors: Errors
    estimates: Estimates
    seconds: float = 0.0
    remarks: tuple[str, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        document = asdict(self)
        document["errors"]["missed_share"] = self.errors.missed_share
        return document


@dataclass(frozen=True)
class DecisionPair:
    """Traces with the same decisions under both policy sets, with the deciding policies, if any."""

    kept_by: str  # both, new, old or neither
    new_decision: str
    new_policy: str | None
    old_decision: str
    old_policy: str | None
    traces: int
    spans: int
    errors: int  # traces among them with an error


@dataclass(frozen=True)
class TraceTotals:
    """Numbers of traces that are kept by both policy sets, by one of them, or by neither."""

    traces: int = 0
    spans: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Comparison:
    """Comparison of two policy sets on the same traces, where differences are new minus old."""

    new: Simulation
    old: Simulation
    compared: int  # traces that both have judged
    left_out: int  # traces that are complete for only one of them
    both: TraceTotals
    only_new: TraceTotals
    only_old: TraceTotals
    neither: TraceTotals
    moves: tuple[DecisionPair, ...]
    difference: Volume
    errors_gained: tuple[ErrorGroup, ...]  # kept by the new only
    errors_lost: tuple[ErrorGroup, ...]  # kept by the old only

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        return {**asdict(self), "new": self.new.as_document(), "old": self.old.as_document()}
