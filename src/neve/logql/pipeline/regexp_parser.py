"""Parser by the named groups of a regular expression. RE2 runs it on whole batches of lines."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from neve.logql.pipeline.entry import Entry, Hints, sanitize_name

__all__ = ["NamedGroups", "RegexpParser", "parse_regexp"]

_GROUP = re.compile(r"\\.|\[(?:\\.|\^?\]?[^\]\\])*\]|\((?!\?)|\(\?P?<(?P<name>\w+)>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NamedGroups:
    """Pattern whose groups all have names, because RE2's binding wants that, and the names of labels."""

    pattern: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]  # of the named groups among all


def parse_regexp(pattern: str) -> NamedGroups:
    """Return a pattern with its named groups. Raises `ValueError`."""
    names: list[str] = []
    numbers: list[int] = []
    count = 0

    def name_group(found: re.Match[str]) -> str:
        nonlocal count
        if found[0][0] != "(":
            return found[0]
        count += 1
        if found["name"] is None:
            return f"(?P<unnamed{count}_>"
        names.append(found["name"])
        numbers.append(count)
        return f"(?P<{found['name']}>"

    named = _GROUP.sub(name_group, pattern)
    try:
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as error:
        raise ValueError(f"error parsing regexp: {str(error).split(': ', 1)[-1]}") from None
    if not names:
        raise ValueError("at least one named capture must be supplied")
    twice = next((name for name, uses in Counter(names).items() if uses > 1), None)
    if twice is not None:
        raise ValueError(f"duplicate extracted label name '{twice}'")
    return NamedGroups(named, tuple(names), tuple(numbers))


@dataclass(frozen=True, slots=True)
class RegexpParser:
    """Labels of the named groups. Lines that don't match stay as they are."""

    groups: NamedGroups
    hints: Hints

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Parse lines."""
        if not entries:
            return entries
        found = pc.extract_regex(pa.array([one.line for one in entries], pa.string()), pattern=self.groups.pattern)
        matched = found.is_valid().to_pylist()
        for name in self.groups.names:
            label = sanitize_name(name)
            values = found.field(name).to_pylist()
            for entry, is_match, value in zip(entries, matched, values, strict=True):
                free = entry.name_for(label, self.hints) if is_match and label else None
                if free is not None:
                    entry.set(free, value or "")
        return entries
