r"""Compiled rules on whole columns: a quick search of bytes, masks of keys, and replacement of texts. RE2 only.

`may_match` and `quick` search encoded bytes. They must find every message that a rule concerns, and may find others.
Therefore they search for a literal part of each key, and for patterns without assertions such as `^` and `\\b`, because
bytes around a text on the wire are not those around the text itself.

Arrow compiles an expression in each call. Bytes are therefore searched by expressions that are compiled once, and Arrow
evaluates patterns only where these have found something.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import re2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from neve.redaction.config import RuleConfig

MASK = "***"
HASH_PREFIX = "hmac:"
# Letters only, so that patterns of digits, as of card numbers, don't match hashes of earlier rules.
HEX_TO_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
HASH_BYTES = 16
UNANCHORED = re2._Anchor.UNANCHORED  # private: see docs/internals.md
SEARCH_MEMORY = 16 * 1024 * 1024  # of one compiled search: with less, RE2 discards its automaton more often
NO_ASSERTION = "(?:)"


@dataclass(frozen=True)
class Hasher:
    """Keyed hash of texts of one organization: equal texts have equal hashes, and no others can be recognized."""

    key: bytes

    @classmethod
    def of(cls, salt: str, organization: str) -> Hasher:
        """Return the hasher of an organization, so that organizations don't share hashes."""
        return cls(hmac.digest(salt.encode(), organization.encode(), "sha256"))

    def hash(self, value: bytes) -> str:
        """Return the hash of a value as text."""
        digest = hmac.digest(self.key, value, hashlib.sha256)[:HASH_BYTES]
        return HASH_PREFIX + digest.hex().translate(HEX_TO_LETTERS)

    def hash_all(self, values: pa.Array) -> pa.StringArray:
        """Return the hash of each value; equal values are hashed once."""
        encoded = values.cast(pa.binary()).dictionary_encode()
        hashes = pa.array([self.hash(value) for value in encoded.dictionary.to_pylist()], pa.string())
        return hashes.take(encoded.indices)


@dataclass(frozen=True)
class CompiledRules:
    """Rules for messages of one signal of one organization."""

    rules: tuple[RuleConfig, ...]

    @cached_property
    def key_rules(self) -> tuple[RuleConfig, ...]:
        """Rules of keys."""
        return tuple(rule for rule in self.rules if rule.keys)

    @cached_property
    def pattern_rules(self) -> tuple[RuleConfig, ...]:
        """Rules of patterns."""
        return tuple(rule for rule in self.rules if rule.pattern)

    @cached_property
    def search(self) -> str | None:
        """The expression that encoded bytes are searched for; None if all messages have to be decoded."""
        parts = [*(_literal_of(key) for rule in self.key_rules for key in rule.keys)]
        parts += [drop_assertions(rule.pattern) for rule in self.pattern_rules]
        return _join(parts)

    @cached_property
    def quick(self) -> Searcher | None:
        """The compiled search; None if all messages have to be decoded."""
        return _compile(self.search)

    @cached_property
    def quick_keys(self) -> Searcher | None:
        """The compiled search for keys; None if all keys have to be compared."""
        parts = [_literal_of(key) for rule in self.key_rules for key in rule.keys]
        return _compile(_join(parts))

    @cached_property
    def quick_texts(self) -> Searcher | None:
        """The compiled search for texts of patterns; None if all texts have to be compared."""
        return _compile(_join([drop_assertions(rule.pattern) for rule in self.pattern_rules]))

    @cached_property
    def any_pattern(self) -> str | None:
        """The expression of texts that any pattern matches, or None if each pattern is tried by itself."""
        return _usable("|".join(f"(?:{rule.pattern})" for rule in self.pattern_rules))

    def may_match(self, column: pa.Array) -> pa.BooleanArray:
        """Return a mask of encoded values that a rule may concern; null is false."""
        if self.search is None:
            return column.is_valid()
        return pc.fill_null(pc.match_substring_regex(as_text(column), self.search), False)

    def may_concern(self, array: pa.Array) -> bool:
        """Return whether a rule may concern a text, a key or encoded bytes anywhere in a column."""
        kind = array.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return _may_have(self.quick, array)
        if pa.types.is_list(kind):
            return self.may_concern(array.values)
        return pa.types.is_struct(kind) and any(self.may_concern(array.field(n)) for n in range(kind.num_fields))

    def match_keys(self, keys: pa.StringArray) -> Iterator[tuple[RuleConfig, pa.BooleanArray]]:
        """Yield each rule of keys with the mask of the keys that it is the first to match."""
        if not self.key_rules or not len(keys):
            return
        encoded = keys.dictionary_encode()
        if not _may_have(self.quick_keys, encoded.dictionary):
            return
        free = pa.array([True] * len(encoded.dictionary))
        for rule in self.key_rules:
            matches = pc.and_(pc.match_substring_regex(encoded.dictionary, _key_expression(rule.keys)), free)
            if pc.any(matches).as_py():
                yield rule, matches.take(encoded.indices)
                free = pc.and_not(free, matches)

    def redact_texts(self, texts: pa.Array, hasher: Hasher) -> pa.Array:
        """Replace what patterns match, in a column of strings or bytes."""
        if not self.pattern_rules or texts.null_count == len(texts):
            return texts
        plain = as_text(texts)
        if not _may_have(self.quick_texts, plain):
            return texts
        found = self._find_texts(plain)
        if not pc.any(found).as_py():
            return texts
        some = plain.filter(found)
        for rule in self.pattern_rules:
            some = _replace(some, rule, hasher)
        return _restore_type(pc.replace_with_mask(plain, found, some), texts.type)

    def _find_texts(self, texts: pa.StringArray) -> pa.BooleanArray:
        if self.any_pattern is None:
            return texts.is_valid()
        return pc.fill_null(pc.match_substring_regex(texts, self.any_pattern), False)


