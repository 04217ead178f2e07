"""Conditions of policies on one span, in SQL that is never null: status, attributes, trace state, and regexes.

Regular expressions are RE2 in the collector and in DuckDB alike. A pattern that DuckDB can't compile is rejected.
A W3C trace state with an invalid member, a duplicate key or more than 32 members counts as unreadable.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import duckdb

from neve.tail.policy.span_sql import FALSE, RESOURCE, SPAN, Attribute, Sql, all_of, any_of, column, integer, sql, text
from neve.tail.policy.tree import Fact, Key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def find_regex_error(pattern: str) -> str | None:
    """Return the error of a pattern, or `None` if it compiles."""
    try:
        matches_empty_text(pattern)
    except duckdb.Error as error:
        return str(error).removeprefix("Invalid Input Error: ").splitlines()[0]
    return None


@lru_cache(1024)
def matches_empty_text(pattern: str) -> bool:
    """Return whether a pattern matches an empty text."""
    row = _open_connection().cursor().execute("SELECT regexp_matches('', ?)", [pattern]).fetchone()
    return bool(row and row[0])


@cache
def _open_connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


MAX_MEMBERS = 32
MAX_MEMBER_BYTES = 256  # of key and value together, without the separator

_REST = "[a-z0-9_*/-]"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]"
_LAST = r"[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
SHORT_STATE_CHARS = 241  # no part of a state of this length can be too long, except the second half of a key


def _build_key_pattern(rest: str, tenant_rest: str) -> str:
    return f"(?:[a-z]{_REST}{rest}|[a-z0-9]{_REST}{tenant_rest}@[a-z]{_REST}{{0,13}})"


def _build_state_pattern(key: str, value_rest: str) -> str:
    member = rf"(?:[ \t]*{key}={_VALUE}{value_rest}{_LAST}[ \t]*)?"
    return f"{member}(?:,{member})*"


# Repetitions up to 255 make patterns slow, so lengths are checked only for long states.
_ANY_KEY = _build_key_pattern("*", "*")
_GOOD = _build_state_pattern(_ANY_KEY, "*")
_GOOD_AND_SHORT = _build_state_pattern(_build_key_pattern("{0,255}", "{0,240}"), "{0,255}")

_STATE = column("trace_state")
_NAMES = sql("regexp_extract_all({}, {}, 1)", _STATE, text(r"(?:^|,)[ \t]*([^=,]+)="))
_LENGTHS = sql(
    f"(strlen({{}}) <= {SHORT_STATE_CHARS} OR regexp_full_match({{}}, {{}}))", _STATE, _STATE, text(_GOOD_AND_SHORT)
)
_DISTINCT = sql(f"len({{}}) <= {MAX_MEMBERS} AND len(list_distinct({{}})) = len({{}})", _NAMES, _NAMES, _NAMES)
VALID_STATE = sql("(regexp_full_match({}, {}) AND {} AND {})", _STATE, text(_GOOD), _LENGTHS, _DISTINCT)


def has_trace_state_value(key: str, values: list[str]) -> Sql:
    """Return a condition for a key with one of the values, which is never null."""
    possible = [value for value in values if value and len(key.encode()) + len(value.encode()) < MAX_MEMBER_BYTES]
    if not possible or not _is_trace_state_key(key):
        return FALSE
    listed = ", ".join(text(value).text for value in possible)
    # Most states do not contain the key at all, and a search for it is much faster than parsing.
    named = sql("contains({}, {})", _STATE, text(f"{key}="))
    return sql("CASE WHEN {} THEN {} AND {} IN ({}) ELSE false END", named, VALID_STATE, _extract_member(key), listed)


def select_trace_state_value(key: str) -> Sql:
    """Return the value of a key, empty if the state lacks it, and null if the state is unreadable."""
    unset = sql("coalesce({}, '') = ''", _STATE)
    found = _extract_member(key) if _is_trace_state_key(key) else text("")
    return sql("CASE WHEN {} THEN '' WHEN {} THEN {} END", unset, VALID_STATE, found)


def _is_trace_state_key(key: str) -> bool:
    return re.fullmatch(_ANY_KEY, key) is not None


def _extract_member(key: str) -> Sql:
    pattern = text(rf"(?:^|,)[ \t]*{key.replace('*', '[*]')}=([^,]*)")
    return sql("rtrim(regexp_extract({}, {}, 1), ' ' || chr(9))", _STATE, pattern)


# The member `ot` is valid as a whole or not read at all, as in `read_ot`.
_OT = "ot"
_OT_PATTERN = "{0}(?:;{0})*".format(r"[a-z][a-z0-9]*:[A-Za-z0-9._-]*")
_OT_DIGITS = {"th": "[0-9a-f]{1,14}", "rv": "[0-9a-f]{14}"}
_TH, _RV = (f"{name}:{digits}" for name, digits in _OT_DIGITS.items())
_PLAIN_OT = f"{_OT}=(?:{_TH}(?:;{_RV})?|{_RV}(?:;{_TH})?)"


def ot_number(name: str) -> Sql:
    """Return T (`th`) or R (`rv`) of a trace state as a number of 56 bits, or null if it has none or is invalid."""
    member = _extract_member(_OT)
    named = sql("contains({}, {})", _STATE, text(f"{_OT}="))
    plain = sql("regexp_full_match({}, {})", _STATE, text(_PLAIN_OT))
    valid = sql("{} AND {}", VALID_STATE, _valid_ot(member))
    # Most states have no such member or nothing else. Only others are parsed, which takes several times longer.
    template = "CASE WHEN {} THEN CASE WHEN {} THEN {} WHEN {} THEN {} END END"
    return sql(template, named, plain, _extract_number(name, _STATE), valid, _extract_number(name, member))


def _extract_number(name: str, member: Sql) -> Sql:
    digits = sql("regexp_extract({}, {}, 1)", member, text(f"(?:^|[=;]){name}:({_OT_DIGITS[name]})(?:;|$)"))
    return sql("('0x' || rpad(nullif({}, ''), 14, '0'))::BIGINT", digits)


def _valid_ot(member: Sql) -> Sql:
    """Return a condition for a valid value of `ot`: fields that occur once, with correct digits of T and R."""
    names = sql("regexp_extract_all({}, {}, 1)", member, text("(?:^|;)([^:;]*):"))
    parts = [
        sql("regexp_full_match({}, {})", member, text(_OT_PATTERN)),
        sql("len(list_distinct({})) = len({})", names, names),
    ]
    for name, digits in _OT_DIGITS.items():
        present = sql("regexp_matches({}, {})", member, text(f"(?:^|;){name}:"))
        correct = sql("regexp_matches({}, {})", member, text(f"(?:^|;){name}:{digits}(?:;|$)"))
        parts.append(sql("(NOT {} OR {})", present, correct))
    return all_of(parts)


# The collector tests every resource and every span. Each row contains its resource, so one condition tests both. A
# value of another type reads as the empty value of the requested type: 0, false or an empty text.

STATUS_CODES = {"UNSET": 0, "OK": 1, "ERROR": 2}
SAMPLED_FLAG = 1
ROOT_PREFIX = "root."
FIELD_SEPARATOR = "\x1f"


def make_fact(condition: Sql) -> Fact:
    """Convert a condition to a fact of the tree."""
    return Fact(condition.text, condition.columns)


def status_code(codes: Sequence[str]) -> Sql:
    """Build a fact that is true if the span's status is one of these."""
    numbers = sorted({STATUS_CODES[code] for code in codes})
    return sql("coalesce({}, 0) IN ({})", column("status_code"), ", ".join(map(str, numbers)))


