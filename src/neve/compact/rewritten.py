"""What a rewrite of one group left: files that hold the same rows, and the proof of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.compact.fingerprint import Fingerprint
from neve.compact.plan import Executor
from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.compact.plan import Group
    from neve.lake.content import Content


class RowsDiffer(LakeError):
    """Raised when what was written is not what was read; nothing is published then."""


@dataclass(frozen=True)
class Rewritten:
    """The new files of a group, not yet in the table."""

    group_id: str
    executor: Executor
    added: tuple[Content, ...]
    before: Fingerprint
    after: Fingerprint
    seconds: float
    cpu_seconds: float = 0.0
    removed_deletes: tuple[Content, ...] = ()
    has_equality_deletes: bool = False
    duplicates: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of the new files."""
        return sum(int(file["file-size-in-bytes"]) for file in self.added)

    def checked(self, group: Group) -> Rewritten:
        """Itself, when not a row was lost, made or changed; raises `RowsDiffer` otherwise."""
        if self.before != self.after:
            raise RowsDiffer(
                f"group {self.group_id} of {group.partition.label or 'the table'}: read {self.before.rows} rows "
                f"(hash {self.before.hash:x}), wrote {self.after.rows} (hash {self.after.hash:x})",
                hint="nothing was published, and the files that were read are untouched; this is a bug in Neve",
            )
        return self

    def as_document(self) -> dict[str, Any]:
        """The form that rests in the journal."""
        return {
            **vars(self),
            "executor": self.executor.value,
            "added": list(self.added),
            "removed_deletes": list(self.removed_deletes),
            "before": _document(self.before),
            "after": _document(self.after),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Rewritten:
        """What the journal has kept."""
        return cls(
            **{
                **document,
                "executor": Executor(document["executor"]),
                "added": tuple(document["added"]),
                "removed_deletes": tuple(document["removed_deletes"]),
                "before": _fingerprint(document["before"]),
                "after": _fingerprint(document["after"]),
            }
        )


def _document(fingerprint: Fingerprint) -> dict[str, Any]:
    # A hash has more bits than a number in JSON is sure to keep.
    return {"rows": fingerprint.rows, "hash": str(fingerprint.hash)}


def _fingerprint(document: Mapping[str, Any]) -> Fingerprint:
    return Fingerprint(document["rows"], int(document["hash"]))
