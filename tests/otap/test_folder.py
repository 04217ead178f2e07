"""Which files of a folder are data, of which table and part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import pytest

from neve.errors import InputError
from neve.otap.folder import list_folder, list_parts, part_path, select_part
from tests.otap.stars import PART, Log, Span, make_star

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = pafs.LocalFileSystem()
OTHER = "00000000-0000-4000-8000-000000000001"


def test_files_have_table_part_and_size(tmp_path: Path) -> None:
    """The exporter's layout: a folder for each table and part."""
    paths = make_star(tmp_path, logs=[Log(attributes={"a": 1})], spans=[Span()])
    listing = list_folder(f"{tmp_path}/", LOCAL)
    assert {table: [file.path for file in files] for table, files in listing.items()} == paths
    (file,) = listing["logs"]
    assert (file.table, file.part, file.size) == ("logs", PART, (tmp_path / file.path).stat().st_size)
    assert file.modified_ms == (tmp_path / file.path).stat().st_mtime_ns // 1_000_000


def test_a_flat_folder_has_no_parts(tmp_path: Path) -> None:
    """Files may lie straight in the folder of their table."""
    make_star(tmp_path, logs=[Log()], flat=True, files=1)
    assert {file.part for files in list_folder(str(tmp_path), LOCAL).values() for file in files} == {""}


def test_parts_are_told_apart(tmp_path: Path) -> None:
    """A part can be looked at alone."""
    for part in (PART, OTHER):
        make_star(tmp_path, logs=[Log()], part=part)
    listing = list_folder(str(tmp_path), LOCAL)
    assert list_parts(listing, ["logs"]) == (OTHER, PART)
    assert {file.part for files in select_part(listing, OTHER).values() for file in files} == {OTHER}


def test_what_is_no_data_is_left_out(tmp_path: Path) -> None:
    """Hidden names are nobody's data; other files are told."""
    paths = make_star(tmp_path, logs=[Log()])
    folder = tmp_path / "logs" / f"_part_id={PART}"
    for name in ("_SUCCESS", ".part-1.parquet.crc", ".part-2.parquet", "readme.txt"):
        (folder / name).write_text("x")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "x.parquet").write_text("x")
    (tmp_path / "stray.parquet").write_text("x")
    listing = list_folder(str(tmp_path), LOCAL)
    assert [file.path for file in listing["logs"]] == paths["logs"]
    assert listing.ignored == (str(folder / "readme.txt"), str(tmp_path / "stray.parquet"))
    assert set(listing) == set(paths)


def test_no_such_folder(tmp_path: Path) -> None:
    """The error names the folder."""
    with pytest.raises(InputError, match=r"no such folder: .*nowhere"):
        list_folder(f"{tmp_path}/nowhere", LOCAL)


def test_no_root_table(tmp_path: Path) -> None:
    """A folder without logs and spans is none of ours; what was found is said."""
    make_star(tmp_path, logs=[Log()])
    (tmp_path / "logs").rename(tmp_path / "_logs")
    with pytest.raises(InputError, match=r"no OTAP root table .* found log_attrs, resource_attrs, scope_attrs"):
        list_folder(str(tmp_path), LOCAL)


def test_paths_of_new_files() -> None:
    """New files go where the exporter would put them."""
    assert part_path("b/", "logs", "p", 7, "u") == "b/logs/_part_id=p/part-7-u.parquet"
    assert part_path("b", "logs", "", 7, "u") == "b/logs/part-7-u.parquet"
