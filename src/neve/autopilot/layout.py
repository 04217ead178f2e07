"""How a table's rows are laid out in files: the partition, the order inside it, and what helps beside them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PartField:
    """A field of a partition spec: a column and Iceberg's transform of it (identity, day, bucket[16], truncate[4])."""

    column: str
    transform: str

    def __str__(self) -> str:
        return self.column if self.transform == "identity" else f"{self.transform}({self.column})"


@dataclass(frozen=True)
class Promoted:
    """A column that holds the value of a map's key."""

    name: str  # of the new column
    source: str  # attributes['http.route']


@dataclass(frozen=True)
class Layout:
    """One way to lay out a table; `zorder` and `sort` exclude each other."""

    partition: tuple[PartField, ...] = ()
    sort: tuple[str, ...] = ()
    zorder: tuple[str, ...] = ()
    promoted: tuple[Promoted, ...] = ()
    blooms: tuple[str, ...] = ()
    target_file_bytes: int | None = None

    def __str__(self) -> str:
        parts = [f"partitioned by {', '.join(map(str, self.partition))}" if self.partition else "not partitioned"]
        if self.sort:
            parts.append(f"sorted by {', '.join(self.sort)}")
        if self.zorder:
            parts.append(f"z-ordered by {', '.join(self.zorder)}")
        if self.promoted:
            parts.append(f"columns for {', '.join(one.source for one in self.promoted)}")
        if self.blooms:
            parts.append(f"bloom filters on {', '.join(self.blooms)}")
        if self.target_file_bytes:
            parts.append(f"files of {self.target_file_bytes // 1024**2} MB")
        return ", ".join(parts)
