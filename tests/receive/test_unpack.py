"""Packed bodies become plain ones, within bounds."""

import gzip
import os
import random
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard

from neve.ingest.stream.raw_frames import unpack_payload as unpack_frame
from neve.raw.frame import Frame, Kind, Packing
from neve.receive.budget import Budget
from neve.receive.receiver import MAX_MEMBERS, unpack, unpack_short
from neve.receive.refusal import Refusal, Verdict

MB = 1024 * 1024
TEXT = random.Random(7).randbytes(3000) + b"telemetry " * 50_000


def raw_deflate(data: bytes) -> bytes:
    """Deflate without zlib's header."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: list[tuple[Packing, Callable[[bytes], bytes]]] = [
    (Packing.NONE, bytes),
    (Packing.GZIP, gzip.compress),
    (Packing.ZSTD, zstandard.compress),
    (Packing.DEFLATE, zlib.compress),
    (Packing.DEFLATE, raw_deflate),
]
each_packer = pytest.mark.parametrize(("packing", "pack"), PACKERS, ids=["none", "gzip", "zstd", "zlib", "raw deflate"])
each_real_packer = pytest.mark.parametrize(
    ("packing", "pack"), PACKERS[1:], ids=["gzip", "zstd", "zlib", "raw deflate"]
)


def run(body: bytes, packing: Packing, limit: int = MB, budget: int = 100 * MB) -> bytes:
    """Unpack with a budget of its own, which must be whole again afterwards."""
    shared = Budget(budget)
    with shared.hold() as hold:
        plain = unpack(body, packing, limit, hold)
        assert shared.used == (0 if packing is Packing.NONE else len(plain))
    assert shared.used == 0
    return plain


@each_packer
@pytest.mark.parametrize("text", [b"", b"x", TEXT], ids=["empty", "short", "long"])
def test_every_packing_is_undone(packing: Packing, pack: Callable[[bytes], bytes], text: bytes) -> None:
    """What was packed comes back."""
    assert run(pack(text), packing) == text


@pytest.mark.parametrize(("packing", "pack"), PACKERS[1:3], ids=["gzip", "zstd"])
def test_members_are_joined(packing: Packing, pack: Callable[[bytes], bytes]) -> None:
    """A body may be packed in parts."""
    assert run(pack(b"one ") + pack(b"") + pack(b"two"), packing) == b"one two"


def test_the_number_of_members_is_bounded() -> None:
    """A body of nothing but members would cost a decompressor each."""
    with pytest.raises(Refusal, match=f"continues after {MAX_MEMBERS} gzip members") as caught:
        run(gzip.compress(b"") * (MAX_MEMBERS + 1), Packing.GZIP)
    assert caught.value.verdict is Verdict.MALFORMED


@each_real_packer
def test_a_body_that_ends_too_soon_is_malformed(packing: Packing, pack: Callable[[bytes], bytes]) -> None:
    """At whatever byte it ends."""
    whole = pack(TEXT[:5000])
    for end in (0, 1, len(whole) // 2, len(whole) - 1):
        with pytest.raises(Refusal) as caught:
            run(whole[:end], packing)
        assert caught.value.verdict is Verdict.MALFORMED


@each_real_packer
def test_garbage_is_malformed(packing: Packing, pack: Callable[[bytes], bytes]) -> None:
    """Alone, and behind something that is right."""
    for body in (b"\xff" * 100, pack(b"fine") + b"\xff" * 100):
        with pytest.raises(Refusal) as caught:
            run(body, packing)
        assert caught.value.verdict is Verdict.MALFORMED


@each_packer
def test_the_limit_itself_is_allowed_and_a_byte_more_is_not(packing: Packing, pack: Callable[[bytes], bytes]) -> None:
    """To the byte."""
    assert len(run(pack(bytes(1000)), packing, limit=1000)) == 1000
    with pytest.raises(Refusal, match="max_message_bytes, which is 1000") as caught:
        run(pack(bytes(1001)), packing, limit=1000)
    assert caught.value.verdict is Verdict.TOO_LARGE


@pytest.mark.slow
@each_real_packer
def test_a_bomb_is_stopped_early(packing: Packing, pack: Callable[[bytes], bytes]) -> None:
    """120 MB of zeros never come to be: not much more than the limit is held at a time."""
    bomb = pack(bytes(120 * MB))
    tracemalloc.start()
    try:
        with pytest.raises(Refusal) as caught:
            run(bomb, packing, limit=4 * MB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.verdict is Verdict.TOO_LARGE
    assert peak < 40 * MB


def test_a_claimed_window_is_not_allocated() -> None:
    """A zstd frame that asks for a gigabyte of window is refused."""
    parameters = zstandard.ZstdCompressionParameters(window_log=30, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = packer.compress(os.urandom(1000)) + packer.flush()
    with pytest.raises(Refusal, match="not zstd"):
        run(body, Packing.ZSTD)


def test_what_is_unpacked_counts_against_the_budget() -> None:
    """A small body that becomes large is told to come back while others need the room."""
    with pytest.raises(Refusal) as caught:
        run(gzip.compress(bytes(MB)), Packing.GZIP, budget=MB // 2)
    assert caught.value.verdict is Verdict.BUSY


@each_packer
@pytest.mark.parametrize("text", [b"", b"x", TEXT], ids=["empty", "short", "long"])
def test_ingestion_unpacks_what_was_received(packing: Packing, pack: Callable[[bytes], bytes], text: bytes) -> None:
    """Bytes are kept packed, and whoever opens them later must find the same; in parts too, where those are allowed."""
    bodies = [pack(text)] + ([pack(text) + pack(b"more")] if packing in (Packing.GZIP, Packing.ZSTD) else [])
    for body in bodies:
        assert unpack_frame(Frame(Kind.TRACES, "acme", 1, body, packing=packing), 64 * MB) == run(body, packing)


def stream_zstd(data: bytes) -> bytes:
    """As a sender writes that does not know the size before."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("packing", "pack"), [*PACKERS[1:4], (Packing.ZSTD, stream_zstd)], ids=["gzip", "zstd", "zlib", "zstd stream"]
)
def test_short_bodies_are_unpacked_up_to_a_size(packing: Packing, pack: Callable[[bytes], bytes]) -> None:
    """What is longer, broken or of several members is left for who looks closer; no more is ever unpacked."""
    text = TEXT[:5000]
    body = pack(text)
    assert unpack_short(body, packing, 5000) == text
    for other in (body[:-3], body + body, body + b"x", b"", b"no such thing", pack(b"x" + text)):
        assert unpack_short(other, packing, 5000) is None
    bomb = pack(bytes(64 * MB))
    tracemalloc.start()
    assert unpack_short(bomb, packing, 64 * 1024) is None
    assert tracemalloc.get_traced_memory()[1] < MB
    tracemalloc.stop()
