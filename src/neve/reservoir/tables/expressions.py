"""SQL expressions over records of a table: their group, weight and key.

Groups are columns, or keys of maps of attributes. A weight is the attribute `sampling.adjusted_count`, which is
text with a type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyiceberg.types import MapType, PrimitiveType

from neve.errors import ConfigError, InputError, InvalidWeight
from neve.reservoir.sampling.aggregate import REFUSED
from neve.reservoir.sampling.methods import LARGEST_WEIGHT
from neve.reservoir.weights import ATTRIBUTE, NUMBER, to_invalid_weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema

    from neve.reservoir.config import LakeSampling


ATTRIBUTE_OF = re.compile(r"(\w+)\['(.+)'\]")
BETWEEN = " / "


def resolve_column(schema: Schema, name: str) -> tuple[str, str | None]:
    """Resolve a user's name to a column, and to the key in it if it is a map.

    `service.name` and other names of attributes are searched in the resource.
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
            f"{name!r} is neither a column with plain values nor an attribute",
            hint=f"expected attributes['key'], resource_attrs['key'], or one of {', '.join(plain)}",
        )
    return column, key


def value_sql(schema: Schema, name: str) -> str:
    """Return the Spark SQL of a named column or attribute, as text."""
    column, key = resolve_column(schema, name)
    if key is not None:
        return f"{column}['{_quote(key)}']"
    kind = schema.find_type(column)
    return f"lower(hex({column}))" if str(kind) == "binary" else f"CAST({column} AS STRING)"


def group_sql(schema: Schema, names: Sequence[str]) -> str:
    """Return the SQL of a record's group as one text.

    It may be null for a single name, and is empty for none.
    """
    values = [value_sql(schema, name) for name in names]
    if len(values) == 1:
        return values[0]
    filled = ", ".join(f"coalesce({value}, '')" for value in values)
    return f"concat_ws('{BETWEEN}', {filled})" if values else "''"


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


WEIGHT, KIND = f"attributes['{ATTRIBUTE}']", f"attribute_types['{ATTRIBUTE}']"
NUMBERS = "('string', 'int', 'double')"  # the types of attributes that may be a number
NAMELESS = "neve: a record without a record_id"

# Any other value under this name was meant as a weight: an empty value is not a missing one.
_SAYS = f"({WEIGHT} IS NOT NULL OR {KIND} IS NOT NULL)"
_NUMBER = f"CASE WHEN {WEIGHT} RLIKE '^{NUMBER}\\\\z' THEN CAST({WEIGHT} AS DOUBLE) END"
_FITS = (
    f"(coalesce({KIND}, 'string') IN {NUMBERS} AND coalesce({_NUMBER} > 0D AND {_NUMBER} < {LARGEST_WEIGHT}D, false))"
)


def weight_sql(config: LakeSampling) -> str:
    """Return the SQL of a record's weight; an invalid one fails the job, or counts as 1."""
    if config.weights == "one":
        return "1D"
    wrong = "1D"
    if config.invalid_weights == "refuse":
        words = f"concat('{REFUSED} ', hex(record_id), ' is ', coalesce({KIND}, 'string'), ' ', coalesce({WEIGHT}, ''))"
        wrong = f"CAST(raise_error({words}) AS DOUBLE)"
    return f"CASE WHEN NOT {_SAYS} THEN 1D WHEN {_FITS} THEN {_NUMBER} ELSE {wrong} END"


def invalid_weight_sql(config: LakeSampling) -> str | None:
    """Return the SQL for whether a record counts as 1 because of an invalid weight, or None if that does not happen."""
    if config.weights == "one" or config.invalid_weights == "refuse":
        return None
    return f"({_SAYS} AND NOT {_FITS})"


def key_sql() -> str:
    """Return the SQL of a record's key: its content identifies it, in whichever file it is stored."""
    return f"coalesce(record_id, CAST(raise_error('{NAMELESS}') AS BINARY))"


def explain_refusal(error: Exception, table: str) -> InputError | None:
    """Convert Spark's error about records that can't be sampled, or return None for any other error."""
    hint = "nothing was changed; set reservoir.lake.invalid_weights: one to count such records as 1"
    found = to_invalid_weight(error)
    if found is not None:
        return InvalidWeight(f"{table}: {found.message}", hint=hint)
    if NAMELESS in str(error):
        return InputError(
            f"{table} has records without a record_id, which can't be distinguished",
            hint="rows that Neve ingests have one; nothing was changed",
        )
    return None
