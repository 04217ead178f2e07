"""Files whose footer calls ids what they are not, as otel-arrow's exporter writes them; made by hand here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neve.errors import InputError
from neve.otap.parquet import ANY_LENGTH, FIXED, TAIL, ThriftReader, open_parquet

if TYPE_CHECKING:
    from pathlib import Path

IDS = [bytes([n]) * 16 for n in range(40)]


def write_mistaken(path: Path) -> None:
    """Values with a length before each, under a footer that says that they have none."""
    rows = pa.table({"n": pa.array(range(40), pa.int32()), "trace_id": pa.array(IDS, pa.binary())})
    pq.write_table(rows, path, row_group_size=15, store_schema=False)
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[-TAIL:-4], "little")
    start = len(data) - TAIL - length
    footer = bytes(data[start:-TAIL])
    for place, value, at in ThriftReader(footer).numbers():
        is_type = place[::2] == (2, 1) or (place[0] == 4 and place[4:] == (3, 1))
        if is_type and value == ANY_LENGTH:
            data[start + at] = FIXED << 1
    path.write_bytes(data)


def test_ids_are_read_as_they_were_written(tmp_path: Path) -> None:
    """In every row group; other columns are left alone."""
    write_mistaken(tmp_path / "x.parquet")
    with pa.OSFile(str(tmp_path / "x.parquet")) as source:
        rows = open_parquet(source).read()
    assert rows.column("trace_id").to_pylist() == IDS
    assert rows.column("n").to_pylist() == list(range(40))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 4 + b"PAR1", b"no Parquet at all, but longer"])
def test_what_is_no_parquet_is_said_to_be_none(content: bytes) -> None:
    """Too short, cut off, or something else."""
    with pytest.raises(InputError, match="not a Parquet file, or it is truncated"):
        open_parquet(pa.BufferReader(content))


def test_a_damaged_footer_is_said_to_be_damaged() -> None:
    """Whatever the bytes are, the walk through them ends."""
    footer = b"\x15\xff"
    with pytest.raises(InputError, match="its footer is damaged"):
        open_parquet(pa.BufferReader(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"))
