"""Refusal of a request: the reason, its HTTP and gRPC status, and whether the client should retry."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Verdict(Enum):
    """Kind of refusal: its HTTP status, its gRPC status, and whether the client should retry."""

    MALFORMED = (400, 3, False)  # INVALID_ARGUMENT
    NO_KEY = (401, 16, False)  # UNAUTHENTICATED
    WRONG_KEY = (403, 7, False)  # PERMISSION_DENIED
    FORBIDDEN = (403, 7, False)  # noqa: PIE796 - the same answer, for what no key allows
    SLOW = (408, 4, False)  # DEADLINE_EXCEEDED
    TOO_LARGE = (413, 8, False)  # RESOURCE_EXHAUSTED; without a retry delay it means "never"
    UNSUPPORTED = (415, 3, False)  # INVALID_ARGUMENT
    MISDIRECTED = (421, 7, False)  # PERMISSION_DENIED
    UNPROCESSABLE = (422, 3, False)  # INVALID_ARGUMENT
    BUSY = (429, 8, True)  # RESOURCE_EXHAUSTED
    FAILED = (500, 13, False)  # INTERNAL
    UNAVAILABLE = (503, 14, True)  # UNAVAILABLE

    def __init__(self, http: int, grpc: int, is_retryable: bool) -> None:
        self.http = http
        self.grpc = grpc
        self.is_retryable = is_retryable


class Refusal(Exception):
    """Raised when a request is not accepted. The client gets the reason, and whether to retry."""

    def __init__(
        self,
        verdict: Verdict,
        reason: str,
        message: str,
        *,
        retry_after_seconds: int | None = None,
        details: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds  # None: the configured delay
        self.verdict = verdict
        self.reason = reason
        self.message = message
        self.details = details

    def strip_traceback(self) -> Refusal:
        """Return the refusal without its traceback.

        The traceback holds every frame that it passed, and with them bodies of many megabytes.
        """
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self


def malformed_error(message: str) -> Refusal:
    """Return the refusal of bytes that are not in the declared format."""
    return Refusal(Verdict.MALFORMED, "malformed_message", message)


def too_large_error(what: str, limit: int) -> Refusal:
    """Return the refusal of a message that is larger than allowed."""
    return Refusal(
        Verdict.TOO_LARGE, "too_large", f"{what} is larger than receiver.max_message_bytes, which is {limit}"
    )
