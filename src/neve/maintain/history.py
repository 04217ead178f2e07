"""What was done to each table, kept in the state store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from neve.maintain.result import StepResult

SPACE = "maintain-history"


class Kept(Protocol):
    """What the history needs of a store of documents."""

    def put(self, space: str, key: str, value: Mapping[str, object]) -> None:
        """Keep a document."""

    def entries(self, space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
        """Documents in the order of their keys."""

    def delete(self, space: str, key: str) -> None:
        """Forget a document."""


@dataclass(frozen=True)
class History:
    """The runs that were made in earnest, by table and time."""

    documents: Kept
    keep_days: int = 90

    def remember(self, result: StepResult) -> None:
        """Keep a run, and forget those of its table that are too old."""
        oldest = _key(result.table, result.started_at - timedelta(days=self.keep_days))
        for key, _value in list(self.documents.entries(SPACE, f"{result.table}/")):
            if key >= oldest:
                break
            self.documents.delete(SPACE, key)
        self.documents.put(SPACE, f"{_key(result.table, result.started_at)}/{result.step}", result.record())

    def runs(self, table: str = "", *, step: str = "", limit: int = 0) -> list[dict[str, Any]]:
        """What is remembered, the newest first; of one table, of one step, the last few."""
        found = [value for _key, value in self.documents.entries(SPACE, f"{table}/" if table else "")]
        chosen = [run for run in found if not step or run["step"] == step]
        chosen.sort(key=lambda run: str(run["started_at"]), reverse=True)
        return chosen[:limit] if limit else chosen


def _key(table: str, moment: datetime) -> str:
    return f"{table}/{moment.strftime('%Y-%m-%dT%H:%M:%S.%f')}"
