"""OTLP messages in files have bounds; records of generic files become one message of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.ingest.assignment import Assignment
from neve.ingest.config import IngestConfig
from neve.ingest.files.find import find_files
from neve.ingest.files.hashing import HashedFile, hash_files
from neve.ingest.files.task import _FileReader, nothing_wrong
from neve.lake.config import S3Config
from neve.model.signals import Signal
from neve.otlp.json import to_json
from tests.telemetry import NOW, logs

if TYPE_CHECKING:
    from pathlib import Path

LINES = "".join(f'{{"timestamp": {NOW // 10**9}, "message": "line {number}"}}\n' for number in range(50)).encode()


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
    reader = _FileReader(assignment, "acme", nothing_wrong)
    list(reader.take(file))
    assert (dict(reader.decoder.tally.records), dict(reader.decoder.tally.rejected)) == (
        {"logs": records} if records else {},
        rejected,
    )
