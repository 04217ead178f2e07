"""What records are told apart by: columns of their table, and keys of its maps of attributes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyiceberg.types import MapType, PrimitiveType

from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema

ATTRIBUTE_OF = re.compile(r"(\w+)\['(.+)'\]")
BETWEEN = " / "


def entry_of(schema: Schema, name: str) -> tuple[str, str | None]:
    """The column that a user's name stands for, and the key in it where it is a map.

    `service.name` and other names of attributes are looked for in the resource.
    """
    columns = {field.name: field.field_type for field in schema.fields}
    found = ATTRIBUTE_OF.fullmatch(name)
    column, key = (found[1], found[2]) if found else (name, None)
    if column == "service.name" and "service_name" in columns:
        column = "service_name"
    elif column not in columns and "." in column and not found:
        column, key = "resource_attrs", column
    wanted = PrimitiveType if key is None else MapType
    if not isinstance(columns.get(column), wanted):
        plain = [one for one, kind in columns.items() if isinstance(kind, PrimitiveType)]
        raise ConfigError(
            f"{name!r} is no column with plain values, and no attribute",
            hint=f"expected attributes['key'], resource_attrs['key'], or one of {', '.join(plain)}",
        )
    return column, key


def value_sql(schema: Schema, name: str) -> str:
    """What a name stands for, as Spark SQL, as text."""
    column, key = entry_of(schema, name)
    if key is not None:
        return f"{column}['{_quoted(key)}']"
    kind = schema.find_type(column)
    return f"lower(hex({column}))" if str(kind) == "binary" else f"CAST({column} AS STRING)"


def group_sql(schema: Schema, names: Sequence[str]) -> str:
    """The group of a record as one text; of one name alone it may be null, and of none it is empty."""
    values = [value_sql(schema, name) for name in names]
    if len(values) == 1:
        return values[0]
    filled = ", ".join(f"coalesce({value}, '')" for value in values)
    return f"concat_ws('{BETWEEN}', {filled})" if values else "''"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
