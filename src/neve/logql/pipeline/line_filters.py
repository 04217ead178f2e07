"""Filters of lines: texts, regular expressions, patterns and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from neve.logql.pipeline.ip_filter import contains_address, parse_addresses
from neve.logql.pipeline.pattern_parser import parse_line_pattern, test_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.logql.language.syntax import LineFilter
    from neve.logql.pipeline.entry import Entry

__all__ = ["LineFilterStage", "match_lines"]


def _search_regex(pattern: str, lines: Sequence[str]) -> list[bool]:
    array = pa.array(lines, pa.string())
    found: list[bool] = pc.match_substring_regex(array, pattern=pattern).to_pylist()
    return found


def _make_test(operator: str, text: str, *, is_address: bool) -> Callable[[Sequence[str]], list[bool]]:
    if is_address:
        contains = parse_addresses(text)
        return lambda lines: [contains_address(line, contains) for line in lines]
    if operator in {"|~", "!~"}:
        return partial(_search_regex, text)
    if operator in {"|>", "!>"}:
        parts = parse_line_pattern(text)
        return lambda lines: [test_line(parts, line) for line in lines]
    return lambda lines: [text in line for line in lines]


def match_lines(stage: LineFilter, lines: Sequence[str]) -> list[bool]:
    """Return which lines pass a filter. An empty text or regular expression passes all."""
    passed = [False] * len(lines)
    for text, is_address in stage.texts:
        if not text and not is_address and stage.operator in {"|=", "!=", "|~", "!~"}:
            matched = [True] * len(lines)
        else:
            matched = _make_test(stage.operator, text, is_address=is_address)(lines)
        passed = [one or other for one, other in zip(passed, matched, strict=True)]
    return [not one for one in passed] if stage.is_negative else passed


@dataclass(frozen=True, slots=True)
class LineFilterStage:
    """Drop lines by their text."""

    stage: LineFilter

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Return the lines that pass."""
        passed = match_lines(self.stage, [one.line for one in entries])
        return [one for one, is_kept in zip(entries, passed, strict=True) if is_kept]
