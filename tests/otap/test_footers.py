"""Footers of OTAP files: the part, counts of nulls, and errors that name the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from neve.errors import InputError
from neve.otap.folder import list_folder
from neve.otap.ids import SPECIFICATION
from neve.otap.parquet import count_nulls, open_file, read_part_id
from neve.otap.tables import IDS, schema
from neve.otap.writer import write_file
from tests.otap.stars import PART, Log, Span, make_star

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = pafs.LocalFileSystem()
LOGS = [Log(), Log(attributes={"a": 1}), Log()]


@pytest.mark.parametrize("convention", ["specification", "exporter"])
@pytest.mark.parametrize("flat", [True, False])
def test_a_root_file_has_its_part_and_rows_without_ids(tmp_path: Path, convention: Any, flat: bool) -> None:
    """The part is in the path or in the footer, and only rows with children have ids."""
    make_star(tmp_path, logs=LOGS, convention=convention, flat=flat)
    (file,) = list_folder(str(tmp_path), LOCAL)["logs"]
    with open_file(file.path, LOCAL) as parquet:
        assert (parquet.metadata.num_rows, count_nulls(parquet, "id")) == (3, 2)
        assert (file.part or read_part_id(parquet.schema_arrow)) == PART


def test_a_child_file_declares_no_part(tmp_path: Path) -> None:
    """Only root tables declare the part in their footer."""
    make_star(tmp_path, spans=[Span(attributes={"a": 1})])
    with open_file(list_folder(str(tmp_path), LOCAL)["span_attrs"][0].path, LOCAL) as parquet:
        assert (parquet.metadata.num_rows, read_part_id(parquet.schema_arrow)) == (1, "")


def test_nulls_are_counted_without_statistics(tmp_path: Path) -> None:
    """A writer may omit statistics. Then the column is read."""
    rows = pa.table({"id": pa.array([None, 1, None], pa.uint32())})
    pq.write_table(rows, tmp_path / "x.parquet", write_statistics=False)
    with open_file(str(tmp_path / "x.parquet"), LOCAL) as parquet:
        assert count_nulls(parquet, "id") == 2


def test_files_of_neve_declare_their_convention(tmp_path: Path) -> None:
    """Readers need not infer the id convention of such files, even of empty ones."""
    path = str(tmp_path / "x.parquet")
    write_file(LOCAL, path, "logs", schema("logs").empty_table(), PART)
    with open_file(path, LOCAL) as parquet:
        assert parquet.schema_arrow.metadata[IDS.encode()] == SPECIFICATION.encode()
        assert (read_part_id(parquet.schema_arrow), count_nulls(parquet, "id")) == (PART, 0)


@pytest.mark.parametrize("length", [0, 3, 100, -1])
def test_a_damaged_file_is_named(tmp_path: Path, length: int) -> None:
    """A file that is truncated anywhere, or empty, raises an error that names it."""
    (path,) = make_star(tmp_path, logs=LOGS)["logs"]
    content = LOCAL.open_input_file(path).read()
    (tmp_path / "cut.parquet").write_bytes(content[:length])
    with pytest.raises(InputError, match=r"cut\.parquet"), open_file(str(tmp_path / "cut.parquet"), LOCAL):
        pass


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The file may have been removed since the folder was listed."""
    with (
        pytest.raises(InputError, match=r"no such file: .*gone\.parquet"),
        open_file(f"{tmp_path}/gone.parquet", LOCAL),
    ):
        pass


def test_files_of_the_exporter_are_readable(shared_data: Path) -> None:
    """The exporter's own files, whose logs pyarrow alone can't open."""
    listing = list_folder(str(shared_data / "otap"), LOCAL)
    rows = {}
    for table in ("logs", "spans"):
        with open_file(listing[table][0].path, LOCAL) as parquet:
            rows[table] = parquet.metadata.num_rows, count_nulls(parquet, "id")
    assert rows["logs"] == (4974, 0)
    assert rows["spans"][0] == 14_890
