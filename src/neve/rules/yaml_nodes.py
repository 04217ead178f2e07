"""Read YAML as nodes with positions, so that each problem names its line.

Scalars are read as the text in the file: `severity: yes` and `version: 1.10` are text, as in Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import yaml

from neve.lexical.literals import LiteralError, parse_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["NodeReader", "Problem", "Where", "parse_document"]

MAX_CHARS = 16 * 1024 * 1024  # of a file
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Where:
    """Group and rule that a problem belongs to. Rules are counted from 1."""

    group: str = ""
    rule: int = 0
    name: str = ""

    def __str__(self) -> str:
        if not self.group:
            return ""
        rule = f", rule {self.rule}" if self.rule else ""
        return f'group "{self.group}"{rule}' + (f' "{self.name}"' if self.name else "")


@dataclass(frozen=True, slots=True)
class Problem:
    """Error or warning about a place in a file."""

    path: str
    line: int
    column: int
    message: str
    where: Where = Where()  # frozen
    is_warning: bool = False

    def __str__(self) -> str:
        where = f"{self.where}: " if str(self.where) else ""
        return f"{self.path}:{self.line}:{self.column}: {where}{self.message}"


def parse_document(text: str, path: str) -> tuple[yaml.Node | None, list[Problem]]:
    """Return the first document of a file as nodes, and its problems."""
    if len(text) > MAX_CHARS:
        return None, [Problem(path, 1, 1, f"the file has more than {MAX_CHARS:,} characters")]
    try:
        documents = yaml.compose_all(text, Loader=yaml.SafeLoader)
        root = next(documents, None)
        more = next(documents, None)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return None, [Problem(path, line, column, f"no valid YAML: {error.problem or error.context}")]
    except (yaml.YAMLError, RecursionError) as error:
        return None, [Problem(path, 1, 1, f"no valid YAML: {error}")]
    if more is None:
        return root, []
    message = "only the first document of the file is used"
    return root, [Problem(path, more.start_mark.line + 1, 1, message, is_warning=True)]


@dataclass
class NodeReader:
    """Reader of nodes that collects problems instead of raising."""

    path: str
    problems: list[Problem] = field(default_factory=list)
    where: Where = Where()  # frozen

    def at(self, where: Where) -> NodeReader:
        """Return a reader with the same list of problems for another place."""
        return replace(self, where=where)

    def add(self, node: yaml.Node | None, message: str, *, is_warning: bool = False) -> None:
        """Add a problem at a node."""
        mark = node.start_mark if node is not None else None
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        self.problems.append(Problem(self.path, line, column, message, self.where, is_warning))

    def mapping(self, node: yaml.Node | None, known: Collection[str] | None = None) -> dict[str, yaml.Node]:
        """Return the values of a mapping by key. `known` are the allowed keys."""
        if node is None or node.tag == _NULL:
            return {}
        if not isinstance(node, yaml.MappingNode):
            self.add(node, f"expected keys and values, got {_describe(node)}")
            return {}
        found: dict[str, yaml.Node] = {}
        merged: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                merged = {**self._merge(value), **merged}
                continue
            name = self.text(key)
            if name in found:
                self.add(key, f'key "{name}" is repeated')
            found[name] = value
            if known is not None and name not in known:
                self.add(key, f'unknown key "{name}", expected one of {", ".join(known)}')
        return {**merged, **found}

    def _merge(self, node: yaml.Node) -> dict[str, yaml.Node]:
        """Return the keys of `<<`: of one mapping, or of several, of which the first wins."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, yaml.Node] = {}
        for part in parts:
            if not isinstance(part, yaml.MappingNode):
                self.add(part, f"<< expects keys and values, got {_describe(part)}")
                continue
            own = {self.text(key): value for key, value in part.value if key.tag != _MERGE}
            merged = {**own, **merged}
        return merged

    def sequence(self, node: yaml.Node | None) -> Sequence[yaml.Node]:
        """Return the items of a list."""
        if node is None or node.tag == _NULL:
            return []
        if not isinstance(node, yaml.SequenceNode):
            self.add(node, f"expected a list, got {_describe(node)}")
            return []
        return list(node.value)

    def text(self, node: yaml.Node | None) -> str:
        """Return a scalar as it is written, "" for null and for a missing one."""
        if node is None or node.tag == _NULL:
            return ""
        if not isinstance(node, yaml.ScalarNode):
            self.add(node, f"expected a text, got {_describe(node)}")
            return ""
        return str(node.value)

    def texts(self, node: yaml.Node | None) -> dict[str, str]:
        """Return a mapping of texts, for example labels."""
        return {name: self.text(value) for name, value in self.mapping(node).items()}

    def duration(self, node: yaml.Node | None) -> int | None:
        """Return a duration in milliseconds, or `None` if it is missing or wrong."""
        if node is None or node.tag == _NULL:
            return None
        text = self.text(node)
        try:
            return parse_duration(text)
        except LiteralError as error:
            self.add(node, str(error))
            return None

    def integer(self, node: yaml.Node | None) -> int:
        """Return an integer, 0 if it is missing or wrong."""
        text = self.text(node)
        if not text:
            return 0
        try:
            return int(text)
        except ValueError:
            self.add(node, f'expected an integer, got "{text}"')
            return 0

    def number(self, node: yaml.Node | None) -> float:
        """Return a number, 0 if it is missing or wrong."""
        text = self.text(node)
        special: Mapping[str, float] = {".nan": float("nan"), ".inf": float("inf"), "-.inf": float("-inf")}
        try:
            return special.get(text.lower()) or float(text or 0)
        except ValueError:
            self.add(node, f'expected a number, got "{text}"')
            return 0.0

    def boolean(self, node: yaml.Node | None) -> bool:
        """Return a boolean, false if it is missing or wrong."""
        text = self.text(node).lower()
        if text not in {"", "true", "false", "yes", "no", "on", "off"}:
            self.add(node, f'expected true or false, got "{text}"')
        return text in {"true", "yes", "on"}


def _describe(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "keys and values" if isinstance(node, yaml.MappingNode) else f'"{node.value}"'
