"""What a simulation tells."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Volume:
    """Traces, their spans, and what those take: `bytes` is their share of the data files, `cost` by a price."""

    traces: int = 0
    spans: int = 0
    bytes: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class PolicyVolume:
    """What a policy decided: it was the first that voted for what became of these traces."""

    name: str
    kind: str
    decision: str  # sampled, or dropped for a policy that drops
    traces: int = 0
    spans: int = 0


@dataclass(frozen=True)
class ErrorGroup:
    """Traces with an error that begin with the same operation; some of their ids."""

    organization: str
    service: str
    operation: str
    traces: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Errors:
    """Traces with an error, and those of them that would not be kept; `groups` are the largest of the latter."""

    traces: int = 0
    missed: int = 0
    missed_dropped: int = 0  # those of the missed that a policy drops on purpose
    groups: tuple[ErrorGroup, ...] = ()

    @property
    def missed_share(self) -> float:
        """The part of them that is missed."""
        return self.missed / self.traces if self.traces else 0.0


@dataclass(frozen=True)
class Estimate:
    """A number over all traces, and what the kept ones would say it is.

    `error` is relative to the truth; `None` where nothing was kept that tells, or the truth is 0.
    """

    truth: float
    estimated: float | None
    error: float | None = field(init=False)

    def __post_init__(self) -> None:
        known = self.estimated is not None and self.truth
        object.__setattr__(self, "error", (self.estimated - self.truth) / self.truth if known else None)  # type: ignore[operator]


@dataclass(frozen=True)
class ServiceEstimate:
    """How many traces begin with a service, how many of them are kept, and how many those stand for."""

    organization: str
    service: str
    traces: int
    kept: int
    count: Estimate


@dataclass(frozen=True)
class Estimates:
    """How well the kept traces tell of all.

    What a sender left out before counts on both sides, so that all error is that of the policies.
    """

    traces: Estimate
    error_rate: Estimate
    latency_ms: dict[str, Estimate]  # by p50, p95, p99
    services: tuple[ServiceEstimate, ...]  # the largest
    services_left: int  # those that are not listed
    mean_error: float | None  # of the number of traces by service, without sign, weighted by traces; over all services


@dataclass(frozen=True)
class Simulation:
    """What policies would have decided about the traces of some time."""

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
    open: int  # traces that would not be complete yet: nothing is said about them
    policies: tuple[PolicyVolume, ...]
    errors: Errors
    estimates: Estimates
    seconds: float = 0.0
    remarks: tuple[str, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """The result as JSON has it."""
        told = asdict(self)
        told["errors"]["missed_share"] = self.errors.missed_share
        return told


@dataclass(frozen=True)
class Move:
    """Traces with the same fate under both sets of policies; a policy is that which decided, if one did."""

    kept_by: str  # both, new, old or neither
    new_decision: str
    new_policy: str | None
    old_decision: str
    old_policy: str | None
    traces: int
    spans: int
    errors: int  # those of the traces that have an error


@dataclass(frozen=True)
class Fate:
    """All traces that are kept by both sets of policies, by one of them, or by neither."""

    traces: int = 0
    spans: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Comparison:
    """Two sets of policies on the same traces. Differences are the new minus the old."""

    new: Simulation
    old: Simulation
    compared: int  # traces that both have judged
    left_out: int  # traces that are complete for one of them only
    both: Fate
    only_new: Fate
    only_old: Fate
    neither: Fate
    moves: tuple[Move, ...]
    difference: Volume
    errors_gained: tuple[ErrorGroup, ...]  # kept by the new alone
    errors_lost: tuple[ErrorGroup, ...]  # kept by the old alone

    def as_document(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {**asdict(self), "new": self.new.as_document(), "old": self.old.as_document()}
