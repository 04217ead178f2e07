"""What goes out over HTTP: a status, a type, a body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.receive.refusal import Verdict
from neve.receive.reply import CONTENT_TYPES, refused

if TYPE_CHECKING:
    from starlette.types import Send

    from neve.raw.frame import Encoding
    from neve.receive.refusal import Refusal

Header = tuple[bytes, bytes]


@dataclass(frozen=True)
class HttpReply:
    """One answer."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[Header, ...] = ()

    async def send(self, send: Send) -> None:
        """Send it."""
        headers = [
            (b"content-type", self.content_type.encode()),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def refusal_reply(refusal: Refusal, encoding: Encoding, retry_after_seconds: int, *, close: bool) -> HttpReply:
    """A refusal with the headers that its status asks for."""
    headers: list[Header] = []
    if refusal.verdict.comes_back:
        headers.append((b"retry-after", b"%d" % (refusal.retry_after_seconds or retry_after_seconds)))
    if refusal.verdict is Verdict.NO_KEY:
        headers.append((b"www-authenticate", b"Bearer"))
    if close:
        headers.append((b"connection", b"close"))
    return HttpReply(refusal.verdict.http, refused(refusal, encoding), CONTENT_TYPES[encoding], tuple(headers))
