"""JSON messages to protobuf ones, one at a time: the JSON reader belongs to one thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from neve.model.signals import Signal
from neve.otlp.json import to_protobuf
from neve.receive.nesting import depth
from neve.receive.refusal import malformed

if TYPE_CHECKING:
    from neve.receive.refusal import Refusal


class Transcoder:
    """The thread that reads JSON."""

    def __init__(self, max_nesting: int) -> None:
        self._max_nesting = max_nesting
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="otlp-json")

    async def warm_up(self) -> None:
        """Make the reader, which takes a second in which nothing else gets far: better before the doors open."""
        await self.to_protobuf(Signal.TRACES, b"{}")

    async def to_protobuf(self, signal: Signal, text: bytes) -> bytes:
        """The message that a JSON document says; raises `Refusal` when it says none."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._convert, signal, text)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _convert(self, signal: Signal, text: bytes) -> bytes:
        check_json(text, self._max_nesting)
        try:
            found = to_protobuf(signal, text)
        except (TypeError, ValueError, RecursionError) as error:
            raise _no_message(signal, str(error)) from None
        if found.rejected:
            raise malformed(found.rejected[0].detail)
        if len(found.messages) != 1:
            raise _no_message(signal, f"it holds {len(found.messages)} documents, expected one")
        message: bytes = found.messages[0].as_py()
        return message


def check_json(text: bytes, max_nesting: int) -> None:
    """Raise `Refusal` for what is no JSON object, or one that is nested too deep to be read safely."""
    if not text.lstrip()[:1] == b"{":
        raise malformed("the body is no JSON object")
    found = depth(text)
    if found > max_nesting:
        raise malformed(f"the body is nested {found} deep, receiver.max_nesting is {max_nesting}")


def _no_message(signal: Signal, words: str) -> Refusal:
    return malformed(f"not OTLP JSON for {signal}: {words}")
