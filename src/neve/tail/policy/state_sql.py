"""W3C trace states in SQL: a state with one bad member, a key twice or more than 32 members tells nothing at all."""

from __future__ import annotations

import re

from neve.tail.policy.sql import FALSE, Sql, column, sql, text

MOST_MEMBERS = 32
LONGEST_MEMBER = 256  # of key and value together, without what stands between them

_REST = "[a-z0-9_*/-]"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]"
_LAST = r"[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
SHORT = 241  # no part of a state of so many characters can be too long, but for the second half of a key


def _key(rest: str, tenant_rest: str) -> str:
    return f"(?:[a-z]{_REST}{rest}|[a-z0-9]{_REST}{tenant_rest}@[a-z]{_REST}{{0,13}})"


def _state(key: str, value_rest: str) -> str:
    member = rf"(?:[ \t]*{key}={_VALUE}{value_rest}{_LAST}[ \t]*)?"
    return f"{member}(?:,{member})*"


# Counting up to 255 makes patterns slow, so lengths are asked only of states that are long.
_ANY_KEY = _key("*", "*")
_GOOD = _state(_ANY_KEY, "*")
_GOOD_AND_SHORT = _state(_key("{0,255}", "{0,240}"), "{0,255}")

_STATE = column("trace_state")
_NAMES = sql("regexp_extract_all({}, {}, 1)", _STATE, text(r"(?:^|,)[ \t]*([^=,]+)="))
_LENGTHS = sql(f"(strlen({{}}) <= {SHORT} OR regexp_full_match({{}}, {{}}))", _STATE, _STATE, text(_GOOD_AND_SHORT))
_DISTINCT = sql(f"len({{}}) <= {MOST_MEMBERS} AND len(list_distinct({{}})) = len({{}})", _NAMES, _NAMES, _NAMES)
VALID = sql("(regexp_full_match({}, {}) AND {} AND {})", _STATE, text(_GOOD), _LENGTHS, _DISTINCT)


def has_value(key: str, values: list[str]) -> Sql:
    """Whether a key has one of the values; never null."""
    possible = [value for value in values if value and len(key.encode()) + len(value.encode()) < LONGEST_MEMBER]
    if not possible or not _is_key(key):
        return FALSE
    listed = ", ".join(text(value).text for value in possible)
    # Most states do not name the key at all, and looking for it is much quicker than reading them.
    named = sql("contains({}, {})", _STATE, text(f"{key}="))
    return sql("CASE WHEN {} THEN {} AND {} IN ({}) ELSE false END", named, VALID, _get(key), listed)


def value_of(key: str) -> Sql:
    """The value of a key, an empty text where the state does not have it, null where the state can't be read."""
    unset = sql("coalesce({}, '') = ''", _STATE)
    found = _get(key) if _is_key(key) else text("")
    return sql("CASE WHEN {} THEN '' WHEN {} THEN {} END", unset, VALID, found)


def _is_key(key: str) -> bool:
    return re.fullmatch(_ANY_KEY, key) is not None


def _get(key: str) -> Sql:
    pattern = text(rf"(?:^|,)[ \t]*{key.replace('*', '[*]')}=([^,]*)")
    return sql("rtrim(regexp_extract({}, {}, 1), ' ' || chr(9))", _STATE, pattern)
