"""The bytes of a segment: what was written is read, what was damaged is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neve.raw.frame import MAGIC, Encoding, Frame, Kind, Packing, decode, encode

FRAMES = st.lists(
    st.builds(
        Frame,
        kind=st.sampled_from(Kind),
        organization_id=st.text(min_size=1, max_size=20),
        received_unix_nano=st.integers(0, 2**64 - 1),
        payload=st.binary(max_size=200),
        encoding=st.sampled_from(Encoding),
        packing=st.sampled_from(Packing),
    ),
    max_size=6,
)


def segment(frames: list[Frame]) -> bytes:
    """A whole segment."""
    return b"".join([MAGIC, *(piece for frame in frames for piece in encode(frame))])


@given(FRAMES)
def test_a_segment_is_read_as_it_was_written(frames: list[Frame]) -> None:
    """Every field of every frame."""
    data = segment(frames)
    assert decode(data).frames == frames
    assert (decode(data).whole_bytes, decode(data).damaged) == (len(data), ())


@given(FRAMES, st.data())
def test_a_torn_segment_keeps_its_whole_frames(frames: list[Frame], data: st.DataObject) -> None:
    """Cut anywhere, it gives the frames before the cut, and says where the damage begins."""
    whole = segment(frames)
    cut = data.draw(st.integers(len(MAGIC), len(whole)))
    read = decode(whole[:cut])
    assert read.frames == frames[: len(read.frames)]
    assert segment(read.frames) == whole[: read.whole_bytes]
    assert (read.damaged == ()) == (read.whole_bytes == cut)


@given(FRAMES.filter(bool), st.data())
def test_a_flipped_bit_is_noticed(frames: list[Frame], data: st.DataObject) -> None:
    """Whatever byte it is in: its frame is not taken for a good one, and those before it survive.

    Those behind it do, too, where the bit was not in the frame's length.
    """
    whole = bytearray(segment(frames))
    place = data.draw(st.integers(len(MAGIC), len(whole) - 1))
    whole[place] ^= 1 << data.draw(st.integers(0, 7))
    read = decode(bytes(whole))
    assert read.damaged
    hit = next(number for number in range(len(frames)) if len(segment(frames[: number + 1])) > place)
    assert read.frames[:hit] == frames[:hit]
    if place - len(segment(frames[:hit])) >= 4:
        assert read.frames == [*frames[:hit], *frames[hit + 1 :]]
