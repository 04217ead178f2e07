"""Label matchers, and regular expressions in RE2's syntax.

Regular expressions are anchored and `.` matches line breaks, as in Prometheus. They run in RE2, which needs linear
time: tenants write them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from neve.lexical.literals import quote
from neve.lexical.text_cache import cache_short_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "MatchKind",
    "Matcher",
    "RegexError",
    "Template",
    "TextTooLong",
    "match_regex",
    "search_regex",
    "validate_regex",
]

_LITERALS = re.compile(r"[\w\- /:,@%~]*(?:\|[\w\- /:,@%~]*)*")
_GROUP = re.compile(r"\\.|\[(?:\\.|\^?\]?[^\]\\])*\]|\((?!\?)|\(\?P?<(?P<name>\w+)>", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\$|(?P<plain>\w+)|\{(?P<braced>\w+)\})")
_PLAIN_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class RegexError(ValueError):
    """Raised when a regular expression is malformed."""


class TextTooLong(ValueError):
    """Raised when a replacement would have more characters than are allowed."""


class MatchKind(StrEnum):
    """Comparison of a label with the value of a matcher."""

    EQUAL = "="
    NOT_EQUAL = "!="
    REGEX = "=~"
    NOT_REGEX = "!~"


def _anchor(pattern: str) -> str:
    return f"^(?s:{pattern})$"


@cache_short_texts(512)
def validate_regex(pattern: str) -> None:
    """Raise `RegexError` if RE2 can't compile a pattern."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern=_anchor(pattern))
    except pa.ArrowInvalid as error:
        raise RegexError(f"error parsing regexp: {str(error).split(': ', 1)[-1]}") from None


@cache_short_texts(512)
def _alternatives(pattern: str) -> frozenset[str] | None:
    return frozenset(pattern.split("|")) if _LITERALS.fullmatch(pattern) else None


def match_regex(pattern: str, texts: Sequence[str]) -> list[bool]:
    """Return which of the texts a pattern matches in whole.

    >>> match_regex("a.*|b", ["a1", "b", "bc"])
    [True, True, False]
    """
    literals = _alternatives(pattern)
    if literals is not None:
        return [text in literals for text in texts]
    validate_regex(pattern)
    matched: list[bool] = pc.match_substring_regex(pa.array(texts, pa.string()), pattern=_anchor(pattern)).to_pylist()
    return matched


def search_regex(pattern: str, text: str) -> bool:
    """Return whether a pattern matches some part of a text.

    >>> search_regex("b+", "abc")
    True
    """
    validate_regex(pattern)
    found: bool = pc.match_substring_regex(pa.array([text], pa.string()), pattern=pattern)[0].as_py()
    return found


@dataclass(frozen=True, slots=True)
class Matcher:
    """Condition on one label. A missing label has the value ""."""

    name: str
    kind: MatchKind
    value: str

    def match_all(self, texts: Iterable[str]) -> list[bool]:
        """Return which of the texts match."""
        if self.kind is MatchKind.EQUAL:
            return [text == self.value for text in texts]
        if self.kind is MatchKind.NOT_EQUAL:
            return [text != self.value for text in texts]
        found = match_regex(self.value, list(texts))
        return found if self.kind is MatchKind.REGEX else [not one for one in found]

    def matches(self, text: str) -> bool:
        """Return whether one text matches."""
        return self.match_all([text])[0]

    def __str__(self) -> str:
        name = self.name if _PLAIN_NAME.fullmatch(self.name) else quote(self.name)
        return f"{name}{self.kind.value}{quote(self.value)}"


@dataclass(frozen=True, slots=True)
class Template:
    """Replacement of a text that a pattern matches, with `$1`, `${1}` or `$name` for the groups of the pattern."""

    pattern: str
    replacement: str

    def expand_all(self, texts: Sequence[str], most_chars: int) -> Iterator[str | None]:
        """Yield each text's replacement, or `None` where the pattern does not match in whole.

        Raises `TextTooLong` before a replacement of more than `most_chars` characters is built.

        >>> list(Template("(.)(.*)", "$2-${1}").expand_all(["abc", ""], 100))
        ['bc-a', None]
        """
        matched = match_regex(self.pattern, texts)
        parts = self._parse()
        uses = Counter(part for part in parts if isinstance(part, int))
        groups = {number: self._find_groups(texts, number) for number in uses}
        plain = sum(len(part) for part in parts if isinstance(part, str))
        for index, is_match in enumerate(matched):
            if not is_match:
                yield None
                continue
            if plain + sum(count * len(groups[number][index]) for number, count in uses.items()) > most_chars:
                raise TextTooLong(f"a replacement has more than {most_chars:,} characters")
            yield "".join(part if isinstance(part, str) else groups[part][index] for part in parts)

    def substitute(self, text: str) -> str:
        """Return a text in which each match of the pattern, also inside of it, is replaced.

        >>> Template("b(.)", "<$1>").substitute("abcabd")
        'a<c>a<d>'
        """
        validate_regex(self.pattern)
        parts = self._parse()
        rewrite = "".join(f"\\{part}" if isinstance(part, int) else part.replace("\\", "\\\\") for part in parts)
        array = pa.array([text], pa.string())
        found: str = pc.replace_substring_regex(array, pattern=self.pattern, replacement=rewrite)[0].as_py()
        return found

    def _find_groups(self, texts: Sequence[str], number: int) -> list[str]:
        array = pa.array(texts, pa.string())
        found = pc.replace_substring_regex(array, pattern=_anchor(self.pattern), replacement=f"\\{number}")
        return [group or "" for group in found.to_pylist()]

    def _parse(self) -> list[str | int]:
        names = [found["name"] for found in _GROUP.finditer(self.pattern) if found[0][0] == "("]
        numbers = {name: index for index, name in enumerate(names, 1) if name}
        parts: list[str | int] = []
        at = 0
        for found in _REFERENCE.finditer(self.replacement):
            parts.append(self.replacement[at : found.start()])
            at = found.end()
            name = found["plain"] or found["braced"]
            if name is None:
                parts.append("$")
                continue
            number = int(name) if name.isdigit() and len(name) < 4 else numbers.get(name, -1)
            if 0 <= number <= min(len(names), 9):
                parts.append(number)
        parts.append(self.replacement[at:])
        return [part for part in parts if part != ""]
