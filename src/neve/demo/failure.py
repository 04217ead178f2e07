"""A failure: the exception that a service raises, and what its callers are told."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

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
"""The exception that a client library of each language raises when the other side has failed."""

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
    """An exception's type and message, with the gRPC code name that tells a caller what kind it is."""

    type: str
    message: str
    code: str

    def relayed(self, language: str, callee: str) -> Failure:
        """Return the failure as the caller's client library raises it; the first cause stays in the message."""
        cause = self.message.rpartition(" desc = ")[2]
        message = f"{callee}: code = {self.code} desc = {cause}"
        return Failure(REMOTE_ERROR_TYPES[language], message, self.code)


UNEXPECTED = Failure("InternalError", "unexpected state", "INTERNAL")


def timed_out(language: str, callee: str, timeout_ms: int) -> Failure:
    """Return what a client raises when it has given up waiting for the callee."""
    message = f"{callee}: code = DEADLINE_EXCEEDED desc = no answer within {timeout_ms}ms"
    return Failure(REMOTE_ERROR_TYPES[language], message, "DEADLINE_EXCEEDED")


@lru_cache(maxsize=4096)
def stacktrace(failure: Failure, language: str, service: str, call: str) -> str:
    """Print the stack trace of a failure in the manner of the language; the same place has the same lines."""
    lines = [f"{failure.type}: {failure.message}"]
    for number, unit in enumerate(_UNITS):
        line = 20 + (len(service) * 37 + len(call) * 11 + number * 53) % 400
        name = call if number == 0 else f"invoke{number}"
        lines.append(STACK_FRAMES[language].format(n=number, service=service, unit=unit, call=name, line=line))
    return "\n".join(lines)
