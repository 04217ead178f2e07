"""The form of tokens, and the error for refused ones. It imports no library, for processes without tokens."""

from __future__ import annotations

from neve.errors import NeveError


class TokenRejected(NeveError):
    """Raised when a token is not accepted. `retry_seconds` is set if it may be accepted later."""

    def __init__(self, reason: str, message: str, *, subject: str = "", retry_seconds: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.subject = subject
        self.retry_seconds = retry_seconds


def is_token(text: str) -> bool:
    """Return whether a credential has the form of a JSON web token; keys and sessions have no dots.

    >>> is_token("eyJh.eyJz.c2ln"), is_token("neve_0123456789ab_x")
    (True, False)
    """
    return text.count(".") == 2
