"""What would be done next to a lake, read from the state store and the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.app.policies import build_policy_store
from neve.app.wiring import build_documents
from neve.work.boxer import boxes_in
from neve.work.job import JobState
from neve.work.jobs import Jobs
from neve.work.outlook import Line, View, outlook
from neve.work.pauses import Pauses
from neve.work.scheduler import marks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.work.policy_store import PolicyStore


@dataclass(frozen=True)
class Outlook:
    """What comes next, by the store's clock; `source` is where the policies come from, `warnings` what is in vain."""

    at: datetime
    source: str
    lines: tuple[Line, ...]
    warnings: tuple[str, ...]


def build_outlook(settings: Settings, lake: Lake) -> Outlook:
    """The outlook of a lake, through a connection of its own."""
    documents = build_documents(settings)
    try:
        return look_ahead(documents, build_policy_store(settings, documents), lake.table_names())
    finally:
        documents.close()


def look_ahead(documents: Documents, store: PolicyStore, tables: Sequence[str]) -> Outlook:
    """The outlook of tables, as the documents have it now; nothing is changed."""
    policies, now = store.load(), documents.now()
    view = View(
        now=now,
        policies=policies,
        tables=tables,
        marks=marks(documents),
        jobs=Jobs(documents).list(states=(JobState.QUEUED, JobState.RUNNING)),
        boxes=boxes_in(documents),
        pauses=Pauses(documents).list(),
    )
    return Outlook(now, store.source(), tuple(outlook(view)), tuple(policies.warnings(tables)))
