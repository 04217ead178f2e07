"""Stages of a syntax tree as objects that process batches of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from neve.logql.language import syntax
from neve.logql.pipeline.entry import ALL_LABELS, DUPLICATE, ERROR, Hints
from neve.logql.pipeline.formats import (
    DecolorizeStage,
    DropStage,
    KeepStage,
    LabelFormatStage,
    LineFormatStage,
    list_fields,
    parse_template,
)
from neve.logql.pipeline.json_parser import JsonExpressions, JsonParser, UnpackParser
from neve.logql.pipeline.label_filters import LabelFilterStage, list_names
from neve.logql.pipeline.line_filters import LineFilterStage
from neve.logql.pipeline.logfmt_parser import LogfmtExpressions, LogfmtParser
from neve.logql.pipeline.pattern_parser import PatternParser, parse_line_pattern, parse_pattern
from neve.logql.pipeline.regexp_parser import RegexpParser, parse_regexp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.logql.language.syntax import Grouping, Stage, Unwrap
    from neve.logql.pipeline.entry import Entry

__all__ = ["RunnableStage", "check_stage", "compile_stages", "make_hints", "run_stages"]


class RunnableStage(Protocol):
    """Stage that can process lines."""

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Return the lines that stay."""


def check_stage(stage: Stage) -> None:
    """Raise `ValueError` if a pattern, template or expression of a stage is malformed."""
    if isinstance(stage, syntax.LineFilter) and stage.operator in {"|>", "!>"}:
        for text, _ in stage.texts:
            parse_line_pattern(text)
    if isinstance(stage, syntax.LabelFormat):
        _check_formats(stage)
    _compile(stage, ALL_LABELS)


def _check_formats(stage: syntax.LabelFormat) -> None:
    seen: set[str] = set()
    for name, _, _ in stage.formats:
        if name == ERROR:
            raise ValueError(f"{name} cannot be formatted")
        if name in seen:
            raise ValueError(f"multiple label name '{name}' not allowed in a single format operation")
        seen.add(name)


def compile_stages(stages: Sequence[Stage], hints: Hints = ALL_LABELS) -> list[RunnableStage]:
    """Return stages that can run."""
    return [_compile(one, hints) for one in stages]


def run_stages(stages: Sequence[RunnableStage], entries: list[Entry]) -> list[Entry]:
    """Return the lines that pass all stages."""
    for stage in stages:
        if not entries:
            break
        entries = stage.apply(entries)
    return entries


def _compile(stage: Stage, hints: Hints) -> RunnableStage:
    return _COMPILERS[type(stage)](stage, hints)


def _compile_formats(stage: syntax.LabelFormat, _hints: Hints) -> RunnableStage:
    formats = ((name, text if is_source else parse_template(text)) for name, text, is_source in stage.formats)
    return LabelFormatStage(tuple(formats))


def _compile_json(stage: syntax.Json, hints: Hints) -> RunnableStage:
    return JsonExpressions.make(stage.extractions, hints) if stage.extractions else JsonParser(hints)


def _compile_logfmt(stage: syntax.Logfmt, hints: Hints) -> RunnableStage:
    if stage.extractions:
        return LogfmtExpressions.make(stage, hints)
    return LogfmtParser(stage.is_strict, stage.keeps_empty, hints)


_COMPILERS: dict[type, Callable[[Any, Hints], RunnableStage]] = {
    syntax.LineFilter: lambda stage, _hints: LineFilterStage(stage),
    syntax.LabelFilter: lambda stage, _hints: LabelFilterStage(stage.condition),
    syntax.LineFormat: lambda stage, _hints: LineFormatStage(parse_template(stage.template)),
    syntax.LabelFormat: _compile_formats,
    syntax.Decolorize: lambda _stage, _hints: DecolorizeStage(),
    syntax.Drop: lambda stage, _hints: DropStage(stage.labels),
    syntax.Keep: lambda stage, _hints: KeepStage(stage.labels),
    syntax.Json: _compile_json,
    syntax.Logfmt: _compile_logfmt,
    syntax.Regexp: lambda stage, hints: RegexpParser(parse_regexp(stage.pattern), hints),
    syntax.Pattern: lambda stage, hints: PatternParser(parse_pattern(stage.pattern), hints),
    syntax.Unpack: lambda _stage, hints: UnpackParser(hints),
}


def _required_names(stage: Stage) -> set[str]:
    match stage:
        case syntax.LabelFilter():
            return list_names(stage.condition)
        case syntax.LineFormat():
            return set(list_fields(parse_template(stage.template).nodes))
        case syntax.LabelFormat():
            found: set[str] = set()
            for _, text, is_source in stage.formats:
                found |= {text} if is_source else set(list_fields(parse_template(text).nodes))
            return found
    return set()


def make_hints(stages: Sequence[Stage], grouping: Grouping | None, unwrap: Unwrap | None) -> Hints:
    """Return the labels that a metric query needs from parsers. Without a grouping by names it needs all."""
    if grouping is None or grouping.is_without:
        return ALL_LABELS
    names = set(grouping.labels).union(*(_required_names(one) for one in stages))
    if unwrap is not None:
        names |= {unwrap.name}.union(*(list_names(one) for one in unwrap.filters))
    names |= {name.removesuffix(DUPLICATE) for name in names}
    if not names:
        return Hints(needs_none=True)
    return Hints(frozenset(names))
