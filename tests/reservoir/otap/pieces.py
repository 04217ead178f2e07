"""Pieces of a window rebuilt without Spark: decisions are written as the decision query writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from neve.lake.config import S3Config
from neve.otap.folder import list_folder
from neve.otap.part_reader import PartFiles
from neve.otap.tables import STARS
from neve.reservoir.otap.rebuild import Numbering, Piece, Rebuild, Rebuilt
from neve.reservoir.otap.root_files import WITHOUT_ID, scan_root_file
from neve.reservoir.windows import Window
from tests.reservoir.otap.contents import contents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.otap.ids import Offsets

S3 = S3Config()
ALWAYS = Window(0, 86_400)


def piece_of(folder: Path, signal: str = "logs", offsets: Offsets | None = None, ordinal: int = 0) -> Piece:
    """The one root file of a folder of one part."""
    listing = list_folder(str(folder), pafs.LocalFileSystem())
    (root,) = listing[signal]
    files = {table: tuple(file.path for file in listing.get(table, ())) for table in STARS[signal].tables}
    return Piece(scan_root_file(root, ALWAYS.seconds, S3), ordinal, PartFiles(files, offsets))


def rebuild(
    piece: Piece,
    staging: Path,
    counts: Mapping[str, float] | None = None,
    *,
    signal: str = "logs",
    numbering: Numbering = Numbering(),  # noqa: B008 - frozen
    **more: Any,
) -> Rebuilt:
    """Rebuild a piece with the records of these names, each standing for so many; all of them where nothing is said."""
    decisions = "" if counts is None else write_decisions(piece, staging, counts, signal)
    settings: dict[str, Any] = {
        "weights": "adjusted_count",
        "invalid_weights": "refuse",
        "rows_per_file": 1000,
        "window": ALWAYS,
        "generation": 0,
        **more,
    }
    return Rebuild(
        signal=signal,
        staging=str(staging / "tables"),
        decisions=decisions,
        method="priority",
        numbering=numbering,
        s3=S3,
        **settings,
    )(piece)


def write_decisions(piece: Piece, staging: Path, counts: Mapping[str, float], signal: str) -> str:
    """Decisions about records by name; one without an id is told by its place in the file."""
    folder = Path(piece.file.path.split(f"/{signal}/")[0])
    rows = []
    for place, record in enumerate(contents(folder, signal)):
        if record.name in counts:
            told = -1 - piece.ordinal * WITHOUT_ID - place if record.id is None else record.id
            rows.append({"part": piece.file.part, "id": told, "adjusted": counts[record.name]})
    kinds = {"part": pa.string(), "id": pa.int64(), "adjusted": pa.float64()}
    table = pa.Table.from_pylist(rows, schema=pa.schema(kinds.items()))
    table = table.append_column("group", pa.nulls(len(rows), pa.string()))
    table = table.append_column("weight", pa.array([1.0] * len(rows), pa.float64()))
    path = staging / "decided"
    path.mkdir(parents=True)
    pq.write_table(table, path / "one.parquet")
    return str(path)
