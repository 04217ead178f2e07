"""Map the columns of any table of spans to the span columns that policies use, as DuckDB expressions.

Tables of other writers are read and never written, so names, types and time units are mapped here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.types import (
    BinaryType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

from neve.errors import ConfigError
from neve.lake.duckdb_sql import quote_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from neve.tail.config import SourceConfig


ID_COLUMNS = ("trace_id", "span_id", "parent_span_id")
COLUMN_TYPES = {
    "organization_id": "VARCHAR",
    **dict.fromkeys(ID_COLUMNS, "BLOB"),
    **dict.fromkeys(
        ("name", "service_name", "status_message", "trace_state", "scope_name", "scope_version"), "VARCHAR"
    ),
    **dict.fromkeys(("kind", "status_code"), "INTEGER"),
    **dict.fromkeys(("start_ns", "end_ns", "flags", "arrived_us", "arrival_order", "dropped_repeats"), "BIGINT"),
    **dict.fromkeys(
        ("attributes", "attribute_types", "resource_attributes", "resource_attribute_types"), "MAP(VARCHAR, VARCHAR)"
    ),
    "events": "STRUCT(time_unix_nano BIGINT, name VARCHAR, attributes MAP(VARCHAR, VARCHAR), "
    "attribute_types MAP(VARCHAR, VARCHAR))[]",
}


@dataclass(frozen=True)
class SpanColumns:
    """Expressions over a table's columns for each column that policies use, and the table columns that they read.

    `units` describes how times were interpreted. Without `arrived_us`, the commit time of a file is the arrival time of
    its spans.
    """

    expressions: Mapping[str, str]
    reads: Mapping[str, str]  # the table's top-level column, by the column that is built from it
    names: Mapping[str, str]  # the user's name of each, for messages
    units: Mapping[str, str]

    def select(self, wanted: Iterable[str]) -> str:
        """Return the SELECT list for the wanted columns, with nulls for columns that the table lacks."""
        return ", ".join(f"{self.expressions.get(name, f'NULL::{COLUMN_TYPES[name]}')} AS {name}" for name in wanted)

    def read(self, wanted: Iterable[str]) -> set[str]:
        """Return the table's columns that the wanted columns need."""
        needed: set[str] = set()
        for name in wanted:
            needed |= {self.reads[part] for part in _list_source_roles(name, self.reads) if part in self.reads}
        return needed

    def find_missing(self, wanted: Iterable[str]) -> list[str]:
        """Return the wanted columns that the table lacks, except types, as values without them are parsed by form."""
        return sorted(name for name in wanted if name not in self.expressions and not name.endswith("attribute_types"))


def _list_source_roles(name: str, mapped: Mapping[str, str]) -> tuple[str, ...]:
    """List the source roles that a column is built from."""
    if name == "resource_attributes" and name not in mapped:
        return ("service_name",)
    made = {"start_ns": ("start",), "end_ns": ("start", "end", "duration"), "arrived_us": ("arrived",)}
    return made.get(name, (name,))


