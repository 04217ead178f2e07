"""Search for texts in files that tail sampling has exported.

They may have spans of several organizations, and other programs read them. An erasure names them and changes nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from neve.lake.storage.filesystem import resolve_filesystem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.erase.condition import TextTest
    from neve.lake.config import S3Config


def find_exported_files(folder: str, s3: S3Config, test: TextTest) -> Iterator[str]:
    """Yield the names of exported files with the texts, compressed or not."""
    filesystem, inner = resolve_filesystem(str(Path(folder).expanduser()) if folder.startswith("~") else folder, s3)
    for info in filesystem.get_file_info(pafs.FileSelector(inner, allow_not_found=True)):
        if info.is_file and info.base_name.startswith("traces-") and _has_texts(filesystem, info.path, test):
            yield info.base_name


def _has_texts(filesystem: pafs.FileSystem, path: str, test: TextTest) -> bool:
    with filesystem.open_input_stream(path, compression="detect") as stream:
        content = stream.read().decode("utf-8", "surrogateescape")
    return test.holds(content) or ("\\" in content and test.holds(_unescape(content)))


def _unescape(content: str) -> str:
    """Return the lines of a JSON file without escapes of letters."""
    try:
        return "\n".join(json.dumps(json.loads(line), ensure_ascii=False) for line in content.splitlines() if line)
    except ValueError:  # protobuf, which has no escapes
        return ""
