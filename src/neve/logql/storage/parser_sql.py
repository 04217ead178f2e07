"""Parsers as SQL, for the labels that a query names.

Each parser has a condition for the lines that SQL reads as the pipeline does. The pipeline reads the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.logql.language.syntax import Json, Logfmt, Pattern, Regexp
from neve.logql.pipeline.entry import sanitize_name
from neve.logql.pipeline.pattern_parser import parse_pattern
from neve.logql.pipeline.regexp_parser import parse_regexp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.logql.language.syntax import Stage
    from neve.logql.pipeline.regexp_parser import NamedGroups

__all__ = ["EVERY_LINE", "ParserSql", "Piece", "write_parser"]

# JSON whose keys are blank or have spaces at their ends, and characters that the pipeline replaces.
_ODD_KEYS = r'""\s*:|[{,]\s*"\s|\s"\s*:|\\u|\x{FFFD}'
_ODD_FLAT = r'^\s*\{.*\{|"[^"\\]*[^"\\0-9A-Za-z_][^"\\]*"\s*:|\\"\s*:'
_READ_TYPES = "('VARCHAR', 'UBIGINT', 'BOOLEAN', 'ARRAY', 'OBJECT', 'NULL')"  # numbers with a fraction lose their form
_LOGFMT_LINE = r'[\x00-\x20]*(?:[0-9A-Za-z_]+(?:=(?:"[^"\\]*"|[^\x00-\x20="]*))?(?:[\x00-\x20]+|$))*'
_QUOTED_PAIR = r'"[^"]*=[^"]*"'
_REPLACED = r"\x{FFFD}"
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_MAX_GROUP = 9  # of DuckDB


@dataclass(frozen=True, slots=True)
class Piece:
    """SQL text with the parameters of its marks, in their order."""

    text: str
    parameters: tuple[Any, ...] = ()


EVERY_LINE = Piece("true")


@dataclass(frozen=True, slots=True)
class ParserSql:
    """Value of each label, or NULL, and the condition for lines whose values are those of the pipeline."""

    values: tuple[Piece, ...]
    condition: Piece


def write_parser(stage: Stage | None, names: Sequence[str]) -> ParserSql | None:
    """Return a parser for some labels of the column `line`, or `None` if it can't run in SQL."""
    if stage is None:
        return ParserSql(tuple(Piece("NULL") for _ in names), EVERY_LINE)
    if isinstance(stage, Json) and not stage.extractions:
        return _write_json(names)
    if isinstance(stage, Logfmt) and not stage.extractions and not stage.is_strict and not stage.keeps_empty:
        return _write_logfmt(names)
    if isinstance(stage, Regexp):
        groups = parse_regexp(stage.pattern)
        return _write_groups(groups.pattern, _number_groups(groups), names)
    return _write_pattern(stage, names) if isinstance(stage, Pattern) else None


def _write_json(names: Sequence[str]) -> ParserSql:
    paths = [f'$."{name}"' for name in names]
    kinds = "CASE WHEN json_valid(line) THEN json_type(line, ?) END"
    values = tuple(
        Piece(
            f"CASE WHEN {kinds} IN ('VARCHAR', 'UBIGINT', 'BOOLEAN') THEN json_extract_string(line, ?) END",
            (path, path),
        )
        for path in paths
    )
    tests = ["json_valid(line)", "NOT regexp_matches(line, ?)"]
    parameters: list[Any] = [_ODD_KEYS]
    if any("_" in name for name in names):  # a nested or dotted key may have this name
        tests.append("NOT regexp_matches(line, ?)")
        parameters.append(f"(?s){_ODD_FLAT}")
    tests.append("left(ltrim(line), 1) = '{'")
    for path in paths:
        tests.append(f"coalesce({kinds} IN {_READ_TYPES}, true)")
        parameters.append(path)
    return ParserSql(values, Piece(" AND ".join(tests), tuple(parameters)))


def _write_logfmt(names: Sequence[str]) -> ParserSql:
    values = tuple(
        Piece(
            "nullif(trim(regexp_extract(line, ?, 1), '\"'), '')",
            (rf'(?:^|[\x00-\x20]){name}=("[^"\\]+"|[^\x00-\x20="]+)',),
        )
        for name in names
    )
    condition = "regexp_full_match(line, ?) AND NOT regexp_matches(line, ?) AND NOT regexp_matches(line, ?)"
    return ParserSql(values, Piece(condition, (_LOGFMT_LINE, _QUOTED_PAIR, _REPLACED)))


def _number_groups(groups: NamedGroups) -> dict[str, int]:
    """Return the number of each label's group. The first of two groups with one label counts."""
    found: dict[str, int] = {}
    for name, number in zip(groups.names, groups.numbers, strict=True):
        found.setdefault(sanitize_name(name), number)
    return found


def _write_groups(
    pattern: str, places: Mapping[str, int], names: Sequence[str], *, is_whole: bool = False
) -> ParserSql | None:
    """Return a parser by the groups of a regular expression, each with its label and number."""
    if any(number > _MAX_GROUP for number in places.values()):
        return None
    value = "CASE WHEN regexp_matches(line, ?) THEN regexp_extract(line, ?, {}) END"
    values = tuple(
        Piece(value.format(places[name]), (pattern, pattern)) if name in places else Piece("NULL") for name in names
    )
    condition = Piece("regexp_matches(line, ?)", (pattern,)) if is_whole else EVERY_LINE
    return ParserSql(values, condition)


def _write_pattern(stage: Pattern, names: Sequence[str]) -> ParserSql | None:
    """Return a parser by a pattern. Lines without one of its texts are left to the pipeline."""
    parts = parse_pattern(stage.pattern)
    places: dict[str, int] = {}
    pattern = "(?s)^"
    for place, part in enumerate(parts):
        if isinstance(part, str):
            pattern += _SPECIAL.sub(r"\\\g<0>", part)
            continue
        body = ".*" if place == len(parts) - 1 else ".*?"
        if part.name != "_":
            places[part.name] = len(places) + 1
            pattern += f"({body})"
        else:
            pattern += body
    return _write_groups(pattern, places, names, is_whole=True)
