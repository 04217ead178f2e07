"""Preview of an ingestion: how each file would be read, without the lake and without Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from neve.errors import InputError
from neve.ingest.files.log_times import LineRules
from neve.ingest.files.reader import OTLP, decompress, read_messages
from neve.ingest.files.source_files import NONE_OWN, find_files
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otlp import Intake, decode

if TYPE_CHECKING:
    from neve.ingest.config import IngestConfig
    from neve.ingest.files.job import FileRequest
    from neve.ingest.files.reader import Messages
    from neve.ingest.files.source_files import SourceFile
    from neve.lake.config import S3Config
    from neve.lake.storage.paths import OwnFolders

MAX_FILES = 20
MAX_ROWS = 3
MAX_TEXT_CHARACTERS = 200  # characters of a value
NANOS = 1_000_000_000
HIDDEN = ("organization_id", "ingested_at", "record_id", "time_unix_nano", "start_time_unix_nano", "end_time_unix_nano")


@dataclass(frozen=True)
class PartPreview:
    """Records of one signal of a file: the names of fields by meaning, the names that become attributes, some rows."""

    signal: str
    schema: str | None
    fields: dict[str, list[str]]
    attributes: list[str]
    records: int
    rejected: dict[str, int]
    first_rejections: list[str]
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class FilePreview:
    """Interpretation of a file, or the reason why it can't be read."""

    path: str
    format: str | None = None
    is_detected: bool = False  # the format, by the content
    parts: tuple[PartPreview, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Preview:
    """The files of a run. At most 20 of them are read."""

    files: tuple[FilePreview, ...]
    ignored: tuple[str, ...]
    own: tuple[str, ...] = field(default=())
    unread: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the preview for `--json`."""
        return asdict(self)


def preview_files(
    request: FileRequest, s3: S3Config, config: IngestConfig, now_unix_nano: int, own: OwnFolders = NONE_OWN
) -> Preview:
    """Read the first files of a request as ingestion would, and return their mapping and first rows."""
    found = find_files(request.paths, s3, request.wanted.format, own=own)
    read = tuple(_preview_file(file, request, s3, config, now_unix_nano) for file in found.files[:MAX_FILES])
    return Preview(read, found.ignored, found.own, len(found.files) - len(read))


def _preview_file(
    file: SourceFile, request: FileRequest, s3: S3Config, config: IngestConfig, now_unix_nano: int
) -> FilePreview:
    if file.size > config.max_file_bytes:
        return FilePreview(
            file.path, error=f"it has {file.size} bytes, and ingest.max_file_bytes is {config.max_file_bytes}"
        )
    rules = LineRules(config.lines, file.modified_us * 1000 or now_unix_nano)
    try:
        filesystem, inner = resolve_filesystem(file.path, s3)
        with filesystem.open_input_stream(inner, compression=None) as stream:
            data = decompress(file.path, stream.read(file.size), config.max_unpacked_bytes)
        parts = read_messages(file.path, data, request.wanted, config.fields, config.max_unpacked_bytes, rules)
    except (InputError, OSError) as error:
        return FilePreview(file.path, error=str(error))
    intake = Intake(request.organization_id, now_unix_nano, config.max_future_seconds * NANOS)
    form = parts[0].format
    is_detected = request.wanted.format is None and form not in OTLP
    return FilePreview(file.path, form.value, is_detected, tuple(_preview_part(part, intake) for part in parts))


def _preview_part(part: Messages, intake: Intake) -> PartPreview:
    decoded = decode(part.signal, part.messages, intake)
    rejected = (*part.rejected, *decoded.rejected)
    names = part.names
    return PartPreview(
        part.signal.value,
        names.schema.name if names and names.schema else None,
        {meaning: list(fields) for meaning, fields in names.names.items() if fields} if names else {},
        list(names.others) if names else [],
        decoded.batch.num_rows,
        dict(Counter(bad.reason for bad in rejected)),
        [f"position {bad.message}: {bad.detail[:MAX_TEXT_CHARACTERS]}" for bad in rejected[:MAX_ROWS]],
        [_shorten_row(row) for row in decoded.batch.slice(0, MAX_ROWS).to_pylist()],
    )


def _shorten_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a row that are present, as JSON values."""
    present = {name: value for name, value in row.items() if name not in HIDDEN and value not in (None, 0, "", [])}
    return {name: _to_plain(name, value) for name, value in present.items()}


def _to_plain(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT_CHARACTERS else value[:MAX_TEXT_CHARACTERS] + "…"
    if isinstance(value, list) and name.endswith(("attributes", "attrs", "types", "metadata")):
        return {key: _to_plain("", entry) for key, entry in value}
    if isinstance(value, list | dict):
        text = str(value)
        return text if len(text) <= MAX_TEXT_CHARACTERS else text[:MAX_TEXT_CHARACTERS] + "…"
    return value
