"""Frames between a server and its workers arrive as they were sent, with few calls of the system."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from neve.query.engine.channel import HEADER, READ_AHEAD_BYTES, Channel, ChannelClosed, Frame

SIZES = st.one_of(st.integers(0, 200), st.integers(READ_AHEAD_BYTES - 20, READ_AHEAD_BYTES + 20))


class CountedSocket:
    """A socket that counts its calls."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._end, name)


@given(st.lists(st.tuples(st.sampled_from([Frame.SCHEMA, Frame.BATCH]), SIZES, st.booleans()), max_size=8))
@example([(Frame.BATCH, READ_AHEAD_BYTES, True), (Frame.BATCH, READ_AHEAD_BYTES + 1, True), (Frame.SCHEMA, 0, True)])
def test_frames_arrive_in_order_and_whole(frames: list[tuple[Frame, int, bool]]) -> None:
    """Whether they are held or sent, small or large."""
    one, other = socket.socketpair()
    sender, receiver = Channel(one), Channel(other)
    sent = [(frame, bytes([number]) * size) for number, (frame, size, _held) in enumerate(frames)]

    def send() -> None:
        for (frame, payload), (_frame, _size, is_held) in zip(sent, frames, strict=True):
            (sender.hold if is_held else sender.send)(frame, payload)
        sender.send(Frame.END)

    thread = threading.Thread(target=send)
    thread.start()
    found = [receiver.receive() for _ in range(len(sent) + 1)]
    thread.join()
    assert [(frame, payload.to_pybytes()) for frame, payload in found] == [*sent, (Frame.END, b"")]
    sender.shut()
    with pytest.raises(ChannelClosed):
        receiver.receive()
    receiver.shut()


def test_a_small_result_takes_one_call_on_each_side() -> None:
    """Each call may wake the other process."""
    ends = [CountedSocket(end) for end in socket.socketpair()]
    sender, receiver = (Channel(end) for end in ends)  # type: ignore[arg-type]
    sender.hold(Frame.SCHEMA, b"columns")
    sender.hold(Frame.BATCH, b"rows")
    sender.send_json(Frame.END, {"cpu_seconds": 0.1})
    frames = [receiver.receive()[0] for _ in range(3)]
    assert frames == [Frame.SCHEMA, Frame.BATCH, Frame.END]
    assert [end.calls for end in ends] == [["sendall"], ["recv"]]
    sender.shut()
    receiver.shut()


def test_a_frame_that_ends_early_closes_the_channel() -> None:
    """In its header, or in a payload of any size."""
    for start in (b"B\x00", HEADER.pack(b"B", 10) + b"x", HEADER.pack(b"B", READ_AHEAD_BYTES * 2) + b"x"):
        one, other = socket.socketpair()
        one.sendall(start)
        one.close()
        with pytest.raises(ChannelClosed):
            Channel(other).receive()
        other.close()
