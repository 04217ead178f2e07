"""The manifests of a snapshot, sorted into lots that DuckDB can read with one statement each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestContent
from pyiceberg.transforms import VoidTransform

from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

LOT_BYTES = 32 * 1024 * 1024
_Kind = tuple[int, bool, bool, str]

S3_SCHEMES = ("s3", "s3a", "s3n")


@dataclass(frozen=True)
class Source:
    """A manifest: where it is, and what entries inherit from it that do not say it themselves."""

    path: str
    bytes: int
    sequence: int
    snapshot_id: int | None


@dataclass(frozen=True)
class Lot:
    """Manifests that are alike: of one partition spec, one content and one shape of entries."""

    spec_id: int
    holds_deletes: bool
    has_sequences: bool
    sources: tuple[Source, ...]


def lots_of(table: Table, snapshot: Snapshot) -> list[Lot]:
    """All manifests that have live entries; a lot is of a size that does not need much memory at once."""
    lots: dict[_Kind, list[Source]] = {}
    for manifest in snapshot.manifests(table.io):
        if not manifest.has_added_files() and not manifest.has_existing_files():
            continue
        source = Source(
            readable(manifest.manifest_path),
            manifest.manifest_length,
            manifest.sequence_number or 0,
            manifest.added_snapshot_id,
        )
        lots.setdefault(_alike(manifest, source), []).append(source)
    return [Lot(*kind[:3], part) for kind, sources in lots.items() for part in _parts(sources)]


def _parts(sources: list[Source]) -> Iterator[tuple[Source, ...]]:
    part: list[Source] = []
    for source in sources:
        if part and sum(other.bytes for other in part) + source.bytes > LOT_BYTES:
            yield tuple(part)
            part = []
        part.append(source)
    yield tuple(part)


def _alike(manifest: ManifestFile, source: Source) -> _Kind:
    holds_deletes = manifest.content == ManifestContent.DELETES
    # Manifests of format version 1 have no sequence numbers. Of the others those with data differ in little that is
    # asked for; those with deletes may or may not have a column for the file that they are about, so each is alone.
    alone = source.path if holds_deletes else ""
    return manifest.partition_spec_id, holds_deletes, source.sequence > 0, alone


def is_unpartitioned(spec: PartitionSpec) -> bool:
    """Whether a spec parts nothing; of format version 1, fields that were removed stay and have no values."""
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def readable(path: str) -> str:
    """The path as DuckDB reads it.

    >>> readable("file:///lake/m.avro"), readable("s3a://lake/m.avro")
    ('/lake/m.avro', 's3://lake/m.avro')
    """
    scheme, separator, rest = path.partition(":")
    if not separator or path.startswith("/"):
        return path
    if scheme == "file":
        return "/" + rest.lstrip("/")
    if scheme in S3_SCHEMES:
        return f"s3:{rest}"
    raise LakeError(
        f"can't read the manifest {path}: {scheme} is no storage that Neve knows, expected file or s3",
        hint="tables elsewhere can be queried through Spark, but not be planned for",
    )