def trace_flags() -> Sql:
    """Build a fact that is true if the span has the sampled flag."""
    return sql(f"(coalesce({{}}, 0) & {SAMPLED_FLAG}) <> 0", column("flags"))


def trace_state_value(key: str, values: Sequence[str]) -> Sql:
    """Build a fact that is true if the span's trace state has one of the values for the key."""
    return has_trace_state_value(key, list(values))


def numeric_attribute(key: str, least: int | None, most: int | None) -> Sql:
    """Build a fact that is true if an attribute of the span or its resource is within inclusive bounds."""
    zero_fits = (least is None or least <= 0) and (most is None or most >= 0)

    def fits(attribute: Attribute) -> Sql:
        bounds = []
        if least is not None:
            bounds.append(sql("{} >= {}", attribute.integer, integer(least)))
        if most is not None:
            bounds.append(sql("{} <= {}", attribute.integer, integer(most)))
        return _require_presence(attribute, sql("coalesce({}, {})", all_of(bounds), str(zero_fits).lower()), zero_fits)

    return any_of([fits(RESOURCE.attribute(key)), fits(SPAN.attribute(key))])


def boolean_attribute(key: str, value: bool) -> Sql:
    """Build a fact that is true if an attribute of the span or its resource has a boolean value."""

    def fits(attribute: Attribute) -> Sql:
        is_true = sql("coalesce({}, false)", attribute.boolean)
        return is_true if value else _require_presence(attribute, sql("NOT {}", is_true), empty_fits=True)

    return any_of([fits(RESOURCE.attribute(key)), fits(SPAN.attribute(key))])


