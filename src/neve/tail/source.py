"""The table that spans are read from: its columns checked against what the policies ask, before anything is read."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.tail.mapping import map_columns
from neve.tail.reading import SpanReader
from neve.tail.summary import Summary

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig
    from neve.tail.policy.tree import PolicySet

FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class Source:
    """A table of spans, and how it is read and summed up for some policies."""

    lake: Lake
    name: str
    table: Table
    reader: SpanReader
    summary: Summary

    @classmethod
    def of(cls, lake: Lake, config: TailConfig, policies: PolicySet) -> Source:
        """Look at the table; raises `ConfigError` where its columns can't answer what the policies ask."""
        table = lake.table(config.source.table)
        columns = map_columns(table.schema(), config.source)
        if "organization_id" not in columns.expressions:
            raise ConfigError(
                f"{config.source.table} has no column for the organization",
                hint="name it in tail.source.columns.organization_id, or say whose spans they are: "
                "tail.source.organization",
            )
        has_root = "parent_span_id" in columns.expressions
        if config.after_root_seconds is not None and not has_root:
            raise ConfigError(
                f"tail.after_root_seconds is set, but {config.source.table} does not tell which span is the root",
                hint="name the column in tail.source.columns.parent_span_id",
            )
        _check_asked(config.source.table, policies, set(columns.expressions))
        reader = SpanReader(table.schema(), columns, config.source.organization)
        return cls(lake, config.source.table, table, reader, Summary(policies, config.clock, has_root))

    @property
    def layout(self) -> str:
        """What the bits of a summary mean; summaries of another layout can't be put together with these."""
        policies = self.summary.policies
        asked = [fact.sql for fact in policies.facts] + [repr(one) for one in self.summary.latencies]
        asked += [key.sql for key in policies.keys] + [self.summary.clock, str(self.summary.sizes)]
        return sha256("\n".join(asked).encode()).hexdigest()[:16]

    @property
    def on_s3(self) -> bool:
        """Whether its files are in object storage."""
        return self.table.location().startswith("s3")

    def now(self, snapshot_id: int | None = None) -> Table:
        """The table as it is now, or as it was at a snapshot."""
        table = self.lake.table(self.name)
        if snapshot_id is not None:
            table = copy.copy(table)
            table.metadata = table.metadata.model_copy(update={"current_snapshot_id": snapshot_id})
        return table


def _check_asked(table: str, policies: PolicySet, there: set[str]) -> None:
    asked = {column for fact in policies.facts for column in fact.columns}
    asked |= {column for key in policies.keys for column in key.columns}
    lacking = sorted(name for name in asked - there if not name.endswith("attribute_types"))
    if lacking:
        raise ConfigError(
            f"the policies ask for {', '.join(lacking)}, which {table} does not have",
            hint="name the columns in tail.source.columns, or take out the policies that need them",
        )
