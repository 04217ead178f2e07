"""What the query log gets of a query that ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.query.statistics import Statistics

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class Entry:
    """One query; `limit` names the one that it ran into."""

    id: str
    organization: str
    key_id: str
    started: datetime
    sql: str
    normalised: str = ""
    tables: tuple[str, ...] = ()
    state: str = "done"
    error: str = ""
    limit: str = ""
    statistics: Statistics = field(default_factory=Statistics)
