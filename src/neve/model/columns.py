"""Columns and tables as data: the declarations of `model.tables` are made of these classes."""

from dataclasses import dataclass, field

import pyarrow as pa

from neve.model.properties import BASE_PROPERTIES, BLOOM_FILTER_PREFIX, METRICS_PREFIX

TIMESTAMP = pa.timestamp("us", tz="UTC")
STRING_MAP = pa.map_(pa.string(), pa.string())
STRING_LIST = pa.list_(pa.string())
QUANTILE_VALUE = pa.struct([("quantile", pa.float64()), ("value", pa.float64())])


@dataclass(frozen=True)
class Column:
    """One column: its name, its Arrow type and the comment that users read."""

    name: str
    type: pa.DataType
    comment: str
    required: bool = False

    @property
    def is_text(self) -> bool:
        """Return whether the values are strings."""
        return bool(pa.types.is_string(self.type) or pa.types.is_large_string(self.type))

    @property
    def field(self) -> pa.Field:
        """The Arrow field, with the comment in the metadata key that Iceberg reads."""
        return pa.field(self.name, self.type, nullable=not self.required, metadata={"doc": self.comment})


@dataclass(frozen=True)
class Table:
    """One table: columns, partition spec, sort order, and the columns with statistics."""

    name: str
    comment: str
    columns: tuple[Column, ...]
    partition: tuple[tuple[str, str], ...]
    sort: tuple[str, ...]
    bounded: tuple[str, ...]
    blooms: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # DuckDB 1.5 probes a bloom filter on binary values with their printed form and finds nothing (ADR 5).
        wrong = [column.name for column in self.columns if column.name in self.blooms and not column.is_text]
        if wrong:
            raise ValueError(f"{self.name}: bloom filters are for text only: {', '.join(wrong)}")

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, in the declared order."""
        return pa.schema([column.field for column in self.columns])

    @property
    def all_properties(self) -> dict[str, str]:
        """Every table property that a new table is created with."""
        return {
            **BASE_PROPERTIES,
            "comment": self.comment,
            **{METRICS_PREFIX + name: "truncate(16)" for name in self.bounded},
            **{BLOOM_FILTER_PREFIX + name: "true" for name in self.blooms},
            **self.properties,
        }
