"""Proof of a run: rows and hashes before and after, and its estimate, in the state store.

It has documents of its own. Earlier releases read the documents of the history, and accept no further keys there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neve.compact.execution.rewritten_group import Fingerprint
from neve.compact.result import MAX_RUNS, select_published

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.compact.journal import Entry
    from neve.compact.plan import Plan
    from neve.compact.result import CompactResult
    from neve.state.documents import Documents

SPACE = "compact.proofs"
HASH_BITS = 64  # sums of hashes grow with the number of groups


@dataclass(frozen=True)
class RunProof:
    """Rows and hashes of the published groups, as read and as written, and the estimate of the whole plan.

    Duplicates that a run removed are in neither of the two: `CompactResult.duplicates` counts them.
    """

    rows_before: int
    rows_after: int
    hash_before: str
    hash_after: str
    estimated_seconds: float
    estimated_dollars: float
    snapshots: tuple[str, ...] = ()  # that the run committed

    @property
    def is_equal(self) -> bool:
        """True if the same rows were read and written."""
        return (self.rows_before, self.hash_before) == (self.rows_after, self.hash_after)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> RunProof:
        """Return the proof of a document; keys of a newer release are ignored."""
        known = {name: document[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "snapshots": tuple(known["snapshots"])})


def make_proof(plan: Plan, entries: Sequence[Entry]) -> RunProof:
    """Return the proof of a run."""
    published = [entry for entry in select_published(entries) if entry.rewritten]
    before = sum((entry.rewritten.before for entry in published if entry.rewritten), Fingerprint())
    after = sum((entry.rewritten.after for entry in published if entry.rewritten), Fingerprint())
    return RunProof(
        rows_before=before.rows,
        rows_after=after.rows,
        hash_before=_format_hash(before),
        hash_after=_format_hash(after),
        estimated_seconds=round(plan.estimate.seconds, 3),
        estimated_dollars=plan.estimate.dollars,
        snapshots=tuple(sorted({str(entry.snapshot_id) for entry in published if entry.snapshot_id is not None})),
    )


def _format_hash(fingerprint: Fingerprint) -> str:
    return f"{fingerprint.hash % 2**HASH_BITS:0{HASH_BITS // 4}x}"


@dataclass(frozen=True)
class RunProofs:
    """The proofs of past runs, by the keys of the history."""

    documents: Documents

    def add(self, result: CompactResult, proof: RunProof) -> None:
        """Store the proof of a run. Only those of the newest runs of a table are kept."""
        self.documents.put(SPACE, f"{result.table}/{result.started}/{result.run_id}", asdict(proof))
        keys = [key for key, _ in self.documents.entries(SPACE, f"{result.table}/")]
        for key in keys[:-MAX_RUNS]:
            self.documents.delete(SPACE, key)

    def of(self, table: str | None = None) -> dict[str, RunProof]:
        """Return the proofs of a table, or of all tables, by run id."""
        prefix = f"{table}/" if table else ""
        found = self.documents.entries(SPACE, prefix)
        return {key.rpartition("/")[2]: RunProof.of(document) for key, document in found}
