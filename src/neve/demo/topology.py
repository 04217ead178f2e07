"""Types that describe a shop: services, operations, the steps of an operation, and failures.

Objects are compared and hashed by identity, so that they are cheap cache keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import random


GRPC_CODES = {
    "OK": 0,
    "DEADLINE_EXCEEDED": 4,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
}
HTTP_CODES = {
    "OK": 200,
    "DEADLINE_EXCEEDED": 504,
    "RESOURCE_EXHAUSTED": 503,
    "FAILED_PRECONDITION": 422,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
}
REMOTE_ERROR_TYPES = {
    "cpp": "grpc::Status",
    "dotnet": "Grpc.Core.RpcException",
    "go": "*status.Error",
    "java": "io.grpc.StatusRuntimeException",
    "nodejs": "Error",
    "python": "grpc._channel._InactiveRpcError",
    "ruby": "GRPC::BadStatus",
    "rust": "reqwest::Error",
}
"""Exception that a client library of each language raises when the server fails."""

STACK_FRAMES = {
    "cpp": "  #{n} {service}::{unit}::{call}() at /src/{service}/{unit}.cc:{line}",
    "dotnet": "   at Shop.{service}.{unit}.{call}() in /app/{service}/{unit}.cs:line {line}",
    "go": "shop/{service}.(*{unit}).{call}\n\t/app/{service}/{unit}.go:{line}",
    "java": "\tat shop.{service}.{unit}.{call}({unit}.java:{line})",
    "nodejs": "    at {unit}.{call} (/app/dist/{service}/{unit}.js:{line}:17)",
    "python": '  File "/app/{service}/{unit}.py", line {line}, in {call}',
    "ruby": "\tfrom /app/{service}/{unit}.rb:{line}:in `{call}'",
    "rust": "  {n}: {service}::{unit}::{call} at ./src/{unit}.rs:{line}",
}
"""One frame of a stack trace as each language prints it."""

_UNITS = ("Handler", "Service", "Client", "Middleware", "Dispatcher")


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception's type and message, with the gRPC code name that classifies it for a caller."""

    type: str
    message: str
    code: str

    def relay(self, language: str, callee: str) -> Failure:
        """Return the failure as the caller's client library raises it; the message keeps the first cause."""
        cause = self.message.rpartition(" desc = ")[2]
        message = f"{callee}: code = {self.code} desc = {cause}"
        return Failure(REMOTE_ERROR_TYPES[language], message, self.code)


UNEXPECTED = Failure("InternalError", "unexpected state", "INTERNAL")


def make_timeout_failure(language: str, callee: str, timeout_ms: int) -> Failure:
    """Return the failure of a client whose request timed out."""
    message = f"{callee}: code = DEADLINE_EXCEEDED desc = no answer within {timeout_ms}ms"
    return Failure(REMOTE_ERROR_TYPES[language], message, "DEADLINE_EXCEEDED")


@lru_cache(maxsize=4096)
def format_stacktrace(failure: Failure, language: str, service: str, call: str) -> str:
    """Format the stack trace of a failure in the style of the language; the same place has the same lines."""
    lines = [f"{failure.type}: {failure.message}"]
    for number, unit in enumerate(_UNITS):
        line = 20 + (len(service) * 37 + len(call) * 11 + number * 53) % 400
        name = call if number == 0 else f"invoke{number}"
        lines.append(STACK_FRAMES[language].format(n=number, service=service, unit=unit, call=name, line=line))
    return "\n".join(lines)


# Objects with identity, not values: compared and hashed by identity, so that they are cheap cache keys.

NANOS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """A lognormal duration: half of all samples are below the median, and the tail grows with sigma."""

    median_ms: float
    sigma: float = 0.35

    def sample(self, rng: random.Random) -> int:
        """Draw one duration in nanoseconds."""
        return int(self.median_ms * NANOS_PER_MS * math.exp(self.sigma * rng.gauss(0.0, 1.0)))


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """A database, cache or index: it sends no telemetry itself and is visible only in its clients' spans."""

    system: str
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A pool of database connections, which rejects a request that has waited for the timeout."""

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
    """An HTTP request to an external service, of which only the client span is recorded."""

    method: str
    host: str
    path: str
    latency: Latency
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A piece of the service's own work with an internal span."""

    name: str
    latency: Latency
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Borrow:
    """A wait for a connection of the service's pool: an internal span that is short on a good day."""

    latency: Latency = Latency(0.3, 0.5)
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A request to another service of the shop, with up to `attempts` attempts, each limited by the timeout.

    The caller fails with it when it is `required`, and ignores the failure otherwise. `event` is recorded on the
    caller's span after a successful call.
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
    """A message sent to a topic: a producer span; subscribers process it later, at their own pace."""

    topic: str
    chance: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Parallel:
    """Steps that begin together; the slowest determines the start of the next step."""

    steps: tuple[Step, ...]
    chance: float = 1.0
    required: bool = True


Step: TypeAlias = Query | Fetch | Work | Borrow | Call | Publish | Parallel


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation that a service performs on request: its own time, its steps, its failure rate and failure.

    `tags` names the facts of the visit that the service sets on its span.
    """

    name: str
    latency: Latency
    steps: tuple[Step, ...] = ()
    error_rate: float = 0.0003
    failure: Failure = UNEXPECTED
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """A service of the shop: its language, its protocol, its number of instances, and its operations."""

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
        """Index the operations by name: every request looks one up."""
        object.__setattr__(self, "by_name", {operation.name: operation for operation in self.operations})


@dataclass(frozen=True, slots=True, eq=False)
class Topic:
    """A topic and its consumers: `each` handles one message at a time, `batch` many; both are service and operation."""

    name: str
    each: tuple[str, str]
    batch: tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """A visitor's flow: the operation of the entry service, and its weight among the flows."""

    name: str
    service: str
    operation: str
    weight: float
