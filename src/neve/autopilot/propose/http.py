"""Requests to a forge's API: patient where it is busy, clear where it refuses, with a token that nobody sees."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import structlog
import urllib3
from tenacity import Retrying, retry_if_exception, stop_before_delay
from urllib3.exceptions import HTTPError, NewConnectionError, SSLError

from neve.autopilot.propose.busy import Busy, busy_of, pause
from neve.autopilot.propose.port import ForgeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tenacity import RetryCallState

    from neve.autopilot.propose_config import ProposeConfig

MOST_REPLY_BYTES = 16 * 1024**2  # 16 MB
MOST_WORDS = 500  # characters of what a forge says in an error
PAGE = 100
UNSETTLED = (405, 406, 422)
SETTLES_SECONDS = 15.0  # how long a forge may take to find out whether a merge would work
MOST_PAGES = 20
HINTS = {
    301: "the repository was moved: set autopilot.propose.repository to its new name",
    401: "autopilot.propose.token is missing, wrong or expired",
    403: "autopilot.propose.token may not do this: it needs to write contents and pull requests",
    404: "autopilot.propose.repository is wrong, or its token may not see it",
}

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Reply:
    """What a forge answered."""

    status: int
    body: bytes


def part(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")


class ForgeHttp:
    """One forge's API. Redirects are not followed: they would take the token elsewhere."""

    def __init__(self, config: ProposeConfig, headers: Mapping[str, str]) -> None:
        self._api = config.api
        self._headers = {"User-Agent": "neve-autopilot", **headers}
        self._retry_seconds = config.retry_seconds
        self._pool = urllib3.PoolManager(
            num_pools=1,
            retries=False,
            timeout=urllib3.Timeout(connect=config.timeout_seconds, read=config.timeout_seconds),
            ca_certs=config.ca_file or None,
        )

    def json(self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: str) -> Any:
        """The answer to a request."""
        return _parsed(self._patient(method, path, body, query), method, path)

    def json_when_settled(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a request that a forge refuses while it still makes up its mind whether a merge would work."""
        attempts = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, ForgeError) and error.status in UNSETTLED),
            stop=stop_before_delay(min(SETTLES_SECONDS, self._retry_seconds)),
            wait=pause,
            before_sleep=_tell,
            reraise=True,
        )
        return attempts(self.json, method, path, body)

    def json_or_none(self, path: str, **query: str) -> Any:
        """What is there, or none."""
        try:
            return self.json("GET", path, None, **query)
        except ForgeError as error:
            if error.status == 404:
                return None
            raise

    def text_or_none(self, path: str, accept: str, **query: str) -> str | None:
        """A file, or none."""
        try:
            return self._patient("GET", path, None, query, accept).body.decode(errors="replace")
        except ForgeError as error:
            if error.status == 404:
                return None
            raise

    def pages(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """What a list has, page by page."""
        for number in range(1, MOST_PAGES + 1):
            found = self.json("GET", path, None, **query, per_page=str(PAGE), page=str(number))
            yield from found
            if len(found) < PAGE:
                return
        raise ForgeError(f"GET {path} has more than {MOST_PAGES * PAGE} entries, expected fewer")

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def _patient(
        self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str], accept: str = ""
    ) -> Reply:
        def may_be_asked_again(error: BaseException) -> bool:
            # What a POST makes may be there already: whoever proposes again finds it, and makes no second one.
            return isinstance(error, Busy) and (method != "POST" or error.is_done is False)

        attempts = Retrying(
            retry=retry_if_exception(may_be_asked_again),
            stop=stop_before_delay(self._retry_seconds),
            wait=pause,
            before_sleep=_tell,
            reraise=True,
        )
        try:
            return attempts(self._once, method, path, body, query, accept)
        except Busy as busy:
            number = attempts.statistics["attempt_number"]
            raise ForgeError(
                f"{method} {self._api}{path} failed in {number} attempts: {busy.message}",
                hint="propose again later: what is there already is found, and updated",
            ) from busy

    def _once(
        self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str], accept: str
    ) -> Reply:
        url = f"{self._api}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = dict(self._headers)
        if accept:
            headers["Accept"] = accept
        if body is not None:
            headers["Content-Type"] = "application/json"
        sent = None if body is None else json.dumps(body).encode()
        try:
            response = self._pool.request(
                method, url, body=sent, headers=headers, preload_content=False, redirect=False
            )
            try:
                read = response.read(MOST_REPLY_BYTES + 1)
            finally:
                if not response.closed:
                    response.close()  # what is left to read would be taken for the next answer
                response.release_conn()
        except SSLError as error:
            raise ForgeError(f"the forge at {self._api} could not be trusted: {error}", hint="see ca_file") from error
        except NewConnectionError as error:
            raise Busy(f"no connection to {self._api}: {error}", is_done=False) from error
        except (HTTPError, OSError) as error:
            raise Busy(f"no answer from {self._api}: {type(error).__name__}: {error}") from error
        if len(read) > MOST_REPLY_BYTES:
            raise ForgeError(f"{method} {self._api}{path} answered over {MOST_REPLY_BYTES} bytes, expected fewer")
        self._check(method, path, response, read)
        return Reply(response.status, read)

    def _check(self, method: str, path: str, response: urllib3.BaseHTTPResponse, body: bytes) -> None:
        status = response.status
        if 200 <= status < 300:
            return
        said = _words(body)
        busy = busy_of(status, {name.lower(): value for name, value in response.headers.items()}, said)
        if busy:
            raise busy
        raise ForgeError(
            f"{method} {self._api}{path} was refused with {status}: {said or response.reason}",
            hint=HINTS.get(status),
            status=status,
        )


def _parsed(reply: Reply, method: str, path: str) -> Any:
    if not reply.body:
        return None
    try:
        return json.loads(reply.body)
    except ValueError as error:
        raise ForgeError(
            f"{method} {path} answered {reply.body[:80]!r}, expected JSON", hint="is autopilot.propose.url an API?"
        ) from error


def _words(body: bytes) -> str:
    """What an error says: GitHub has `message` and `errors`, GitLab `message` or `error`."""
    try:
        document = json.loads(body)
    except ValueError:
        return body[:MOST_WORDS].decode(errors="replace")
    if not isinstance(document, dict):
        return str(document)[:MOST_WORDS]
    parts = [document[key] for key in ("message", "error", "errors") if document.get(key)]
    return "; ".join(one if isinstance(one, str) else json.dumps(one) for one in parts)[:MOST_WORDS]


def _tell(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning(
        "forge is asked again",
        attempt=state.attempt_number,
        pause_seconds=round(state.upcoming_sleep, 1),
        error=str(error),
    )
