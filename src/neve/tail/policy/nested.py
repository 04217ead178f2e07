"""What stands within an attribute that is a list or a map: read from its JSON by one pointer, however deep it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.tail.policy.attributes import Attribute
from neve.tail.policy.sql import FALSE, Sql, all_of, any_of, sql, text

if TYPE_CHECKING:
    from collections.abc import Sequence

TYPES = {
    "UBIGINT": "int",
    "BIGINT": "int",
    "DOUBLE": "double",
    "BOOLEAN": "bool",
    "ARRAY": "array",
    "OBJECT": "map",
    "NULL": "empty",
}
_CASES = " ".join(f"WHEN '{name}' THEN '{kind}'" for name, kind in TYPES.items())


def within(attribute: Attribute, keys: Sequence[str | int]) -> tuple[Attribute, Sql]:
    """The value under a text of a map, or at a place of a list, and so on; and where that fails.

    A map without the text has nothing there. What is no map, or no list with such a place, fails.
    """
    outermost = attribute.map if isinstance(keys[0], str) else attribute.list
    deeper = [_mismatch(outermost, keys[:depth], keys[depth]) for depth in range(1, len(keys))]
    document = outermost
    if any(_is_ambiguous(key) for key in keys[1:]):
        document = sql("CASE WHEN {} THEN {} END", all_of([sql("NOT {}", one) for one in deeper]), outermost)
    json_type = sql("json_type({}, {})", document, _pointer(keys))
    found = Attribute(
        present=sql("({} IS NOT NULL)", json_type),
        raw=sql("json_extract_string({}, {})", document, _pointer(keys)),
        type=sql(f"CASE {{}} {_CASES} END", json_type),
        untyped=FALSE,
    )
    return found, any_of([sql("({} AND {})", attribute.present, _lacks(outermost, keys[0])), *deeper])


def _lacks(document: Sql, key: str | int) -> Sql:
    """It is no map, or no list that is long enough."""
    if isinstance(key, str):
        return sql("{} IS NULL", document)
    return sql("coalesce(json_array_length({}), 0) <= {}", document, str(key))


def _mismatch(document: Sql, keys: Sequence[str | int], key: str | int) -> Sql:
    """There is something under the keys, in which the next one can't be looked up."""
    here = _pointer(keys)
    if isinstance(key, str):
        return sql("coalesce(json_type({}, {}) <> 'OBJECT', false)", document, here)
    return sql("coalesce(json_array_length({}, {}) <= {}, false)", document, here, str(key))


def _is_ambiguous(key: str | int) -> bool:
    """A pointer takes a number for a place of a list and for a text of a map alike."""
    return isinstance(key, int) or key.isdigit() or key == "-"


def _pointer(keys: Sequence[str | int]) -> Sql:
    return text("".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys))
