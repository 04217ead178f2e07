"""Label filters after a parser as SQL: conditions that every line fulfils which passes them in the pipeline.

They are weaker than the filters. Lines whose form SQL would read differently, and values of unusual forms, pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.logql.language.syntax import (
    BytesFilter,
    Combination,
    DurationFilter,
    IpFilter,
    Json,
    LabelFilter,
    LineFilter,
    Logfmt,
    NumberFilter,
    Pattern,
    Regexp,
    StringFilter,
)
from neve.logql.pipeline.entry import DUPLICATE
from neve.logql.pipeline.label_filters import list_names
from neve.logql.storage.parser_sql import EVERY_LINE, Piece, write_parser
from neve.logql.storage.streams import LEVEL, compare_text, write_own, write_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.logql.language.syntax import LabelCondition, Stage

__all__ = ["write_filters"]

MAX_NAMES = 8
_PARSERS = (Json, Logfmt, Regexp, Pattern)
_SIGNS = {"==": "=", "!=": "<>", ">": ">", ">=": ">=", "<": "<", "<=": "<="}
_NUMBER = r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?"
_DURATION = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ns|us|ms|s|m|h)"
_SIZE = r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([kKmMgG]?)[bB]?"
_NANOS = (
    "CASE {} WHEN 'ns' THEN 1 WHEN 'us' THEN 1e3 WHEN 'ms' THEN 1e6 WHEN 's' THEN 1e9 WHEN 'm' THEN 6e10 ELSE 36e11 END"
)
_BYTES = "CASE upper({}) WHEN '' THEN 1 WHEN 'K' THEN 1e3 WHEN 'M' THEN 1e6 ELSE 1e9 END"


def _multiply(pattern: str, factors: str) -> str:
    return f"CAST(regexp_extract(v, '{pattern}', 1) AS DOUBLE) * " + factors.format(
        f"regexp_extract(v, '{pattern}', 2)"
    )


_FORMS: dict[type, tuple[str, str]] = {  # the usual form of a value, and its number
    NumberFilter: (_NUMBER, "CAST(v AS DOUBLE)"),
    DurationFilter: (_DURATION, _multiply(_DURATION, _NANOS)),
    BytesFilter: (_SIZE, _multiply(_SIZE, _BYTES)),
}


def write_filters(stages: Sequence[Stage]) -> Piece | None:
    """Return the condition of the label filters after the first parser, or `None` if there is none.

    It names the columns of a line, with `line` for its text.
    """
    found = _split(stages)
    if found is None:
        return None
    parser_stage, filters = found
    names = sorted({name for one in filters for name in list_names(one)})
    usable = [name for name in names if name[0] != "_" and not name.endswith(DUPLICATE) and name != LEVEL]
    if not usable or len(usable) > MAX_NAMES:
        return None
    parser = write_parser(parser_stage, usable)
    if parser is None:
        return None
    values = {name: _write_value(name, value) for name, value in zip(usable, parser.values, strict=True)}
    wanted = _chain([_write_condition(one, values) for one in filters])
    if wanted is None:
        return None
    if parser.condition == EVERY_LINE:
        return wanted
    condition = parser.condition
    text = f"CASE WHEN coalesce({condition.text}, false) THEN {wanted.text} ELSE true END"
    return Piece(text, (*condition.parameters, *wanted.parameters))


def _split(stages: Sequence[Stage]) -> tuple[Stage, list[LabelCondition]] | None:
    """Return the first parser and the label filters after it, up to the first stage that changes labels or lines."""
    rest = iter(stages)
    parser = next((one for one in rest if not isinstance(one, LineFilter | LabelFilter)), None)
    if not isinstance(parser, _PARSERS):
        return None
    filters: list[LabelCondition] = []
    for stage in rest:
        if isinstance(stage, LabelFilter):
            filters.append(stage.condition)
        elif not isinstance(stage, LineFilter):
            break
    return (parser, filters) if filters else None


def _write_value(name: str, parsed: Piece) -> Piece:
    """Return the value of a label: that of the stream, of the line, or of the parser."""
    stream, metadata = write_stream(name), write_own(name)
    return Piece(
        f"coalesce({stream.text}, {metadata.text}, {parsed.text})",
        (*stream.parameters, *metadata.parameters, *parsed.parameters),
    )


def _write_condition(condition: LabelCondition, values: Mapping[str, Piece]) -> Piece | None:
    if isinstance(condition, Combination):
        sides = [_write_condition(one, values) for one in (condition.left, condition.right)]
        return _chain(sides) if condition.operator == "and" else _join_any(sides)
    name = condition.matcher.name if isinstance(condition, StringFilter) else condition.name
    value = values.get(name)
    if value is None:
        return None
    if isinstance(condition, StringFilter):
        return _compare_text(value, condition)
    form = _FORMS.get(type(condition))
    return None if form is None or isinstance(condition, IpFilter) else _compare_number(value, *form, condition)


def _compare_text(value: Piece, condition: StringFilter) -> Piece:
    text, parameters = compare_text(f"coalesce({value.text}, '')", list(value.parameters), condition.matcher)
    return Piece(text, tuple(parameters))


def _compare_number(
    value: Piece, pattern: str, number: str, condition: NumberFilter | DurationFilter | BytesFilter
) -> Piece:
    """Compare the numbers of usual forms. A number that is nearly equal passes, because SQL may round it."""
    wanted = float(condition.value)
    test = f"(x {_SIGNS[condition.operator]} ? OR abs(x - ?) <= ?)"
    inside = (
        f"list_transform([{value.text}], v -> CASE WHEN v IS NULL THEN false "
        f"WHEN regexp_full_match(v, '{pattern}') THEN list_transform([{number}], x -> {test})[1] ELSE true END)[1]"
    )
    return Piece(inside, (*value.parameters, wanted, wanted, 1 + abs(wanted) * 1e-9))


def _chain(parts: Sequence[Piece | None]) -> Piece | None:
    """Return the conjunction of conditions. Each is computed for the lines that fulfil those before it."""
    found = [one for one in parts if one is not None]
    if not found:
        return None
    text = found[-1].text
    for one in reversed(found[:-1]):
        text = f"CASE WHEN {one.text} THEN {text} ELSE false END"
    return Piece(text, tuple(parameter for one in found for parameter in one.parameters))


def _join_any(parts: Sequence[Piece | None]) -> Piece | None:
    """Return the disjunction of conditions, or `None` if one of them is not known."""
    found = [one for one in parts if one is not None]
    if len(found) < len(parts):
        return None
    text = " OR ".join(one.text for one in found)
    return Piece(f"({text})", tuple(parameter for one in found for parameter in one.parameters))