def string_attribute(key: str, values: Sequence[str], *, regex: bool) -> Sql:
    """Build a fact that is true if an attribute of the span or its resource equals a value or matches a pattern.

    An empty text of a span never matches. An empty text of a resource matches if a pattern matches it.
    """
    resource, span = RESOURCE.attribute(key), SPAN.attribute(key)
    if not regex:
        return any_of([_is_one_of(resource.string, values), _is_one_of(span.string, values)])
    empty_fits = any(map(matches_empty_text, values))
    some_text = sql("nullif({}, '')", span.string) if empty_fits else span.string
    of_resource = sql("coalesce({}, '')", resource.string) if empty_fits else resource.string
    return any_of(
        [_require_presence(resource, _matches_any(of_resource, values), empty_fits), _matches_any(some_text, values)]
    )


def service_name(values: Sequence[str], *, regex: bool) -> Sql:
    """Build a fact that is true if the span's service equals a value or matches a pattern, without reading a map."""
    return (_matches_any if regex else _is_one_of)(column("service_name"), values)


def make_key(fields: Sequence[str]) -> Key:
    """Build the key of a dynamic rate from fields of a span, with an empty text for each missing field."""
    parts = [sql("coalesce({}, '')", _select_field(name)) for name in fields]
    whole = sql("concat_ws(chr({}), {})", str(ord(FIELD_SEPARATOR)), sql(", ".join("{}" for _ in parts), *parts))
    return Key(whole.text, whole.columns)


def _select_field(name: str) -> Sql:
    if name.startswith(ROOT_PREFIX):
        return sql(
            "CASE WHEN {} IS NULL THEN {} END", column("parent_span_id"), _select_field(name.removeprefix(ROOT_PREFIX))
        )
    if name == "name":
        return column("name")
    if name == "service.name":
        return column("service_name")
    return sql("coalesce({}, {})", SPAN.attribute(name).raw, RESOURCE.attribute(name).raw)


def _require_presence(attribute: Attribute, condition: Sql, empty_fits: bool) -> Sql:
    """Add a test for the presence of the attribute to a condition that is also true for empty values."""
    return sql("({} AND {})", attribute.present, condition) if empty_fits else condition


def _is_one_of(value: Sql, wanted: Sequence[str]) -> Sql:
    """Return an equality test, which ignores empty texts among the values."""
    listed = sorted({text(one).text for one in wanted if one})
    return sql("coalesce({} IN ({}), false)", value, ", ".join(listed)) if listed else FALSE


def _matches_any(value: Sql, patterns: Sequence[str]) -> Sql:
    return any_of(_map_distinct(patterns, lambda one: sql("coalesce(regexp_matches({}, {}), false)", value, text(one))))


def _map_distinct(texts: Sequence[str], make: Callable[[str], Sql]) -> list[Sql]:
    return [make(one) for one in dict.fromkeys(texts)]
