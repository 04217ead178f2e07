"""A table's spec: its layout as a YAML file that people can read, review and change."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import ConfigDict, Field, ValidationError, model_validator

from neve.autopilot.layout import Layout, PartField, Promoted
from neve.errors import ConfigError
from neve.model.section import Section

if TYPE_CHECKING:
    from collections.abc import Hashable

HEADER = """\
# How a table is laid out. Neve's autopilot proposes changes of this file, and merging one approves it.
# Files are rewritten whole: comments of your own are not kept, properties are.
"""
MOST_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class TableSpec:
    """A table, its layout, and properties that people wrote beside it; those are kept as they are."""

    table: str
    layout: Layout
    properties: tuple[tuple[str, str], ...] = ()  # by name

    def __str__(self) -> str:
        return written(self)


class _Part(Section):
    model_config = ConfigDict(strict=True)

    column: str = Field(min_length=1)
    transform: str = Field(min_length=1)


class _Promoted(Section):
    model_config = ConfigDict(strict=True)

    name: str = Field(min_length=1)
    source: str = Field(min_length=1)


class _Document(Section):
    """What the file has to say; strict, so that an unquoted `on` is a complaint and not a column called True."""

    model_config = ConfigDict(strict=True)

    version: Literal[1]
    table: str = Field(min_length=1)
    partition: list[_Part]
    sort: list[str]
    zorder: list[str]
    promoted: list[_Promoted]
    bloom_filters: list[str]
    target_file_bytes: int | None = Field(ge=1)
    properties: dict[str, str]

    @model_validator(mode="after")
    def _one_order(self) -> _Document:
        if self.sort and self.zorder:
            raise ValueError("should have sort or zorder, not both")
        return self


def written(spec: TableSpec) -> str:
    """The file of a spec; equal specs have equal files."""
    layout = spec.layout
    document = {
        "version": 1,
        "table": spec.table,
        "partition": [_Line(asdict(field)) for field in layout.partition],
        "sort": _Names(layout.sort),
        "zorder": _Names(layout.zorder),
        "promoted": [_Line(asdict(column)) for column in layout.promoted],
        "bloom_filters": _Names(layout.blooms),
        "target_file_bytes": layout.target_file_bytes,
        "properties": dict(sorted(spec.properties)),
    }
    return HEADER + yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)


def read(text: str, name: str = "the spec") -> TableSpec:
    """The spec of a file; raises `ConfigError` that says what is wrong where."""
    found = _parsed(text, name)
    try:
        document = _Document.model_validate(found)
    except ValidationError as error:
        raise ConfigError(
            f"{name} is not a table's spec: {'; '.join(_complaint(one) for one in error.errors())}",
            hint="words such as on, no and null, and numbers, are names only in quotes",
        ) from None
    layout = Layout(
        partition=tuple(PartField(one.column, one.transform) for one in document.partition),
        sort=tuple(document.sort),
        zorder=tuple(document.zorder),
        promoted=tuple(Promoted(one.name, one.source) for one in document.promoted),
        blooms=tuple(document.bloom_filters),
        target_file_bytes=document.target_file_bytes,
    )
    return TableSpec(document.table, layout, tuple(sorted(document.properties.items())))


def has_layout(text: str | None, table: str, layout: Layout) -> bool:
    """Whether a file is there, can be read, and says that the table is laid out so."""
    spec = _read_or_none(text)
    return spec is not None and spec.table == table and spec.layout == layout


def with_layout(text: str | None, table: str, layout: Layout) -> str:
    """The file with another layout; the properties that stand in it stay."""
    spec = _read_or_none(text)
    return written(TableSpec(table, layout, spec.properties if spec else ()))


def _read_or_none(text: str | None) -> TableSpec | None:
    try:
        return None if text is None else read(text)
    except ConfigError:
        return None


class _Names(list[str]):
    """Names in one line, so that a diff shows under which key one came or went."""


class _Line(dict[str, str]):
    """A map in one line."""


class _Dumper(yaml.SafeDumper):
    def represent_text(self, text: str) -> yaml.ScalarNode:
        """A text; one with a line break of any alphabet is quoted, or it would come back as a space."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')

    def represent_names(self, names: _Names) -> yaml.SequenceNode:
        """Names in one line."""
        return self.represent_sequence("tag:yaml.org,2002:seq", names, flow_style=True)

    def represent_line(self, line: _Line) -> yaml.MappingNode:
        """A map in one line."""
        return self.represent_mapping("tag:yaml.org,2002:map", line, flow_style=True)


_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_representer(_Names, _Dumper.represent_names)
_Dumper.add_representer(_Line, _Dumper.represent_line)


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A map; raises where a key stands twice, for the last one would win in silence."""
        names = [str(key.value) for key, _value in node.value]
        twice = {one for one in names if names.count(one) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"{min(twice)!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """A node; raises for an alias, by which a small file can stand for a huge one."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "an alias, expected plain values", self.get_mark())
        return super().compose_node(parent, index)


def _parsed(text: str, name: str) -> object:
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"{name} has {len(text)} characters, expected at most {MOST_CHARACTERS}")
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader that takes less
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(f"{name} is not YAML (line {mark.line + 1 if mark else 1}): {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is not YAML: {type(error).__name__}") from None


def _complaint(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    said = error["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else str(said)
