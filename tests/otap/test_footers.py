"""What footers tell of files, and what is done where they do not."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from neve.errors import InputError
from neve.otap.folder import OtapFile, list_folder
from neve.otap.parquet import read_file_facts
from neve.otap.tables import schema
from neve.otap.writer import write_file
from tests.otap.stars import PART, Log, Span, make_star

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = pafs.LocalFileSystem()
NANOS = 1_700_000_000_123_456_789
LOGS = [Log(time_ns=NANOS), Log(time_ns=NANOS + 5, attributes={"a": 1}), Log(time_ns=NANOS - 7)]


def file_of(path: Path, table: str = "logs", part: str = "") -> OtapFile:
    """A file that is told by its path alone."""
    return OtapFile(table, part, str(path), path.stat().st_size, 0)


@pytest.mark.parametrize("convention", ["specification", "exporter"])
@pytest.mark.parametrize("flat", [True, False])
def test_facts_of_a_root_file(tmp_path: Path, convention: Any, flat: bool) -> None:
    """Rows, times to the nanosecond, rows without an id, and the part, wherever it is told."""
    make_star(tmp_path, logs=LOGS, convention=convention, flat=flat)
    (file,) = list_folder(str(tmp_path), LOCAL)["logs"]
    facts = read_file_facts(file, LOCAL)
    assert (facts.rows, facts.bytes, facts.without_id, facts.part) == (3, file.size, 2, PART)
    assert (facts.time_min, facts.time_max) == (NANOS - 7, NANOS + 5)
    assert facts.convention == ""
    assert pickle.loads(pickle.dumps(facts)) == facts  # noqa: S301 - our own


def test_spans_have_a_time_of_their_own(tmp_path: Path) -> None:
    """The time of a span is its start; children have none."""
    make_star(tmp_path, spans=[Span(time_ns=NANOS, attributes={"a": 1})])
    listing = list_folder(str(tmp_path), LOCAL)
    assert read_file_facts(listing["spans"][0], LOCAL).time_max == NANOS
    child = read_file_facts(listing["span_attrs"][0], LOCAL)
    assert (child.rows, child.time_min, child.without_id, child.part) == (1, None, 0, PART)


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_columns_are_read_where_there_are_no_statistics(tmp_path: Path, unit: str) -> None:
    """A writer may leave statistics out, and count in other units."""
    times = pa.array([5000, 3000], pa.int64()).cast(pa.timestamp(unit))
    path = tmp_path / "x.parquet"
    rows = pa.table({"id": pa.array([None, 1], pa.uint32()), "time_unix_nano": times})
    pq.write_table(rows, path, write_statistics=False)
    facts = read_file_facts(file_of(path), LOCAL)
    factor = {"us": 1000, "ns": 1}[unit]
    assert (facts.time_min, facts.time_max, facts.without_id) == (3000 * factor, 5000 * factor, 1)


def test_an_empty_file_has_no_times(tmp_path: Path) -> None:
    """Ours tell how they are numbered, too."""
    path = tmp_path / "x.parquet"
    write_file(LOCAL, str(path), "logs", schema("logs").empty_table(), PART)
    facts = read_file_facts(file_of(path), LOCAL)
    assert (facts.rows, facts.time_min, facts.time_max, facts.convention) == (0, None, None, "specification")


@pytest.mark.parametrize("kept", [0, 3, 100, -1])
def test_a_damaged_file_is_named(tmp_path: Path, kept: int) -> None:
    """Cut off anywhere, or empty: an error that names the file."""
    (path,) = make_star(tmp_path, logs=LOGS)["logs"]
    content = pafs.LocalFileSystem().open_input_file(path).read()
    (tmp_path / "cut.parquet").write_bytes(content[:kept])
    with pytest.raises(InputError, match=r"cut\.parquet"):
        read_file_facts(file_of(tmp_path / "cut.parquet"), LOCAL)


def test_a_file_that_is_gone_and_one_without_time(tmp_path: Path) -> None:
    """Both are said by name."""
    with pytest.raises(InputError, match=r"no such file: .*gone\.parquet"):
        read_file_facts(OtapFile("logs", "", f"{tmp_path}/gone.parquet", 1, 0), LOCAL)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"x\.parquet: there is no column time_unix_nano"):
        read_file_facts(file_of(tmp_path / "x.parquet"), LOCAL)


def test_facts_of_the_real_data(shared_data: Path) -> None:
    """The exporter's own files, whose logs pyarrow alone can't open."""
    listing = list_folder(str(shared_data / "otap"), LOCAL)
    facts = {table: read_file_facts(files[0], LOCAL) for table, files in listing.items()}
    assert {table: facts[table].rows for table in ("logs", "spans")} == {"logs": 4974, "spans": 14_890}
    assert facts["logs"].time_min == 1_674_982_096_546_346_267
    assert facts["logs"].without_id == 0
