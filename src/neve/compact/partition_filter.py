"""Which partitions a person means: `organization_id=acme,timestamp_day=2026-01-*`, or `2026-01` for their names."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import unquote

from neve.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.partition_stats import PartitionStats


@dataclass(frozen=True)
class PartitionFilter:
    """Patterns for partition fields, and parts of labels; a partition must match all of them.

    Each spec has its own names, in order.
    """

    patterns: tuple[tuple[str, str], ...]
    names: dict[int, tuple[str, ...]]
    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table, text: str | None) -> PartitionFilter:
        """The filter that a text means; raises `ConfigError` where it is none or names no partition field."""
        names = {spec_id: tuple(field.name for field in spec.fields) for spec_id, spec in table.specs().items()}
        known = sorted({name for fields in names.values() for name in fields})
        patterns, parts = [], []
        for part in _conditions(text or ""):
            name, equals, pattern = part.partition("=")
            if not equals:
                parts.append(part)
                continue
            if name.strip() not in known:
                raise ConfigError(
                    f"the partition filter has {part!r}, expected field=value with a field of "
                    f"{'.'.join(table.name())}: {', '.join(known) or 'it has none'}",
                    hint="values may have * and ?; commas part several conditions; a text without = is looked for in "
                    "the names of partitions",
                )
            patterns.append((name.strip(), pattern.strip()))
        return cls(tuple(patterns), names, tuple(parts))

    def takes(self, stats: PartitionStats) -> bool:
        """Whether a partition is meant."""
        label = stats.label
        if not all(part in label or part in unquote(label) for part in self.parts):
            return False
        values = dict(zip(self.names[stats.spec_id], stats.values, strict=True))
        return all(
            name in values and fnmatchcase("null" if values[name] is None else str(values[name]), pattern)
            for name, pattern in self.patterns
        )


def _conditions(text: str) -> list[str]:
    """The parts of a filter; a text that says nothing of fields is one, whatever is in it."""
    parts = text.replace("/", ",").split(",") if "=" in text else [text]
    return [part.strip() for part in parts if part.strip()]
