"""Why a request is not accepted, and what its sender is told: one table for both protocols."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Verdict(Enum):
    """A kind of refusal: the status in HTTP, the one in gRPC, and whether the sender should come back."""

    MALFORMED = (400, 3, False)  # INVALID_ARGUMENT
    NO_KEY = (401, 16, False)  # UNAUTHENTICATED
    WRONG_KEY = (403, 7, False)  # PERMISSION_DENIED
    FORBIDDEN = (403, 7, False)  # noqa: PIE796 - the same answer, for what no key allows
    SLOW = (408, 4, False)  # DEADLINE_EXCEEDED
    TOO_LARGE = (413, 8, False)  # RESOURCE_EXHAUSTED; without a time to come back it means "never"
    UNSUPPORTED = (415, 3, False)  # INVALID_ARGUMENT
    MISDIRECTED = (421, 7, False)  # PERMISSION_DENIED
    UNPROCESSABLE = (422, 3, False)  # INVALID_ARGUMENT
    BUSY = (429, 8, True)  # RESOURCE_EXHAUSTED
    FAILED = (500, 13, False)  # INTERNAL
    UNAVAILABLE = (503, 14, True)  # UNAVAILABLE

    def __init__(self, http: int, grpc: int, comes_back: bool) -> None:
        self.http = http
        self.grpc = grpc
        self.comes_back = comes_back


class Refusal(Exception):
    """Raised when a request is not accepted; its sender is told why, and whether to come back."""

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
        self.retry_after_seconds = retry_after_seconds  # none: as long as the settings say
        self.verdict = verdict
        self.reason = reason
        self.message = message
        self.details = details

    def detached(self) -> Refusal:
        """The refusal without its history: that holds every frame it passed, and with them bodies of many megabytes."""
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self


def malformed(message: str) -> Refusal:
    """For bytes that are not what they claim to be."""
    return Refusal(Verdict.MALFORMED, "malformed_message", message)


def too_large(what: str, limit: int) -> Refusal:
    """For a message that is larger than allowed."""
    return Refusal(
        Verdict.TOO_LARGE, "too_large", f"{what} is larger than receiver.max_message_bytes, which is {limit}"
    )