@lru_cache(256)
def compile_rules(rules: tuple[RuleConfig, ...]) -> CompiledRules:
    """Return compiled rules. Organizations with the same rules share them."""
    return CompiledRules(rules)


class Searcher:
    """An expression of RE2 that is compiled once. Raises `re2.error` if this build of RE2 refuses it."""

    def __init__(self, expression: str) -> None:
        options = re2.Options()
        options.never_capture, options.log_errors, options.max_mem = True, False, SEARCH_MEMORY
        # The method behind `search`, which takes three times as long for a short text.
        self._match = re2.compile(expression, options)._regexp.Match  # private: see docs/internals.md

    def find(self, text: Buffer, start: int, end: int) -> tuple[int, int]:
        """Return the leftmost match between two positions; -1 and -1 if there is none."""
        [span] = self._match(UNANCHORED, text, start, end)
        return span[0], span[1]


def _compile(expression: str | None) -> Searcher | None:
    """Compile an expression; None for none, and for one that this build of RE2 refuses."""
    try:
        return None if expression is None else Searcher(expression)
    except re2.error:
        return None


def _join(parts: Sequence[str]) -> str | None:
    """Return the expression that finds any of the parts; None if one of them is empty or there are none."""
    return _usable("|".join(f"(?:{part})" for part in dict.fromkeys(parts))) if all(parts) else None


def _may_have(searcher: Searcher | None, texts: pa.Array) -> bool:
    """Return whether any text of a column may have a match, by one search over all of them."""
    if searcher is None or not len(texts):
        return True
    _validity, offsets, data = texts.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[texts.offset, texts.offset + len(texts)]].tolist()
    return data is not None and searcher.find(data, first, last)[0] >= 0


def as_text(column: pa.Array) -> pa.StringArray:
    """Return bytes as a column of strings without a check or a copy. RE2 searches any bytes."""
    if pa.types.is_string(column.type):
        return column
    return pa.Array.from_buffers(pa.string(), len(column), column.buffers(), column.null_count, column.offset)


def _restore_type(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    return texts if pa.types.is_string(kind) else texts.cast(kind)


def _replace(texts: pa.StringArray, rule: RuleConfig, hasher: Hasher) -> pa.StringArray:
    """Replace the matches of one rule. Only RE2 finds them: it marks them, and Python hashes what is marked."""
    if rule.action != "hash":
        return pc.replace_substring_regex(texts, rule.pattern, MASK if rule.action == "mask" else "")
    mark = secrets.token_hex(12)  # no text has it, and no result
    marked = pc.replace_substring_regex(texts, rule.pattern, rf"{mark}\0{mark}").dictionary_encode()
    hashed = [_hash_marked(text, mark.encode(), hasher) for text in marked.dictionary.cast(pa.binary()).to_pylist()]
    return as_text(pa.array(hashed, pa.binary())).take(marked.indices)


def _hash_marked(text: bytes, mark: bytes, hasher: Hasher) -> bytes:
    parts = text.split(mark)
    parts[1::2] = [hasher.hash(part).encode() for part in parts[1::2]]
    return b"".join(parts)


def _key_expression(keys: Sequence[str]) -> str:
    return "(?is)^(?:" + "|".join(".*".join(map(quote, key.split("*"))) for key in keys) + ")$"


def _literal_of(key: str) -> str:
    """Return the expression of the longest literal part of a key; empty if it has none."""
    literal = max(key.split("*"), key=len)
    return f"(?i:{quote(literal)})" if literal else ""


def quote(text: str) -> str:
    """Quote a text for RE2, which refuses escapes of letters that Python's function makes of control characters."""
    return "".join(f"\\x{{{ord(char):x}}}" if ord(char) < ord(" ") else re.escape(char) for char in text)


def drop_assertions(pattern: str) -> str:
    r"""Return an expression that matches whatever the pattern matches, wherever it is; empty if there is none.

    >>> drop_assertions(r"^\bcard: [$^]\\b$")
    '(?:)(?:)card: [$^]\\\\b(?:)'
    """
    if "\\Q" in pattern:
        return ""
    parts, at = [], 0
    while at < len(pattern):
        end = _token_end(pattern, at)
        token = pattern[at:end]
        parts.append(NO_ASSERTION if token in ("^", "$", r"\b", r"\B", r"\A", r"\z") else token)
        at = end
    return _usable("".join(parts)) or ""


def _token_end(pattern: str, at: int) -> int:
    if pattern[at] == "\\":
        return at + 2
    if pattern[at] != "[":
        return at + 1
    end = at + 2 if pattern[at + 1 : at + 2] == "^" else at + 1
    end += pattern[end : end + 1] == "]"
    while end < len(pattern) and pattern[end] != "]":
        if pattern.startswith("[:", end) and ":]" in pattern[end:]:
            end = pattern.index(":]", end) + 2
        else:
            end += 2 if pattern[end] == "\\" else 1
    return end + 1


def _usable(expression: str) -> str | None:
    """Return an expression if RE2 accepts it within its limits, and it does not match everything."""
    if not expression:
        return None
    try:
        is_empty_match = pc.match_substring_regex(pa.array([""]), expression)[0].as_py()
    except pa.ArrowInvalid:
        return None
    return None if is_empty_match else expression
