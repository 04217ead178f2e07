"""DuckDB expressions over a span and its attributes, which know the columns that they read.

An attribute is a text and, beside it, the type that it was sent with. In a table without types, a text is read by
its form: it is a number, a boolean, a list or a map where it parses as one, and always a text as well. Values
inside a list or a map are read from its JSON by one pointer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Sql:
    """SQL expression, and the columns of `neve.tail.column_mapping` that it reads."""

    text: str
    columns: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.text


FALSE = Sql("false")
TRUE = Sql("true")


def column(name: str) -> Sql:
    """Return a column of the spans."""
    return Sql(name, frozenset((name,)))


def sql(template: str, *parts: Sql | str) -> Sql:
    """Format an expression from parts, with the columns of all parts.

    >>> sql("({} AND {})", column("name"), TRUE)
    Sql(text='(name AND true)', columns=frozenset({'name'}))
    """
    columns = frozenset[str]().union(*(part.columns for part in parts if isinstance(part, Sql)))
    return Sql(template.format(*parts), columns)


def join_sql(separator: str, parts: list[Sql]) -> Sql:
    """Join parts with a separator."""
    return sql(separator.join("{}" for _ in parts), *parts)


def any_of(parts: list[Sql]) -> Sql:
    """Return a disjunction of parts that are never null."""
    kept = [part for part in parts if part != FALSE]
    if not kept:
        return FALSE
    return kept[0] if len(kept) == 1 else sql("({})", join_sql(" OR ", kept))


def all_of(parts: list[Sql]) -> Sql:
    """Return a conjunction of parts."""
    kept = [part for part in parts if part != TRUE]
    if not kept:
        return TRUE
    return kept[0] if len(kept) == 1 else sql("({})", join_sql(" AND ", kept))


def text(value: str) -> Sql:
    """Return a text literal, in which NUL is escaped, as it ends a statement.

    >>> text("it's").text
    "'it''s'"
    """
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in value.split("\0")]
    return Sql(pieces[0] if len(pieces) == 1 else f"({' || chr(0) || '.join(pieces)})")


def integer(value: int) -> Sql:
    """Return a 64-bit integer literal."""
    return Sql(f"CAST({value} AS BIGINT)")


def double(value: float) -> Sql:
    """Return an exact floating-point literal."""
    return Sql(f"CAST('{value!r}' AS DOUBLE)" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)")


def blob(value: bytes) -> Sql:
    """Return a bytes literal."""
    return Sql(f"unhex('{value.hex()}')")


def boolean(value: bool) -> Sql:
    """Return a boolean literal."""
    return TRUE if value else FALSE


SERVICE_NAME = "service.name"
INTEGER_FORM = "-?[0-9]+"
NUMBER_FORM = r"-?[0-9]+(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"


@dataclass(frozen=True)
class Attribute:
    """One attribute, whose readings are null if the attribute is missing or of another type."""

    present: Sql  # the key is present, with a value or without one; never null
    raw: Sql  # the text, whatever its type
    type: Sql  # null for a text, and if the table has no types
    untyped: Sql  # the table has no types; FALSE for a value inside a list or a map

    @property
    def string(self) -> Sql:
        """Text of a string."""
        return sql("CASE WHEN {} IS NULL THEN {} END", self.type, self.raw)

    @property
    def integer(self) -> Sql:
        """64-bit integer, or null on overflow."""
        return self._read("int", sql("regexp_full_match({}, '{}')", self.raw, INTEGER_FORM), "TRY_CAST({} AS BIGINT)")

    @property
    def double(self) -> Sql:
        """Floating-point number, or null for an integer."""
        return self._read("double", sql("regexp_full_match({}, '{}')", self.raw, NUMBER_FORM), "TRY_CAST({} AS DOUBLE)")

    @property
    def boolean(self) -> Sql:
        """Boolean value."""
        return self._read("bool", sql("{} IN ('true', 'false')", self.raw), "{} = 'true'")

    @property
    def bytes(self) -> Sql:
        """Bytes value."""
        return sql("CASE WHEN {} = 'bytes' THEN TRY(from_base64({})) END", self.type, self.raw)

    @property
    def list(self) -> Sql:
        """List as JSON."""
        return self._select_json("array", "[")

    @property
    def map(self) -> Sql:
        """Map as JSON."""
        return self._select_json("map", "{{")

    def _read(self, name: str, form: Sql, value: str) -> Sql:
        """Read the text as another type, if it was sent as that type, or has its form and the type is unknown."""
        is_typed = sql(f"{{}} = '{name}'", self.type)
        reading = sql(value, self.raw)
        if self.untyped == FALSE:
            return sql("CASE WHEN {} THEN {} END", is_typed, reading)
        return sql("CASE WHEN coalesce({}, {} AND {}) THEN {} END", is_typed, self.untyped, form, reading)

    def _select_json(self, name: str, opening: str) -> Sql:
        if self.untyped == FALSE:
            return sql(f"CASE WHEN {{}} = '{name}' THEN {{}} END", self.type, self.raw)
        unsure = sql("(starts_with({}, 'exact:') OR {}) AND json_valid({})", self.type, self.untyped, self.raw)
        looks_so = sql(f"starts_with({{}}, '{opening}') AND {{}}", self.raw, unsure)
        return sql(f"CASE WHEN {{}} = '{name}' OR ({{}}) THEN {{}} END", self.type, looks_so, self.raw)


@dataclass(frozen=True)
class Attributes:
    """Map of attributes and the map of their types."""

    values: Sql
    types: Sql

    def attribute(self, key: str) -> Attribute:
        """Return the attribute of a key."""
        name = text(key)
        return Attribute(
            present=sql("coalesce(map_contains({}, {}), false)", self.values, name),
            raw=sql("{}[{}]", self.values, name),
            type=sql("{}[{}]", self.types, name),
            untyped=sql("{} IS NULL", self.types),
        )


@dataclass(frozen=True)
class ResourceAttributes(Attributes):
    """Attributes of a resource, which include the service even if a table has no map for them."""

    def attribute(self, key: str) -> Attribute:
        """Return the attribute of a key."""
        found = super().attribute(key)
        if key != SERVICE_NAME:
            return found
        service = column("service_name")
        present = sql("({} OR {} IS NOT NULL)", found.present, service)
        return Attribute(present, sql("coalesce({}, {})", found.raw, service), found.type, found.untyped)


SPAN = Attributes(column("attributes"), column("attribute_types"))
RESOURCE = ResourceAttributes(column("resource_attributes"), column("resource_attribute_types"))
EVENT = Attributes(Sql("e.attributes", frozenset(("events",))), Sql("e.attribute_types", frozenset(("events",))))


JSON_TYPES = {
    "UBIGINT": "int",
    "BIGINT": "int",
    "DOUBLE": "double",
    "BOOLEAN": "bool",
    "ARRAY": "array",
    "OBJECT": "map",
    "NULL": "empty",
}
_TYPE_CASES = " ".join(f"WHEN '{name}' THEN '{kind}'" for name, kind in JSON_TYPES.items())


def select_nested(attribute: Attribute, keys: Sequence[str | int]) -> tuple[Attribute, Sql]:
    """Return the value at a path of map keys and list places, and the condition under which this fails.

    A map without the key has no value there. A value that is not a map, or not a list with such a place, fails.
    """
    outermost = attribute.map if isinstance(keys[0], str) else attribute.list
    deeper = [_is_mismatch(outermost, keys[:depth], keys[depth]) for depth in range(1, len(keys))]
    document = outermost
    if any(_is_ambiguous(key) for key in keys[1:]):
        document = sql("CASE WHEN {} THEN {} END", all_of([sql("NOT {}", one) for one in deeper]), outermost)
    json_type = sql("json_type({}, {})", document, _build_pointer(keys))
    found = Attribute(
        present=sql("({} IS NOT NULL)", json_type),
        raw=sql("json_extract_string({}, {})", document, _build_pointer(keys)),
        type=sql(f"CASE {{}} {_TYPE_CASES} END", json_type),
        untyped=FALSE,
    )
    return found, any_of([sql("({} AND {})", attribute.present, _is_unfit(outermost, keys[0])), *deeper])


def _is_unfit(document: Sql, key: str | int) -> Sql:
    """Return a condition that a value is not a map, or not a list that is long enough."""
    if isinstance(key, str):
        return sql("{} IS NULL", document)
    return sql("coalesce(json_array_length({}), 0) <= {}", document, str(key))


def _is_mismatch(document: Sql, keys: Sequence[str | int], key: str | int) -> Sql:
    """Return a condition that there is a value at the path in which the next key can't be looked up."""
    here = _build_pointer(keys)
    if isinstance(key, str):
        return sql("coalesce(json_type({}, {}) <> 'OBJECT', false)", document, here)
    return sql("coalesce(json_array_length({}, {}) <= {}, false)", document, here, str(key))


def _is_ambiguous(key: str | int) -> bool:
    """Return whether a key is ambiguous in a pointer, where a number is a place of a list or a key of a map."""
    return isinstance(key, int) or key.isdigit() or key == "-"


def _build_pointer(keys: Sequence[str | int]) -> Sql:
    return text("".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys))
