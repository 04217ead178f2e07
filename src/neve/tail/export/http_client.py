"""One request over HTTP, on a connection that is kept for the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import urllib3
from urllib3.exceptions import HTTPError, SSLError

from neve.tail.export.patience import Busy
from neve.tail.export.port import DestinationAway

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_REPLY_BYTES = 64 * 1024  # 64 KB; what is behind that is not read


@dataclass(frozen=True)
class HttpReply:
    """What a server answered; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Sends bodies to one address; redirects are not followed, for they would take the headers' secrets elsewhere."""

    def __init__(
        self, destination: str, url: str, headers: Mapping[str, str], *, timeout_seconds: float, ca_file: str = ""
    ) -> None:
        self._destination, self._url, self._headers = destination, url, dict(headers)
        self._pool = urllib3.PoolManager(
            num_pools=1,
            retries=False,
            timeout=urllib3.Timeout(connect=timeout_seconds, read=timeout_seconds),
            ca_certs=ca_file or None,
        )

    def send(self, body: bytes, headers: Mapping[str, str], method: str = "POST") -> HttpReply:
        """The answer to one request; raises `Busy` where there is none, `DestinationAway` where nobody is trusted."""
        try:
            response = self._pool.request(
                method, self._url, body=body, headers={**self._headers, **headers}, preload_content=False
            )
            try:
                read = response.read(MOST_REPLY_BYTES)
            finally:
                if not response.closed:
                    response.close()  # what is left to read would be taken for the next answer
                response.release_conn()
        except SSLError as error:
            raise DestinationAway(
                f"the destination {self._destination} at {self._url} could not be trusted: {error}",
                hint="ca_file names the certificates that are trusted",
            ) from error
        except (HTTPError, OSError) as error:
            raise Busy(f"no answer from {self._url}: {type(error).__name__}: {error}") from error
        return HttpReply(response.status, {name.lower(): value for name, value in response.headers.items()}, read)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()
