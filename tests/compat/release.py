"""The fixture of an earlier release: extraction into a folder, with its absolute paths changed to that folder.

Iceberg's metadata, manifests and the catalog hold absolute paths. The fixture was written at a path of a fixed length,
and is extracted to one of the same length, so that paths can be replaced in place, whatever the format around them.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import tarfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

LENGTH = 200  # characters of the path; temporary folders of tests are shorter
BASE = Path("/tmp/neve-old-release")  # noqa: S108 - a neutral path, which exists only where a fixture is written
PLACE = BASE / ("r" * (LENGTH - len(str(BASE)) - 1))
ARCHIVES = Path(__file__).parent
EXPECTED = "expected.json"
AVRO = b"Obj\x01"
SYNC_BYTES = 16


@dataclass(frozen=True)
class Release:
    """The files of a release, in a folder of a test."""

    folder: Path

    @cached_property
    def expected(self) -> dict[str, Any]:
        """What the release left: keys, jobs, and the rows of its tables."""
        found: dict[str, Any] = json.loads((self.folder / EXPECTED).read_text())
        return found

    @property
    def config(self) -> Path:
        """Its configuration."""
        return self.folder / "neve.yaml"


def extract(name: str, into: Path) -> Release:
    """Extract a release below a folder, and let its paths be those of that folder."""
    folder = into / ("r" * (LENGTH - len(str(into)) - 1))
    assert len(str(folder)) == LENGTH, f"{into} is too long"
    with lzma.open(ARCHIVES / f"{name}.tar.xz") as file, tarfile.open(fileobj=file) as tar:
        tar.extractall(into, filter="data")
    (into / "release").rename(folder)
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".parquet":  # rows are left as they were written
            path.write_bytes(move_paths(path.read_bytes(), str(PLACE).encode(), str(folder).encode()))
    return Release(folder)


def move_paths(data: bytes, old: bytes, new: bytes) -> bytes:
    """Replace a path by one of the same length in a file; blocks of Avro files are unpacked for it."""
    assert len(old) == len(new)
    return _move_in_avro(data, old, new) if data.startswith(AVRO) else data.replace(old, new)


def _move_in_avro(data: bytes, old: bytes, new: bytes) -> bytes:
    head = data.index(b"avro.codec") + len("avro.codec")
    is_packed = data[head : head + 8].endswith(b"deflate")
    sync = data[-SYNC_BYTES:]
    start = data.index(sync) + SYNC_BYTES
    moved = [data[:start].replace(old, new)]
    while start < len(data):
        count, at = read_long(data, start)
        size, at = read_long(data, at)
        block = data[at : at + size]
        start = at + size + SYNC_BYTES
        if is_packed:
            packer = zlib.compressobj(wbits=-15)
            plain = zlib.decompress(block, -15).replace(old, new)
            block = packer.compress(plain) + packer.flush()
        else:
            block = block.replace(old, new)
        moved += [write_long(count), write_long(len(block)), block, sync]
    return b"".join(moved)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in Avro's zigzag encoding, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def write_long(number: int) -> bytes:
    """Return a number in Avro's zigzag encoding."""
    value, found = (number << 1) ^ (number >> 63), bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def digest_rows(table: pa.Table) -> str:
    """Return a hash of rows, whatever their order, and wherever the fixture was written."""
    place = str(PLACE)
    lines = sorted(json.dumps(row, default=repr, sort_keys=True).replace(place, "") for row in table.to_pylist())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
