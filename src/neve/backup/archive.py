"""Files of a backup: a manifest with versions and checksums, and the files that it lists."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.errors import LakeError
from neve.lake.storage.filesystem import resolve_filesystem
from neve.local_folders import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.lake.config import S3Config

MANIFEST = "manifest.json"
BACKUP_FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """Content of a backup: its format, what wrote it, and the checksum of each of its files."""

    format: int
    release: str
    created_at: str
    catalog: str
    warehouse: str
    tables: int
    documents: int
    keys: int
    files: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Archive:
    """A folder or prefix with the files of a backup."""

    location: str
    s3: S3Config

    @property
    def exists(self) -> bool:
        """Return whether it has a manifest, which is written last."""
        filesystem, path = resolve_filesystem(f"{self.location}/{MANIFEST}", self.s3)
        return bool(filesystem.get_file_info(path).is_file)

    def write(self, manifest: Manifest, files: Mapping[str, bytes]) -> Manifest:
        """Write the files, then the manifest with their checksums. A backup without a manifest is none."""
        if "://" not in self.location:
            make_private_folder(Path(self.location))  # it has hashes of keys
        for name, data in files.items():
            self._write(name, data)
        sums = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
        complete = Manifest(**{**asdict(manifest), "files": sums})
        self._write(MANIFEST, json.dumps(complete.to_json(), indent=2).encode())
        return complete

    def read(self) -> tuple[Manifest, dict[str, bytes]]:
        """Return the manifest and the files. Raises `LakeError` if one is missing, changed, or of a newer release."""
        try:
            values = json.loads(self._read(MANIFEST))
        except (OSError, ValueError) as error:
            raise LakeError(
                f"{self.location} is not a backup: {MANIFEST} can't be read ({type(error).__name__})",
                hint="name the folder that `neve backup` wrote",
            ) from None
        if values.get("format", 0) > BACKUP_FORMAT:
            raise LakeError(
                f"the backup has format {values['format']} of release {values.get('release')}, expected at most "
                f"{BACKUP_FORMAT}",
                hint="restore it with that release",
            )
        manifest = Manifest(**{name: values[name] for name in Manifest.__dataclass_fields__})
        return manifest, {name: self._check(name, expected) for name, expected in manifest.files.items()}

    def _check(self, name: str, expected: str) -> bytes:
        try:
            data = self._read(name)
        except OSError:
            raise LakeError(f"the backup lacks {name}, which its manifest lists", hint="use another backup") from None
        found = hashlib.sha256(data).hexdigest()
        if found != expected:
            raise LakeError(
                f"{name} of the backup has the checksum {found}, expected {expected}", hint="use another backup"
            )
        return data

    def _write(self, name: str, data: bytes) -> None:
        filesystem, path = resolve_filesystem(f"{self.location}/{name}", self.s3)
        if "://" not in self.location:
            Path(f"{self.location}/{name}").parent.mkdir(parents=True, exist_ok=True)
        with filesystem.open_output_stream(path) as stream:
            stream.write(data)

    def _read(self, name: str) -> bytes:
        filesystem, path = resolve_filesystem(f"{self.location}/{name}", self.s3)
        with filesystem.open_input_stream(path, compression=None) as stream:
            data: bytes = stream.read()
            return data
