"""Parts read in chunks, with what hangs on the rows and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neve.errors import InputError
from neve.lake.config import S3Config
from neve.otap import part_reader, to_lake
from neve.otap.ids import SPECIFICATION
from neve.otap.parquet import open_parquet
from neve.otap.part_reader import PartFiles, PartReader, infer_part_offsets
from neve.otap.tables import IDS
from neve.otap.to_lake import to_messages
from tests.otap.lake.there_and_back import ROOTS, rows_of
from tests.otap.stars import Log, make_star

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

S3 = S3Config()
SIGNALS = {root: signal for signal, root in ROOTS.items()}
LOGS = [
    Log(n + 1, service=f"s{n % 5}", body=n, attributes={"n": n, "more": "x" * n} if n % 3 else {}) for n in range(60)
]


def read_all(files: dict[str, list[str]], root: str = "logs") -> Iterator[dict[str, Any]]:
    """The lake's rows of a part."""
    reader = PartReader(PartFiles(files, infer_part_offsets(S3, files)), S3)
    for path in files[root]:
        for star in reader.chunks(root, path):
            for message in to_messages(star, Counter()).to_pylist():
                yield from rows_of(SIGNALS[root], message).to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["specification", "exporter"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_chunks_have_what_hangs_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, convention: Any, dictionary: bool
) -> None:
    """Whatever the size of chunks and files, every log has its own attributes and service."""
    monkeypatch.setattr(part_reader, "CHUNK_ROWS", 7)
    files = make_star(tmp_path, logs=LOGS, convention=convention, batch=11, files=2, dictionary=dictionary)
    found = {int(row["message"]): row for row in read_all(files)}
    assert sorted(found) == list(range(60))
    for number, log in enumerate(LOGS):
        row = found[number]
        assert (row["service_name"], row["time_unix_nano"]) == (log.service, log.time_ns)
        assert dict(row["attributes"]) == {key: str(value) for key, value in log.attributes.items()}


def test_a_large_resource_makes_several_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row gets its resource: what would grow too large for one message goes into several."""
    monkeypatch.setattr(to_lake, "MAX_SHARED_BYTES", 4096)
    files = make_star(tmp_path, logs=[Log(n + 1, resource={"big": "x" * 500}, body=n) for n in range(20)])
    [star] = PartReader(PartFiles(files), S3).chunks("logs", files["logs"][0])
    assert len(to_lake.to_messages(star, Counter())) > 5
    assert sorted(int(row["message"]) for row in read_all(files)) == list(range(20))


def test_our_own_files_say_what_their_ids_are(tmp_path: Path) -> None:
    """Then nobody guesses, whatever the ids look like."""
    files = make_star(tmp_path, logs=LOGS, convention="exporter", batch=11)
    assert infer_part_offsets(S3, files) is not None
    [path] = files["logs"]
    pq.write_table(pq.read_table(path).replace_schema_metadata({IDS: SPECIFICATION}), path)
    assert infer_part_offsets(S3, files) is None


def test_row_groups_of_others_are_not_read(tmp_path: Path) -> None:
    """Attributes of other parents may be damaged: nobody looks at them."""
    files = make_star(tmp_path, logs=LOGS)
    [path] = files["log_attrs"]
    pq.write_table(pq.read_table(path), path, row_group_size=10)
    damaged = pq.ParquetFile(path).metadata.row_group(3).column(1)
    with open(path, "r+b") as file:
        file.seek(damaged.dictionary_page_offset or damaged.data_page_offset)
        file.write(b"\0" * 8)
    rows = pq.read_table(files["logs"][0])
    pq.write_table(rows.slice(0, 10), files["logs"][0])
    assert len(list(read_all(files))) == 10
    pq.write_table(rows, files["logs"][0])
    with pytest.raises(InputError, match="log_attrs"):
        list(read_all(files))


def test_a_file_without_columns_that_may_be_left_out(tmp_path: Path) -> None:
    """Only what the specification requires is required."""
    files = make_star(tmp_path, logs=[Log(5, body="x")])
    [path] = files["logs"]
    pq.write_table(pq.read_table(path).select(["resource", "time_unix_nano", "body"]), path)
    [row] = read_all(files)
    assert (row["message"], row["service_name"], row["scope_name"], row["trace_id"]) == ("x", "shop", None, None)


def test_a_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    """The error says which file it is."""
    files = make_star(tmp_path, logs=LOGS)
    with open(files["logs"][0], "r+b") as file:
        file.truncate(200)
    with pytest.raises(InputError, match=files["logs"][0]):
        list(read_all(files))


def test_a_sound_footer_is_left_alone(tmp_path: Path) -> None:
    """Ids of a fixed length that are what they say stay what they are."""
    files = make_star(tmp_path, logs=[Log(5, trace_id=bytes(range(16)), span_id=bytes(8))], dictionary=False)
    with pa.OSFile(files["logs"][0]) as source:
        assert open_parquet(source).schema_arrow.field("trace_id").type == pa.binary(16)
