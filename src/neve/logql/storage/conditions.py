"""SQL conditions of a log query: its selector, and the filters before the first stage that changes lines or labels.

The pipeline runs all stages again. Conditions only keep lines from being read, so they may pass lines that it drops.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.lake.tokenizer import tokenize
from neve.lexical.matchers import MatchKind
from neve.logql.language.syntax import LabelFilter, LineFilter, LogQuery, StringFilter
from neve.logql.storage.streams import match_stream
from neve.model.series_tables import LINE_TEXT, LINE_TIME

if TYPE_CHECKING:
    from neve.logql.engine import LogWindow
    from neve.logql.language.syntax import Stage

__all__ = ["LINE", "TIME", "Conditions", "write_conditions"]

TIME, LINE = LINE_TIME, LINE_TEXT
_NOT_WORD = re.compile(r"[^A-Za-z0-9_]")
_HEX = re.compile(r"(?:[0-9a-f]{2})+")


@dataclass(slots=True)
class Conditions:
    """Conditions joined by AND, with their parameters. `is_exact` if they replace all stages."""

    texts: list[str] = field(default_factory=list)
    parameters: list[Any] = field(default_factory=list)
    is_exact: bool = True

    def add(self, text: str, *parameters: Any) -> None:
        """Add a condition."""
        self.texts.append(text)
        self.parameters += parameters

    @property
    def sql(self) -> str:
        """Return the conditions as one."""
        return " AND ".join(f"({text})" for text in self.texts)


def write_conditions(query: LogQuery, window: LogWindow) -> Conditions:
    """Return the conditions of a query within a time window."""
    found = Conditions()
    found.add(f"{TIME} >= ? AND {TIME} < ?", window.start_ns, window.end_ns)
    for matcher in query.matchers:
        text, parameters = match_stream(matcher)
        found.add(text, *parameters)
    for place, stage in enumerate(query.stages):
        if isinstance(stage, LineFilter):
            found.is_exact &= _add_line_filter(found, stage)
        elif isinstance(stage, LabelFilter):
            found.is_exact = False
            _add_label_filter(found, stage)
        else:
            found.is_exact = False
            if not _keeps_lines(stage) or not any(isinstance(one, LineFilter) for one in query.stages[place:]):
                break
            _add_later_filters(found, query.stages[place:])
            break
    return found


def _keeps_lines(stage: Stage) -> bool:
    """Return whether a stage leaves the text of lines as it is: parsers and changes of labels do."""
    return type(stage).__name__ not in {"LineFormat", "Unpack", "Decolorize"}


def _add_later_filters(found: Conditions, stages: tuple[Stage, ...]) -> None:
    """Add the line filters after parsers, up to the first stage that changes lines."""
    for stage in stages:
        if not _keeps_lines(stage):
            return
        if isinstance(stage, LineFilter):
            _add_line_filter(found, stage)


def _add_line_filter(found: Conditions, stage: LineFilter) -> bool:
    """Add a filter of lines, and return whether it has the same meaning in SQL."""
    if stage.operator in {"|>", "!>"} or any(is_address for _, is_address in stage.texts):
        return False
    texts = [text for text, _ in stage.texts]
    is_regex = "~" in stage.operator
    tests = [f"regexp_matches({LINE}, ?)" if is_regex else f"contains({LINE}, ?)" for _ in texts]
    condition = " OR ".join(tests)
    found.add(f"NOT ({condition})" if stage.is_negative else condition, *texts)
    if stage.operator == "|=" and len(texts) == 1:
        for word in sorted(list_inner_words(texts[0])):
            found.add("has_term(message, ?)", word)
    return True


def list_inner_words(text: str) -> frozenset[str]:
    """Return the whole words inside a text. The words at its ends may be parts of longer ones.

    >>> sorted(list_inner_words("out of memory in pod"))
    ['in', 'memory', 'of']
    """
    marks = [found.start() for found in _NOT_WORD.finditer(text)]
    if not marks or not text.isascii():
        return frozenset()
    return tokenize(text[marks[0] : marks[-1] + 1])


def _add_label_filter(found: Conditions, stage: LabelFilter) -> None:
    """Add a comparison with a column by which files are pruned."""
    condition = stage.condition
    if not isinstance(condition, StringFilter) or condition.matcher.kind is not MatchKind.EQUAL:
        return
    name, value = condition.matcher.name, condition.matcher.value
    if name in {"trace_id", "span_id"} and _HEX.fullmatch(value):
        found.add(f"{name} = unhex(?)", value)
    elif name in {"severity_text", "event_name", "scope_name"} and value:
        found.add(f"{name} = ?", value)
