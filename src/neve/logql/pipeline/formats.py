"""Stages that rewrite lines and labels: templates, colours, `drop` and `keep`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.lexical.go_template.execution import Template
from neve.lexical.go_template.parser import TemplateError
from neve.lexical.go_template.syntax import Action, Branch, Chain, Command, Dot, Loop, Node, Pipeline, Scope
from neve.lexical.matchers import Matcher
from neve.logql.pipeline.entry import ERROR, ERROR_DETAILS, Entry
from neve.logql.template_functions import FUNCTIONS, GoTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["DecolorizeStage", "DropStage", "KeepStage", "LabelFormatStage", "LineFormatStage", "parse_template"]

TEMPLATE_ERROR = "TemplateFormatErr"
_ANSI = re.compile(
    "[\x1b\x9b][\\[\\]()#;?]*"
    "(?:(?:(?:[a-zA-Z0-9]*(?:;[a-zA-Z0-9]*)*)?\x07)|(?:(?:[0-9]{1,4}(?:;[0-9]{0,4})*)?[0-9A-PRZcf-ntqry=><~]))"
)
_KNOWN: dict[str, Callable[..., Any]] = {**FUNCTIONS, "__line__": str, "__timestamp__": GoTime}


def parse_template(text: str) -> Template:
    """Return a template with the functions of Loki. Raises `TemplateError`, which is a `ValueError`."""
    return Template.parse(text, _KNOWN)


def _execute(template: Template, entry: Entry, labels: dict[str, str]) -> str:
    """Return the text of a template for a line."""
    own = {"__line__": lambda: entry.line, "__timestamp__": lambda: GoTime(entry.time_ns)}
    return template.execute(labels, {**FUNCTIONS, **own}, {})


def list_fields(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the labels that a template names."""
    for node in nodes:
        if isinstance(node, Action):
            yield from _pipeline_fields(node.pipeline)
        elif isinstance(node, Branch):
            yield from _pipeline_fields(node.condition)
            yield from list_fields((*node.then, *node.otherwise))
        elif isinstance(node, Scope):
            yield from _pipeline_fields(node.value)
            yield from list_fields((*node.then, *node.otherwise))
        elif isinstance(node, Loop):
            yield from _pipeline_fields(node.value)
            yield from list_fields((*node.body, *node.otherwise))


def _pipeline_fields(pipeline: Pipeline) -> Iterator[str]:
    for command in pipeline.commands:
        yield from _command_fields(command)


def _command_fields(command: Command) -> Iterator[str]:
    for operand in command.operands:
        if isinstance(operand, Pipeline):
            yield from _pipeline_fields(operand)
        elif isinstance(operand, Chain):
            if isinstance(operand.base, Dot):
                yield from operand.fields
            elif isinstance(operand.base, Pipeline):
                yield from _pipeline_fields(operand.base)


@dataclass(frozen=True, slots=True)
class LineFormatStage:
    """Replace lines by a template."""

    template: Template

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Return the lines with new texts. A template that fails leaves its line, with an error."""
        for entry in entries:
            try:
                entry.line = _execute(self.template, entry, entry.labels())
            except TemplateError as error:
                entry.error, entry.details = TEMPLATE_ERROR, str(error)
        return entries


@dataclass(frozen=True, slots=True)
class LabelFormatStage:
    """Set labels by templates, or rename them."""

    formats: tuple[tuple[str, str | Template], ...]

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Return the lines with new labels. All templates of the stage see the labels before its first one."""
        for entry in entries:
            labels: dict[str, str] = {}
            for name, source in self.formats:
                if isinstance(source, str):
                    value = entry.get(source)
                    if value is not None:
                        entry.set(name, value)
                        entry.delete(source)
                    continue
                labels = labels or entry.labels()
                try:
                    entry.set(name, _execute(source, entry, labels))
                except TemplateError as error:
                    entry.error, entry.details = TEMPLATE_ERROR, str(error)
        return entries


@dataclass(frozen=True, slots=True)
class DecolorizeStage:
    """Remove the colour codes of terminals."""

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Return the lines without codes."""
        for entry in entries:
            if "\x1b" in entry.line or "\x9b" in entry.line:
                entry.line = _ANSI.sub("", entry.line)
        return entries


@dataclass(frozen=True, slots=True)
class DropStage:
    """Remove labels."""

    labels: tuple[str | Matcher, ...]

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Return the lines without the labels."""
        for label in self.labels:
            name = label.name if isinstance(label, Matcher) else label
            for entry in entries:
                value = entry.details if name == ERROR_DETAILS else entry.value(name)
                if isinstance(label, Matcher) and not label.matches(value):
                    continue
                if name == ERROR:
                    entry.error = ""
                elif name == ERROR_DETAILS:
                    entry.details = ""
                elif isinstance(label, Matcher) or entry.get(name) is not None:
                    entry.delete(name)
        return entries


@dataclass(frozen=True, slots=True)
class KeepStage:
    """Remove all other labels."""

    labels: tuple[str | Matcher, ...]

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Return the lines with the labels only."""
        for entry in entries:
            for name in entry.names():
                if not any(self._keeps(one, name, entry) for one in self.labels):
                    entry.delete(name)
        return entries

    @staticmethod
    def _keeps(label: str | Matcher, name: str, entry: Entry) -> bool:
        if isinstance(label, Matcher):
            return label.name == name and label.matches(entry.get(name) or "")
        return label == name
