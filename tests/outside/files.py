"""Files of others, from bytes to rows."""

from pathlib import Path
from typing import Any

from neve.ingest.config import FieldsConfig
from neve.ingest.files.log_times import LineRules
from neve.ingest.files.reader import Messages, ReadOptions, decompress, read_messages
from neve.otlp import Intake, decode

REFERENCE = 1_760_000_000_000_000_000  # October 2025: later than all of the data
RULES = LineRules(reference_unix_nano=REFERENCE)
INTAKE = Intake("acme", REFERENCE, max_future_nanos=2**62)


def read(path: Path, wanted: ReadOptions | None = None, fields: FieldsConfig | None = None) -> Messages:
    """A file of one signal."""
    data = decompress(str(path), path.read_bytes())
    [found] = read_messages(str(path), data, wanted or ReadOptions(), fields or FieldsConfig(), rules=RULES)
    return found


def rows(found: Messages) -> list[dict[str, Any]]:
    """The accepted rows."""
    listed: list[dict[str, Any]] = decode(found.signal, found.messages, INTAKE).batch.to_pylist()
    return listed
