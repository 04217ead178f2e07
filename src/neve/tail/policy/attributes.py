"""Attributes as policies see them: a text and, beside it, the type that it was sent with.

Where a table keeps no types, a text is read by its form: it is a number, a boolean, a list or a map where it reads as
one, and always a text as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from neve.tail.policy.sql import FALSE, Sql, column, sql, text

SERVICE_NAME = "service.name"
INTEGER_FORM = "-?[0-9]+"
NUMBER_FORM = r"-?[0-9]+(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"


@dataclass(frozen=True)
class Attribute:
    """One attribute: each reading is null where the attribute is missing or of another type."""

    present: Sql  # the key is there, be it with a value or without one; never null
    raw: Sql  # the text, whatever its type
    type: Sql  # null for a text, and where the table knows no types
    untyped: Sql  # the table knows no types; FALSE for what stands within a list or a map

    @property
    def string(self) -> Sql:
        """The text of a string."""
        return sql("CASE WHEN {} IS NULL THEN {} END", self.type, self.raw)

    @property
    def integer(self) -> Sql:
        """A whole number; one that 64 bits can't hold is none."""
        return self._read("int", sql("regexp_full_match({}, '{}')", self.raw, INTEGER_FORM), "TRY_CAST({} AS BIGINT)")

    @property
    def double(self) -> Sql:
        """A floating-point number, which a whole number is not."""
        return self._read("double", sql("regexp_full_match({}, '{}')", self.raw, NUMBER_FORM), "TRY_CAST({} AS DOUBLE)")

    @property
    def boolean(self) -> Sql:
        """True or false."""
        return self._read("bool", sql("{} IN ('true', 'false')", self.raw), "{} = 'true'")

    @property
    def bytes(self) -> Sql:
        """Bytes."""
        return sql("CASE WHEN {} = 'bytes' THEN TRY(from_base64({})) END", self.type, self.raw)

    @property
    def list(self) -> Sql:
        """A list, as JSON."""
        return self._nested("array", "[")

    @property
    def map(self) -> Sql:
        """A map, as JSON."""
        return self._nested("map", "{{")

    def _read(self, name: str, form: Sql, value: str) -> Sql:
        """The text as another type: where it was sent as such, or looks like it and nobody knows."""
        is_typed = sql(f"{{}} = '{name}'", self.type)
        reading = sql(value, self.raw)
        if self.untyped == FALSE:
            return sql("CASE WHEN {} THEN {} END", is_typed, reading)
        return sql("CASE WHEN coalesce({}, {} AND {}) THEN {} END", is_typed, self.untyped, form, reading)

    def _nested(self, name: str, opening: str) -> Sql:
        if self.untyped == FALSE:
            return sql(f"CASE WHEN {{}} = '{name}' THEN {{}} END", self.type, self.raw)
        unsure = sql("(starts_with({}, 'exact:') OR {}) AND json_valid({})", self.type, self.untyped, self.raw)
        looks_so = sql(f"starts_with({{}}, '{opening}') AND {{}}", self.raw, unsure)
        return sql(f"CASE WHEN {{}} = '{name}' OR ({{}}) THEN {{}} END", self.type, looks_so, self.raw)


@dataclass(frozen=True)
class Attributes:
    """A map of attributes and the map of their types."""

    values: Sql
    types: Sql

    def attribute(self, key: str) -> Attribute:
        """The attribute of a key."""
        name = text(key)
        return Attribute(
            present=sql("coalesce(map_contains({}, {}), false)", self.values, name),
            raw=sql("{}[{}]", self.values, name),
            type=sql("{}[{}]", self.types, name),
            untyped=sql("{} IS NULL", self.types),
        )


@dataclass(frozen=True)
class ResourceAttributes(Attributes):
    """Those of a resource; tables that have no map for them still know the service."""

    def attribute(self, key: str) -> Attribute:
        """The attribute of a key."""
        found = super().attribute(key)
        if key != SERVICE_NAME:
            return found
        service = column("service_name")
        present = sql("({} OR {} IS NOT NULL)", found.present, service)
        return Attribute(present, sql("coalesce({}, {})", found.raw, service), found.type, found.untyped)


SPAN = Attributes(column("attributes"), column("attribute_types"))
RESOURCE = ResourceAttributes(column("resource_attributes"), column("resource_attribute_types"))
EVENT = Attributes(Sql("e.attributes", frozenset(("events",))), Sql("e.attribute_types", frozenset(("events",))))
