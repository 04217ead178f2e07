"""What policies ask of a span, in SQL: each gives a condition that is never null.

The collector asks of every resource and every span; each row has its resource beside it, so one condition asks both.
A value of another type reads as the empty value of the type that is asked for: 0, false or an empty text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.tail.policy import regexes, state_sql
from neve.tail.policy.attributes import RESOURCE, SPAN, Attribute
from neve.tail.policy.sql import FALSE, Sql, all_of, any_of, column, integer, sql, text
from neve.tail.policy.tree import Fact, Key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STATUS_CODES = {"UNSET": 0, "OK": 1, "ERROR": 2}
SAMPLED_FLAG = 1
ROOT = "root."
BETWEEN_FIELDS = "\x1f"


def fact(condition: Sql) -> Fact:
    """A condition as a fact of the tree."""
    return Fact(condition.text, condition.columns)


def status_code(codes: Sequence[str]) -> Sql:
    """The span's status is one of these."""
    numbers = sorted({STATUS_CODES[code] for code in codes})
    return sql("coalesce({}, 0) IN ({})", column("status_code"), ", ".join(map(str, numbers)))


def trace_flags() -> Sql:
    """The span was marked as sampled."""
    return sql(f"(coalesce({{}}, 0) & {SAMPLED_FLAG}) <> 0", column("flags"))


def trace_state_value(key: str, values: Sequence[str]) -> Sql:
    """The span's trace state has one of the values for the key."""
    return state_sql.has_value(key, list(values))


def numeric_attribute(key: str, least: int | None, most: int | None) -> Sql:
    """An attribute of the span or its resource is within bounds, which count as within."""
    zero_fits = (least is None or least <= 0) and (most is None or most >= 0)

    def fits(attribute: Attribute) -> Sql:
        bounds = []
        if least is not None:
            bounds.append(sql("{} >= {}", attribute.integer, integer(least)))
        if most is not None:
            bounds.append(sql("{} <= {}", attribute.integer, integer(most)))
        return _or_empty(attribute, sql("coalesce({}, {})", all_of(bounds), str(zero_fits).lower()), zero_fits)

    return any_of([fits(RESOURCE.attribute(key)), fits(SPAN.attribute(key))])


def boolean_attribute(key: str, value: bool) -> Sql:
    """An attribute of the span or its resource is true, or is false."""

    def fits(attribute: Attribute) -> Sql:
        is_true = sql("coalesce({}, false)", attribute.boolean)
        return is_true if value else _or_empty(attribute, sql("NOT {}", is_true), empty_fits=True)

    return any_of([fits(RESOURCE.attribute(key)), fits(SPAN.attribute(key))])


def string_attribute(key: str, values: Sequence[str], *, regex: bool) -> Sql:
    """An attribute of the span or its resource is one of the values, or matches one.

    An empty text of a span never matches; that of a resource does where a pattern matches it.
    """
    resource, span = RESOURCE.attribute(key), SPAN.attribute(key)
    if not regex:
        return any_of([_is_one_of(resource.string, values), _is_one_of(span.string, values)])
    empty_fits = any(map(regexes.matches_empty, values))
    some_text = sql("nullif({}, '')", span.string) if empty_fits else span.string
    of_resource = sql("coalesce({}, '')", resource.string) if empty_fits else resource.string
    return any_of([_or_empty(resource, _matches(of_resource, values), empty_fits), _matches(some_text, values)])


def service_name(values: Sequence[str], *, regex: bool) -> Sql:
    """The span's service is one of the values, or matches one; reads no map."""
    return (_matches if regex else _is_one_of)(column("service_name"), values)


def key_of(fields: Sequence[str]) -> Key:
    """The text that a dynamic rate goes by: the fields of a span, an empty text for one that it does not have."""
    parts = [sql("coalesce({}, '')", _field(name)) for name in fields]
    whole = sql("concat_ws(chr({}), {})", str(ord(BETWEEN_FIELDS)), sql(", ".join("{}" for _ in parts), *parts))
    return Key(whole.text, whole.columns)


def _field(name: str) -> Sql:
    if name.startswith(ROOT):
        return sql("CASE WHEN {} IS NULL THEN {} END", column("parent_span_id"), _field(name.removeprefix(ROOT)))
    if name == "name":
        return column("name")
    if name == "service.name":
        return column("service_name")
    return sql("coalesce({}, {})", SPAN.attribute(name).raw, RESOURCE.attribute(name).raw)


def _or_empty(attribute: Attribute, condition: Sql, empty_fits: bool) -> Sql:
    """A condition that holds for empty values too asks first whether there is an attribute at all."""
    return sql("({} AND {})", attribute.present, condition) if empty_fits else condition


def _is_one_of(value: Sql, wanted: Sequence[str]) -> Sql:
    """Exactly; empty texts among the wanted are passed over."""
    listed = sorted({text(one).text for one in wanted if one})
    return sql("coalesce({} IN ({}), false)", value, ", ".join(listed)) if listed else FALSE


def _matches(value: Sql, patterns: Sequence[str]) -> Sql:
    return any_of(_each(patterns, lambda one: sql("coalesce(regexp_matches({}, {}), false)", value, text(one))))


def _each(texts: Sequence[str], make: Callable[[str], Sql]) -> list[Sql]:
    return [make(one) for one in dict.fromkeys(texts)]
