"""The one unpacker: what was packed comes back, and whatever else it is given is told."""

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from neve.raw.compression import MAX_MEMBERS, CorruptPayload, decompress_payload, decompress_pieces
from neve.raw.frame import Packing

MB = 1024 * 1024


def raw_deflate(data: bytes) -> bytes:
    """Deflate without zlib's header."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: list[tuple[Packing, Callable[[bytes], bytes]]] = [
    (Packing.GZIP, gzip.compress),
    (Packing.ZSTD, zstandard.compress),
    (Packing.DEFLATE, zlib.compress),
    (Packing.DEFLATE, raw_deflate),
]
each_packer = pytest.mark.parametrize(("packing", "pack"), PACKERS, ids=["gzip", "zstd", "zlib", "raw deflate"])


@each_packer
@given(data=st.binary(max_size=300), times=st.integers(1, 200))
def test_what_was_packed_comes_back(packing: Packing, pack: Callable[[bytes], bytes], data: bytes, times: int) -> None:
    """In as many pieces as it takes."""
    plain = data * times
    assert decompress_payload(pack(plain), packing) == b"".join(decompress_pieces(pack(plain), packing)) == plain


@given(data=st.binary(max_size=100))
def test_what_is_not_packed_is_left_alone(data: bytes) -> None:
    """Not even copied."""
    assert decompress_payload(data, Packing.NONE) is data


@each_packer
@given(data=st.data())
def test_anything_else_is_unpackable(packing: Packing, pack: Callable[[bytes], bytes], data: st.DataObject) -> None:
    """Bytes of any kind, and packed ones of which a bit was flipped or the end cut off, never raise anything else."""
    spoilt = bytearray(pack(data.draw(st.binary(max_size=200))))
    place = data.draw(st.integers(0, len(spoilt) - 1))
    if data.draw(st.booleans()):
        spoilt[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del spoilt[place:]
    for body in (bytes(spoilt), data.draw(st.binary(max_size=50))):
        with suppress(CorruptPayload):
            decompress_payload(body, packing)


@pytest.mark.slow
@each_packer
def test_no_piece_is_large(packing: Packing, pack: Callable[[bytes], bytes]) -> None:
    """However well it was packed: whoever takes pieces can stop between two of them."""
    assert max(map(len, decompress_pieces(pack(bytes(64 * MB)), packing))) <= 9 * MB


@pytest.mark.parametrize(("packing", "pack"), PACKERS[:2], ids=["gzip", "zstd"])
def test_members_are_bounded(packing: Packing, pack: Callable[[bytes], bytes]) -> None:
    """A payload may be packed in parts, but not in any number of them."""
    assert decompress_payload(pack(b"a") * MAX_MEMBERS, packing) == b"a" * MAX_MEMBERS
    with pytest.raises(CorruptPayload, match=f"continues after {MAX_MEMBERS} "):
        decompress_payload(pack(b"") * (MAX_MEMBERS + 1), packing)
