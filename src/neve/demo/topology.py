"""The words in which a shop is described: services, the operations they serve, and the steps that those take.

Each is the thing itself, not a value: compared and hashed by identity, so that it is a cheap key of a cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from neve.demo.failure import UNEXPECTED, Failure

if TYPE_CHECKING:
    import random

NANOS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """A lognormal time: half of all samples are below the median, and the tail grows with sigma."""

    median_ms: float
    sigma: float = 0.35

    def sample(self, rng: random.Random) -> int:
        """Draw one duration in nanoseconds."""
        return int(self.median_ms * NANOS_PER_MS * math.exp(self.sigma * rng.gauss(0.0, 1.0)))


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """A database, cache or index: it sends no telemetry of its own and shows only as its clients' spans."""

    system: str
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A pool of database connections, which refuses a borrower that has waited for the timeout."""

    name: str
    size: int
    timeout_ms: int = 1500


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A statement sent to a store: a client span. With a `hit_rate` it is a cache lookup that may miss."""

    store: Store
    operation: str
    target: str
    statement: str
    latency: Latency
    hit_rate: float | None = None
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """An HTTP request to somebody else's service, of which only the client's side is seen."""

    method: str
    host: str
    path: str
    latency: Latency
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A piece of the service's own work that is worth a span: an internal span."""

    name: str
    latency: Latency
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Borrow:
    """Waiting for a connection of the service's pool: an internal span that is short on a good day."""

    latency: Latency = Latency(0.3, 0.5)
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A request to another service of the shop, tried `attempts` times, each given up after the timeout.

    The caller fails with it when it is `required`; otherwise the caller does without. `event` is what the caller
    notes on its own span when the call has succeeded.
    """

    service: str
    operation: str
    timeout_ms: int = 2000
    attempts: int = 1
    event: str = ""
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Publish:
    """A message put on a topic: a producer span; subscribers work on it later, in their own time."""

    topic: str
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Parallel:
    """Steps that begin together; the slowest decides when the next one can begin."""

    steps: tuple[Step, ...]
    chance: float = 1.0
    required: bool = True


Step: TypeAlias = Query | Fetch | Work | Borrow | Call | Publish | Parallel


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """Something that a service does on request: its own time, its steps, how often and how it fails by itself.

    `tags` names the facts of the visit that the service puts on its span.
    """

    name: str
    latency: Latency
    steps: tuple[Step, ...] = ()
    error_rate: float = 0.0003
    failure: Failure = UNEXPECTED
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """A service of the shop: what it is written in, how it is reached, how many run, and what it can do."""

    name: str
    language: str
    runtime: str
    version: str
    protocol: str
    port: int
    replicas: int
    operations: tuple[Operation, ...]
    pool: Pool | None = None
    by_name: dict[str, Operation] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Index the operations by name: a service is asked for one at every request."""
        object.__setattr__(self, "by_name", {operation.name: operation for operation in self.operations})


@dataclass(frozen=True, slots=True, eq=False)
class Topic:
    """A topic and who reads it: `each` one message at a time, `batch` many at once; both as service and operation."""

    name: str
    each: tuple[str, str]
    batch: tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """What a visitor does: the entry service's operation, and how often against the other flows."""

    name: str
    service: str
    operation: str
    weight: float
