"""HTTP client of a forge's API: retries with backoff, rate limits, no redirects, a token that is never shown."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from neve.autopilot.propose.forge import ForgeError
from neve.http_client import (
    HttpClient,
    HttpReply,
    NoReply,
    RetryableError,
    ServerUntrusted,
    describe_retry,
    make_retrying,
)
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tenacity import RetryCallState

    from neve.autopilot.config import ProposeConfig


DEFAULT_LIMIT_SECONDS = 60.0  # wait if a forge limits requests without an end of the limit


class ForgeBusy(RetryableError):
    """Raised when a request may succeed later.

    `is_done` is None if it is unknown whether the request was executed, and False if it was not.
    """

    def __init__(self, message: str, *, after: float | None = None, is_done: bool | None = None) -> None:
        super().__init__(message, after=after)
        self.is_done = is_done


def detect_busy(status: int, headers: Mapping[str, str], message: str) -> ForgeBusy | None:
    """Return the error for a response that may be retried, or None if a retry would not help."""
    if status >= 500:
        return ForgeBusy(
            f"the forge responded with {status}: {message}", after=_parse_seconds(headers.get("retry-after"))
        )
    if not _is_rate_limit(status, headers, message):
        return None
    after = _find_retry_after(headers)
    return ForgeBusy(f"the forge limits requests for another {after:.0f} s: {message}", after=after, is_done=False)


def _is_rate_limit(status: int, headers: Mapping[str, str], message: str) -> bool:
    """Return whether a response is a rate limit.

    GitHub also uses 403 for limits: with a header, or for its secondary limit only with a message.
    """
    if status == 429:
        return True
    has_header = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    return status == 403 and (has_header or "rate limit" in message.lower())


def _find_retry_after(headers: Mapping[str, str]) -> float:
    retry_after = _parse_seconds(headers.get("retry-after"))
    if retry_after is not None:
        return retry_after
    reset = _parse_seconds(headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset"))
    return max(0.0, reset - time.time()) if reset is not None else DEFAULT_LIMIT_SECONDS


def _parse_seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


MAX_REPLY_BYTES = 16 * 1024**2  # 16 MB
MAX_ERROR_CHARACTERS = 500  # limit of a forge's error message
PAGE_SIZE = 100
UNSETTLED_STATUSES = (405, 406, 422)
SETTLE_SECONDS = 15.0  # time that a forge may take to find out whether a merge is possible
MAX_PAGES = 20
HINTS = {
    301: "the repository was moved: set autopilot.propose.repository to its new name",
    401: "autopilot.propose.token is missing, wrong or expired",
    403: "autopilot.propose.token lacks write access to contents and pull requests",
    404: "autopilot.propose.repository is wrong, or the token has no access to it",
}

log = get_logger(__name__)


class ForgeHttp:
    """Client of one forge's API."""

    def __init__(self, config: ProposeConfig, headers: Mapping[str, str]) -> None:
        self._api = config.api
        self._retry_seconds = config.retry_seconds
        self._client = HttpClient(
            timeout_seconds=config.timeout_seconds,
            max_reply_bytes=MAX_REPLY_BYTES,
            headers={"User-Agent": "neve-autopilot", **headers},
            ca_file=config.ca_file,
        )

    def json(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: str) -> Any:
        """Return the response to a request."""
        return _parse_reply(self._request_with_retries(method, path, body, query), method, path)

    def json_when_settled(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Return the response to a request that a forge rejects until it knows whether a merge is possible."""
        attempts = make_retrying(
            min(SETTLE_SECONDS, self._retry_seconds),
            lambda error: isinstance(error, ForgeError) and error.status in UNSETTLED_STATUSES,
            _log_retry,
        )
        return attempts(self.json, method, path, body)

    def json_or_none(self, path: str, **query: str) -> Any:
        """Return the object at a path, or None."""
        try:
            return self.json("GET", path, None, **query)
        except ForgeError as error:
            if error.status == 404:
                return None
            raise

    def text_or_none(self, path: str, accept: str, **query: str) -> str | None:
        """Return the file at a path, or None."""
        try:
            return self._request_with_retries("GET", path, None, query, accept).body.decode(errors="replace")
        except ForgeError as error:
            if error.status == 404:
                return None
            raise

    def pages(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page."""
        for number in range(1, MAX_PAGES + 1):
            found = self.json("GET", path, None, **query, per_page=str(PAGE_SIZE), page=str(number))
            yield from found
            if len(found) < PAGE_SIZE:
                return
        raise ForgeError(f"GET {path} has more than {MAX_PAGES * PAGE_SIZE} entries, expected fewer")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _request_with_retries(
        self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str], accept: str = ""
    ) -> HttpReply:
        def may_retry(error: BaseException) -> bool:
            # A POST may have created its object already. The next proposal finds it and doesn't create a second one.
            return isinstance(error, ForgeBusy) and (method != "POST" or error.is_done is False)

        attempts = make_retrying(self._retry_seconds, may_retry, _log_retry)
        try:
            return attempts(self._request, method, path, body, query, accept)
        except ForgeBusy as busy:
            number = attempts.statistics["attempt_number"]
            raise ForgeError(
                f"{method} {self._api}{path} failed in {number} attempts: {busy.message}",
                hint="propose again later; an existing proposal is updated",
            ) from busy

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str], accept: str
    ) -> HttpReply:
        url = f"{self._api}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": accept} if accept else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        sent = None if body is None else json.dumps(body).encode()
        try:
            reply = self._client.request(method, url, sent, headers)
        except ServerUntrusted as error:
            raise ForgeError(f"the forge at {error}", hint="see ca_file") from error
        except NoReply as error:
            raise ForgeBusy(str(error), is_done=None if error.is_sent else False) from error
        if reply.is_truncated:
            raise ForgeError(f"{method} {self._api}{path} returned more than {MAX_REPLY_BYTES} bytes")
        self._check(method, path, reply)
        return reply

    def _check(self, method: str, path: str, reply: HttpReply) -> None:
        if reply.is_success:
            return
        message = _extract_error(reply.body)
        busy = detect_busy(reply.status, reply.headers, message)
        if busy:
            raise busy
        raise ForgeError(
            f"{method} {self._api}{path} failed with {reply.status}: {message or reply.reason}",
            hint=HINTS.get(reply.status),
            status=reply.status,
        )


def _parse_reply(reply: HttpReply, method: str, path: str) -> Any:
    if not reply.body:
        return None
    try:
        return json.loads(reply.body)
    except ValueError as error:
        raise ForgeError(
            f"{method} {path} returned {reply.body[:80]!r}, expected JSON",
            hint="check that autopilot.propose.url is an API",
        ) from error


def _extract_error(body: bytes) -> str:
    """Return the message of an error: GitHub has `message` and `errors`, GitLab `message` or `error`."""
    try:
        document = json.loads(body)
    except ValueError:
        return body[:MAX_ERROR_CHARACTERS].decode(errors="replace")
    if not isinstance(document, dict):
        return str(document)[:MAX_ERROR_CHARACTERS]
    parts = [document[key] for key in ("message", "error", "errors") if document.get(key)]
    return "; ".join(one if isinstance(one, str) else json.dumps(one) for one in parts)[:MAX_ERROR_CHARACTERS]


def _log_retry(state: RetryCallState) -> None:
    log.warning("retrying request to the forge", **describe_retry(state))
