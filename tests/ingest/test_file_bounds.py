"""OTLP messages in files have bounds; records of generic files become one message of any size."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neve.errors import FileTooLarge
from neve.ingest.assignment import Assignment
from neve.ingest.config import FieldsConfig, IngestConfig
from neve.ingest.files import json_documents
from neve.ingest.files.formats import Format
from neve.ingest.files.generic_records import GenericReader
from neve.ingest.files.reader import _FileReader, allow_any_path
from neve.ingest.files.source_files import HashedFile, find_files, hash_files
from neve.lake.config import S3Config
from neve.model.signals import Signal
from neve.otlp.json import to_json
from tests.telemetry import NOW, logs

if TYPE_CHECKING:
    from pathlib import Path

LINES = "".join(f'{{"timestamp": {NOW // 10**9}, "message": "line {number}"}}\n' for number in range(50)).encode()


def parquet(table: pa.Table, **options: Any) -> bytes:
    """A Parquet file in memory."""
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("rows", [4096, 1_000_000])
def test_a_large_value_of_many_rows_is_counted_before_it_is_copied(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """A file of a few hundred bytes may hold gigabytes of one repeated text."""
    held: list[int] = []
    count = json_documents._plain_bytes

    def note(column: pa.Array) -> int:
        held.append(column.nbytes)
        return count(column)

    monkeypatch.setattr(json_documents, "_plain_bytes", note)
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 1_000_000])
    data = parquet(pa.table({"message": texts}), store_schema=False, compression="zstd")
    assert len(data) < 10_000
    with pytest.raises(FileTooLarge):
        GenericReader(Signal.LOGS, FieldsConfig(), 64 * 1024 * 1024).read(Format.PARQUET, data)
    assert max(held) < 2_000_000


@pytest.mark.parametrize("options", [{}, {"store_schema": False}, {"use_dictionary": False}, {"row_group_size": 1}])
def test_parquet_columns_of_all_kinds_are_read(options: dict[str, Any]) -> None:
    """Texts as dictionaries or not, bytes, lists, maps, objects and views."""
    table = pa.table(
        {
            "text": ["a", None, "a"],
            "large": pa.array(["a", "b", None], pa.large_string()),
            "view": pa.array(["a", "b", None], pa.string_view()),
            "bytes": pa.array([b"\xff", None, b"x"]),
            "dictionary": pa.array(["u", "v", "u"]).dictionary_encode(),
            "list": [["a", "b"], [], None],
            "map": pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string())),
            "object": [{"x": "a", "y": 1}, None, {"x": None, "y": 2}],
        }
    )
    found = json_documents._read_parquet(parquet(table, **options), 1024 * 1024)
    expected = {**table.to_pydict(), "bytes": ["ff", None, "78"]}
    assert found.to_pydict() == expected


@pytest.mark.parametrize(
    ("name", "data", "records", "rejected"),
    [
        ("logs.otlp.json", to_json(Signal.LOGS, logs(50)).encode(), 0, {"overgrown_message": 1}),
        ("logs.otlp.json", to_json(Signal.LOGS, logs(10)).encode(), 10, {}),
        ("logs.jsonl", LINES, 50, {}),
    ],
    ids=["too many", "few", "generic"],
)
def test_only_foreign_messages_are_bounded(
    tmp_path: Path, name: str, data: bytes, records: int, rejected: dict[str, int]
) -> None:
    """A message with too many records goes to quarantine; so many lines are no message of anyone."""
    (tmp_path / name).write_bytes(data)
    s3 = S3Config()
    [file] = hash_files(s3, find_files([str(tmp_path / name)], s3).files)
    assert isinstance(file, HashedFile)
    assignment = Assignment("batch", NOW, IngestConfig(max_records=20), s3, {})
    reader = _FileReader(assignment, "acme", allow_any_path)
    list(reader.read(file))
    assert (dict(reader.decoder.tally.records), dict(reader.decoder.tally.rejected)) == (
        {"logs": records} if records else {},
        rejected,
    )
