"""What is to be exported, and the names that follow from it alone: the same request always has the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan, Reference

from neve.errors import ConfigError

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.expressions import BooleanExpression

EXPORTS = UUID("5d7f0b6e-3c1c-5f0e-9b57-0e6d1f0c8a44")  # the namespace of all names here


@dataclass(frozen=True)
class ExportRequest:
    """The rows of one organization in a table, from `since` until before `until`, and the folder for them."""

    folder: str
    table: str
    organization_id: str
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.since >= self.until:
            raise ConfigError(
                f"--since {self.since.isoformat()} is not before --until {self.until.isoformat()}",
                hint="rows are taken from --since until before --until",
            )

    @property
    def key(self) -> UUID:
        """What tells this request from others for the same folder."""
        times = [moment.isoformat() if moment else "" for moment in (self.since, self.until)]
        return uuid5(EXPORTS, "|".join([self.table, self.organization_id, *times]))

    @property
    def since_ms(self) -> int:
        """The begin in milliseconds, which the names of files hold."""
        return int(self.since.timestamp() * 1000) if self.since else 0

    @property
    def row_filter(self) -> BooleanExpression:
        """The rows that are meant."""
        rows: BooleanExpression = EqualTo(term=Reference("organization_id"), value=self.organization_id)
        if self.since:
            rows = And(rows, GreaterThanOrEqual(term=Reference("timestamp"), value=self.since.isoformat()))
        if self.until:
            rows = And(rows, LessThan(term=Reference("timestamp"), value=self.until.isoformat()))
        return rows

    def part_id(self, task: int, piece: int) -> str:
        """The id of a part: a task writes one, and another where resources or scopes are too many for one."""
        return str(uuid5(self.key, f"{task}/{piece}"))

    def file_id(self, part: str, table: str, number: int) -> str:
        """What tells a file from others of its part and table."""
        return str(uuid5(UUID(part), f"{table}/{number}"))