# Names that tables use for the fields of a span. The first name that exists is used.
KNOWN_NAMES: dict[str, tuple[str, ...]] = {
    "organization_id": ("organization_id", "tenant_id"),
    "trace_id": ("trace_id", "traceId", "traceid"),
    "span_id": ("span_id", "spanId", "spanid"),
    "parent_span_id": ("parent_span_id", "parentSpanId", "parent_id"),
    "name": ("operation_name", "name", "span_name"),
    "service_name": ("service_name", "serviceName", "service"),
    "kind": ("span_kind", "kind"),
    "status_code": ("status_code", "statusCode", "status.code"),
    "status_message": ("status_message", "statusMessage", "status.message"),
    "start": (
        *("start_time_unix_nano", "startTimeUnixNano", "start_time", "timestamp_ns", "timestamp_us", "timestamp_ms"),
        "timestamp",
    ),
    "end": ("end_time_unix_nano", "endTimeUnixNano", "end_time"),
    "duration": ("duration_ns", "duration_nano", "duration_us", "duration_ms", "duration"),
    "arrived": ("ingested_at", "_kafka_metadata.timestamp"),
    "trace_state": ("trace_state", "traceState"),
    "flags": ("flags", "trace_flags"),
    "arrival_order": ("arrival_order",),
    "dropped_repeats": ("dropped_repeats",),
    "attributes": ("attributes", "span_attributes"),
    "attribute_types": ("attribute_types",),
    "resource_attributes": ("resource_attrs", "resource_attributes", "resource.attributes"),
    "resource_attribute_types": ("resource_attr_types",),
    "scope_name": ("scope_name", "scope.name", "instrumentation_scope.name"),
    "scope_version": ("scope_version", "scope.version", "instrumentation_scope.version"),
    "events": ("events",),
}
NUMBER_ROLES = ("flags", "arrival_order", "dropped_repeats")
TIME_ROLES = ("start", "end", "duration", "arrived")
CODES_BY_NAME = {
    "status_code": {"UNSET": 0, "OK": 1, "ERROR": 2},
    "kind": {"UNSPECIFIED": 0, "INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5},
}
NANOS_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
UNIT_PATTERNS = (
    (r"(nanos?|_ns)$", "ns"),
    (r"(micros?|_us)$", "us"),
    (r"(millis?|_ms)$", "ms"),
    (r"(seconds|_s)$", "s"),
)
# Milliseconds since 1970, as written by AutoMQ and Kafka's own tools.
KAFKA_TIME = "_kafka_metadata.timestamp"


def map_columns(schema: Schema, config: SourceConfig) -> SpanColumns:
    """Map a table's columns.

    Raises `ConfigError` with all problems.
    """
    wrong = [
        f"tail.source.columns.{role}: expected one of {', '.join(KNOWN_NAMES)}"
        for role in config.columns
        if role not in KNOWN_NAMES
    ]
    wrong += [
        f"tail.source.units.{role}: expected one of {', '.join(TIME_ROLES)}"
        for role in config.units
        if role not in TIME_ROLES
    ]
    found: dict[str, tuple[str, IcebergType]] = {}
    for role, names in KNOWN_NAMES.items():
        if role in config.columns:
            name = config.columns[role]
            kind = _find_type(schema, name) if name else None
            if name and kind is None:
                wrong.append(
                    f"tail.source.columns.{role}: the table has no column {name!r}; it has {_list_columns(schema)}"
                )
        else:
            name, kind = next(((one, _find_type(schema, one)) for one in names if _find_type(schema, one)), ("", None))
        if kind is not None:
            found[role] = name, kind
    for role, words in (("trace_id", "the trace id"), ("start", "the start time")):
        if role not in found and config.columns.get(role) is None:
            wrong.append(
                f"no column for {words}; name it in tail.source.columns.{role}, one of {_list_columns(schema)}"
            )
    if not {"end", "duration"} & set(found):
        wrong.append("no column for the end time; name it in tail.source.columns.end or .duration")
    built = _ColumnBuilder(config)
    expressions = built.all(found)
    wrong += built.wrong
    if wrong:
        raise ConfigError("\n".join(wrong), hint="`neve tail check` shows the column mapping")
    return SpanColumns(
        expressions,
        {role: name.split(".")[0] for role, (name, _kind) in found.items()},
        {role: name for role, (name, _kind) in found.items()},
        built.units,
    )


class _ColumnBuilder:
    """Builder of the expressions of one table.

    It collects the problems of its columns.
    """

    def __init__(self, config: SourceConfig) -> None:
        self.config = config
        self.wrong: list[str] = []
        self.units: dict[str, str] = {}

    def all(self, found: Mapping[str, tuple[str, IcebergType]]) -> dict[str, str]:
        made: dict[str, str] = {}
        for role, (name, kind) in found.items():
            if role in TIME_ROLES:
                continue
            made[role] = self._of(role, name, kind)
        nanos = {role: self._nanos(role, *found[role]) for role in TIME_ROLES if role in found}
        if "start" in nanos:
            made["start_ns"] = f"coalesce({nanos['start']}, 0)"
            later = f"{nanos['start']} + {nanos['duration']}" if "duration" in nanos else "0"
            made["end_ns"] = f"coalesce({nanos.get('end', later)}, 0)"
        if "arrived" in nanos:
            made["arrived_us"] = f"({nanos['arrived']}) // 1000"
        if "resource_attributes" not in made and "service_name" in made:
            # Policies look up the service in the resource attributes.
            service = made["service_name"]
            made["resource_attributes"] = f"CASE WHEN {service} IS NOT NULL THEN MAP {{'service.name': {service}}} END"
        if "organization_id" not in made and self.config.organization:
            made["organization_id"] = "'" + self.config.organization.replace("'", "''") + "'"
        return made

    def _of(self, role: str, name: str, kind: IcebergType) -> str:
        column = _quote_path(name)
        if role in ID_COLUMNS:
            return self._id(role, name, kind, column)
        if role in CODES_BY_NAME:
            return self._code(role, name, kind, column)
        if role.endswith(("attributes", "attribute_types")):
            return self._map(role, name, kind, column)
        if role == "events":
            return self._events(name, kind, column)
        is_number = role in NUMBER_ROLES
        if not isinstance(kind, IntegerType | LongType if is_number else StringType):
            self._reject(role, name, kind, "a number" if is_number else "text")
        return column

    def _id(self, role: str, name: str, kind: IcebergType, column: str) -> str:
        if isinstance(kind, StringType):
            column = f"try(unhex(replace({column}, '-', '')))"  # text that is not hexadecimal is not an id
        elif isinstance(kind, UUIDType):
            column = f"unhex(replace({column}::VARCHAR, '-', ''))"
        elif not isinstance(kind, BinaryType | FixedType):
            self._reject(role, name, kind, "binary, text in hexadecimal or a UUID")
        if role == "parent_span_id":  # an empty id, or one of zeros only, means no parent
            return f"CASE WHEN ltrim(hex({column}), '0') <> '' THEN {column} END"
        return column

    def _code(self, role: str, name: str, kind: IcebergType, column: str) -> str:
        if isinstance(kind, IntegerType | LongType):
            return f"coalesce({column}, 0)::INTEGER"
        if not isinstance(kind, StringType):
            self._reject(role, name, kind, "a number or text")
        prefix = "STATUS_CODE_" if role == "status_code" else "SPAN_KIND_"
        cases = " ".join(
            f"WHEN '{word}' THEN {code} WHEN '{code}' THEN {code}" for word, code in CODES_BY_NAME[role].items()
        )
        return f"CASE replace(upper({column}), '{prefix}', '') {cases} ELSE 0 END"

    def _map(self, role: str, name: str, kind: IcebergType, column: str) -> str:
        if isinstance(kind, MapType) and isinstance(kind.key_type, StringType):
            return column if isinstance(kind.value_type, StringType) else f"{column}::MAP(VARCHAR, VARCHAR)"
        if isinstance(kind, StringType):
            return f"from_json({column}::JSON, '\"MAP(VARCHAR, VARCHAR)\"')"
        self._reject(role, name, kind, "a map with texts for keys, or text in JSON")
        return column

    def _events(self, name: str, kind: IcebergType, column: str) -> str:
        element = kind.element_type if isinstance(kind, ListType) else None
        parts = {field.name for field in element.fields} if isinstance(element, StructType) else set()
        if not {"name", "attributes"} <= parts:
            self._reject("events", name, kind, "a list of structs with name and attributes")
            return column
        time = "e.time_unix_nano" if "time_unix_nano" in parts else "NULL::BIGINT"
        types = "e.attribute_types" if "attribute_types" in parts else "NULL::MAP(VARCHAR, VARCHAR)"
        return (
            f"list_transform({column}, lambda e: {{time_unix_nano: {time}, name: e.name, "
            f"attributes: e.attributes, attribute_types: {types}}})"
        )

    def _nanos(self, role: str, name: str, kind: IcebergType) -> str:
        column = _quote_path(name)
        if isinstance(kind, TimestampType | TimestamptzType | TimestampNanoType | TimestamptzNanoType):
            self.units[role] = "timestamp"
            return f"epoch_ns({column})"
        unit = self.config.units.get(role) or _guess_unit(name)
        if isinstance(kind, StringType | StructType | MapType | ListType | BinaryType):
            self._reject(role, name, kind, "a timestamp or a number")
        elif unit is None:
            self.wrong.append(
                f"tail.source.units.{role}: the column {name!r} is a number without a unit in its name; "
                "expected s, ms, us or ns"
            )
        self.units[role] = unit or "ns"
        factor = NANOS_PER_UNIT[unit or "ns"]
        return f"({column} * {factor})::BIGINT" if factor > 1 or not isinstance(kind, LongType) else column

    def _reject(self, role: str, name: str, kind: IcebergType, expected: str) -> None:
        self.wrong.append(f"tail.source.columns.{role}: the column {name!r} is {kind}, expected {expected}")


def _find_type(schema: Schema, name: str) -> IcebergType | None:
    try:
        return schema.find_field(name).field_type
    except ValueError:
        return None


def _guess_unit(name: str) -> str | None:
    if name == KAFKA_TIME:
        return "ms"
    return next((unit for pattern, unit in UNIT_PATTERNS if re.search(pattern, name, re.IGNORECASE)), None)


def _quote_path(name: str) -> str:
    return ".".join(quote_name(part) for part in name.split("."))


def _list_columns(schema: Schema) -> str:
    return ", ".join(field.name for field in schema.fields)
