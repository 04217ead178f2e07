"""The new files of a group, with the fingerprints of the rows before and after, as the journal stores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.compact.plan import Executor
from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.compact.plan import Group
    from neve.lake.write.data_file_json import DataFileJson


@dataclass(frozen=True)
class Fingerprint:
    """Row count and hash. The sum of the fingerprints of two sets of rows is the fingerprint of both."""

    rows: int = 0
    hash: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(self.rows + other.rows, self.hash + other.hash)


class RowsDiffer(LakeError):
    """Raised when the written rows differ from the read rows. Nothing is published then."""


@dataclass(frozen=True)
class RewrittenGroup:
    """The new files of a group, not yet in the table."""

    group_id: str
    executor: Executor
    added: tuple[DataFileJson, ...]
    before: Fingerprint
    after: Fingerprint
    seconds: float
    cpu_seconds: float = 0.0
    removed_deletes: tuple[DataFileJson, ...] = ()
    has_equality_deletes: bool = False
    duplicates: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of the new files."""
        return sum(int(file["file-size-in-bytes"]) for file in self.added)

    def verify(self, group: Group) -> RewrittenGroup:
        """Return the group if no row was lost, added or changed. Raises `RowsDiffer` otherwise."""
        if self.before != self.after:
            raise RowsDiffer(
                f"group {self.group_id} of {group.partition.label or 'the table'}: read {self.before.rows} rows "
                f"(hash {self.before.hash:x}), wrote {self.after.rows} (hash {self.after.hash:x})",
                hint="nothing was published, and the files that were read are untouched; this is a bug in Neve",
            )
        return self

    def as_document(self) -> dict[str, Any]:
        """Return the form for the journal."""
        return {
            **vars(self),
            "executor": self.executor.value,
            "added": list(self.added),
            "removed_deletes": list(self.removed_deletes),
            "before": _to_document(self.before),
            "after": _to_document(self.after),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> RewrittenGroup:
        """Return the group of a document of the journal."""
        return cls(
            **{
                **document,
                "executor": Executor(document["executor"]),
                "added": tuple(document["added"]),
                "removed_deletes": tuple(document["removed_deletes"]),
                "before": _from_document(document["before"]),
                "after": _from_document(document["after"]),
            }
        )


def _to_document(fingerprint: Fingerprint) -> dict[str, Any]:
    # A hash has more bits than a JSON number reliably keeps.
    return {"rows": fingerprint.rows, "hash": str(fingerprint.hash)}


def _from_document(document: Mapping[str, Any]) -> Fingerprint:
    return Fingerprint(document["rows"], int(document["hash"]))
