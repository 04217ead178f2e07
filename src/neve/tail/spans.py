"""What policies see of a span, and which columns of a table that is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

IDS = ("trace_id", "span_id", "parent_span_id")
TYPES = {
    "organization_id": "VARCHAR",
    **dict.fromkeys(IDS, "BLOB"),
    **dict.fromkeys(
        ("name", "service_name", "status_message", "trace_state", "scope_name", "scope_version"), "VARCHAR"
    ),
    **dict.fromkeys(("kind", "status_code"), "INTEGER"),
    **dict.fromkeys(("start_ns", "end_ns", "flags", "arrived_us"), "BIGINT"),
    **dict.fromkeys(
        ("attributes", "attribute_types", "resource_attributes", "resource_attribute_types"), "MAP(VARCHAR, VARCHAR)"
    ),
    "events": "STRUCT(time_unix_nano BIGINT, name VARCHAR, attributes MAP(VARCHAR, VARCHAR), "
    "attribute_types MAP(VARCHAR, VARCHAR))[]",
}


@dataclass(frozen=True)
class SpanColumns:
    """For each column that policies know, an expression over the table's own, and which of those it reads.

    `units` tells how times were understood; without `arrived_us` the commit of a file is when its spans arrived.
    """

    expressions: Mapping[str, str]
    reads: Mapping[str, str]  # the table's column at the top, by the column that is made from it
    names: Mapping[str, str]  # the user's name of each, for messages
    units: Mapping[str, str]

    def select(self, wanted: Iterable[str]) -> str:
        """The list of a SELECT that makes the wanted columns; what the table does not have is null."""
        return ", ".join(f"{self.expressions.get(name, f'NULL::{TYPES[name]}')} AS {name}" for name in wanted)

    def read(self, wanted: Iterable[str]) -> set[str]:
        """The table's columns that the wanted ones need."""
        needed: set[str] = set()
        for name in wanted:
            needed |= {self.reads[part] for part in _parts(name, self.reads) if part in self.reads}
        return needed

    def lacking(self, wanted: Iterable[str]) -> list[str]:
        """The wanted ones that the table does not have; without types, values are read by their form."""
        return sorted(name for name in wanted if name not in self.expressions and not name.endswith("attribute_types"))


def _parts(name: str, there: Mapping[str, str]) -> tuple[str, ...]:
    """What a column is made from."""
    if name == "resource_attributes" and name not in there:
        return ("service_name",)
    made = {"start_ns": ("start",), "end_ns": ("start", "end", "duration"), "arrived_us": ("arrived",)}
    return made.get(name, (name,))
