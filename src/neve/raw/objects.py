"""Segments in object storage: each group becomes one object, whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.errors import RawZoneError
from neve.lake.filesystem import filesystem_of
from neve.raw.frame import MAGIC
from neve.raw.local import SEALED, new_writer, segment_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.config import S3Config

LEAST_LINGER_SECONDS = 0.2  # an object a request would be many small objects


class ObjectSink:
    """One writer's segments; one after the other, so that a segment is never there before its predecessor."""

    def __init__(self, zone: str, s3: S3Config) -> None:
        self._filesystem, self._prefix = filesystem_of(zone, s3)
        self.writer = new_writer()
        self.open_bytes = 0
        self._number = 0

    def write(self, pieces: Sequence[bytes]) -> None:
        """Put one object that holds the pieces."""
        path = f"{self._prefix.rstrip('/')}/{self.writer}/{segment_name(self._number)}{SEALED}"
        try:
            with self._filesystem.open_output_stream(path, compression=None) as stream:
                stream.write(b"".join([MAGIC, *pieces]))
        except OSError as error:
            # Nobody knows whether the object is there; if it is, its frames were sent again by clients and are
            # recognised as duplicates.
            raise RawZoneError(
                f"can't write to the raw zone {path}: {error}",
                hint="is the storage reachable",
                public="writing to its object storage failed",
            ) from error
        finally:
            self._number += 1  # is never used again

    def tick(self) -> None:
        """Nothing is ever open."""

    def close(self) -> None:
        """Nothing is ever open."""
