"""The body of an HTTP request: read within a size, a time and the budget of all requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from neve.receive.refusal import Refusal, Verdict, too_large

if TYPE_CHECKING:
    from starlette.types import Receive

    from neve.receive.budget import Budget, Hold


class ClientGone(Exception):
    """Raised when a client goes away before its body is there: nobody waits for an answer."""


class Body:
    """One request's body."""

    def __init__(self, headers: dict[bytes, bytes], receive: Receive) -> None:
        self._receive = receive
        self._declared = int(headers.get(b"content-length") or 0)
        self._expects_go_ahead = b"expect" in headers
        self._begun = False
        self._whole = False

    @property
    def must_close(self) -> bool:
        """Whether the connection is of no more use: what follows may be the rest of the body, or may not."""
        return self._expects_go_ahead and not self._begun

    async def read(self, limit: int, seconds: float, budget: Budget, hold: Hold) -> bytes:
        """All of it; raises `Refusal` when it is too large, too slow or does not fit now."""
        if self._declared > limit:
            raise too_large("the body", limit)
        budget.check(self._declared)
        try:
            async with asyncio.timeout(seconds):
                return await self._collect(limit, hold)
        except TimeoutError:
            raise Refusal(
                Verdict.SLOW, "slow_body", f"the body was not there after {seconds:g} s (receiver.body_seconds)"
            ) from None

    async def _collect(self, limit: int, hold: Hold) -> bytes:
        pieces: list[bytes] = []
        size = 0
        self._begun = True
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece: bytes = message.get("body", b"")
            if piece:
                size += len(piece)
                if size > limit:
                    raise too_large("the body", limit)
                hold.grow(len(piece))
                pieces.append(piece)
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
