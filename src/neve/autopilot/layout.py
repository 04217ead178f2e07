"""Layout of a table (partition, order, promoted columns, bloom filters, file size) and its YAML spec file.

The id of a proposal is a hash of the `repr` of two layouts: renaming a class or a field here changes ids that are
stored.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import ConfigDict, Field, ValidationError, model_validator

from neve.errors import ConfigError
from neve.model.settings import Section
from neve.text import format_bytes

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(frozen=True)
class PartField:
    """A field of a partition spec: a column and Iceberg's transform of it (identity, day, bucket[16], truncate[4])."""

    column: str
    transform: str

    def __str__(self) -> str:
        return self.column if self.transform == "identity" else f"{self.transform}({self.column})"


@dataclass(frozen=True)
class Promoted:
    """A column with the value of a map's key."""

    name: str  # of the new column
    source: str  # e.g. attributes['http.route']


@dataclass(frozen=True)
class Layout:
    """Layout of a table; `zorder` and `sort` exclude each other."""

    partition: tuple[PartField, ...] = ()
    sort: tuple[str, ...] = ()
    zorder: tuple[str, ...] = ()
    promoted: tuple[Promoted, ...] = ()
    blooms: tuple[str, ...] = ()
    target_file_bytes: int | None = None

    def __str__(self) -> str:
        parts = [f"partitioned by {', '.join(map(str, self.partition))}" if self.partition else "not partitioned"]
        if self.sort:
            parts.append(f"sorted by {', '.join(self.sort)}")
        if self.zorder:
            parts.append(f"z-ordered by {', '.join(self.zorder)}")
        if self.promoted:
            parts.append(f"columns for {', '.join(one.source for one in self.promoted)}")
        if self.blooms:
            parts.append(f"bloom filters on {', '.join(self.blooms)}")
        if self.target_file_bytes:
            parts.append(f"files of {format_bytes(self.target_file_bytes)}")
        return ", ".join(parts)


SPEC_HEADER = """\
# Layout of a table. Neve's autopilot proposes changes of this file. Merging a change approves it.
# The autopilot rewrites the whole file: it preserves properties, but not your comments.
"""
MAX_SPEC_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class TableSpec:
    """A table, its layout, and properties that users added to the spec; those are preserved."""

    table: str
    layout: Layout
    properties: tuple[tuple[str, str], ...] = ()  # by name

    def __str__(self) -> str:
        return format_spec(self)


class _SpecPartField(Section):
    model_config = ConfigDict(strict=True)

    column: str = Field(min_length=1)
    transform: str = Field(min_length=1)


class _SpecPromoted(Section):
    model_config = ConfigDict(strict=True)

    name: str = Field(min_length=1)
    source: str = Field(min_length=1)


class _SpecDocument(Section):
    """Content of the file. Strict, so that an unquoted `on` is an error and not a column called True."""

    model_config = ConfigDict(strict=True)

    version: Literal[1]
    table: str = Field(min_length=1)
    partition: list[_SpecPartField]
    sort: list[str]
    zorder: list[str]
    promoted: list[_SpecPromoted]
    bloom_filters: list[str]
    target_file_bytes: int | None = Field(ge=1)
    properties: dict[str, str]

    @model_validator(mode="after")
    def _check_order(self) -> _SpecDocument:
        if self.sort and self.zorder:
            raise ValueError("should have sort or zorder, not both")
        return self


def format_spec(spec: TableSpec) -> str:
    """Render the file of a spec; equal specs have equal files."""
    layout = spec.layout
    document = {
        "version": 1,
        "table": spec.table,
        "partition": [_InlineMap(asdict(field)) for field in layout.partition],
        "sort": _InlineList(layout.sort),
        "zorder": _InlineList(layout.zorder),
        "promoted": [_InlineMap(asdict(column)) for column in layout.promoted],
        "bloom_filters": _InlineList(layout.blooms),
        "target_file_bytes": layout.target_file_bytes,
        "properties": dict(sorted(spec.properties)),
    }
    return SPEC_HEADER + yaml.dump(document, Dumper=_SpecDumper, sort_keys=False, allow_unicode=True, width=math.inf)


def parse_spec(text: str, name: str = "the spec") -> TableSpec:
    """Parse the file of a spec.

    Raises `ConfigError` with the position and the reason.
    """
    found = _parse_yaml(text, name)
    try:
        document = _SpecDocument.model_validate(found)
    except ValidationError as error:
        raise ConfigError(
            f"{name} is not a table's spec: {'; '.join(_format_error(one) for one in error.errors())}",
            hint="quote names such as on, no and null, and numbers",
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


def spec_has_layout(text: str | None, table: str, layout: Layout) -> bool:
    """Return whether a file exists, parses, and has this layout for the table."""
    spec = _parse_spec_or_none(text)
    return spec is not None and spec.table == table and spec.layout == layout


def replace_layout(text: str | None, table: str, layout: Layout) -> str:
    """Return the file with another layout; its properties are preserved."""
    spec = _parse_spec_or_none(text)
    return format_spec(TableSpec(table, layout, spec.properties if spec else ()))


def _parse_spec_or_none(text: str | None) -> TableSpec | None:
    try:
        return None if text is None else parse_spec(text)
    except ConfigError:
        return None


class _InlineList(list[str]):
    """Names on one line, so that a diff shows the key under which a name was added or removed."""


class _InlineMap(dict[str, str]):
    """A map on one line."""


class _SpecDumper(yaml.SafeDumper):
    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Represent a text.

        A text with any Unicode line break is quoted, because it would otherwise be read back as a space.
        """
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')

    def represent_names(self, names: _InlineList) -> yaml.SequenceNode:
        """Represent names on one line."""
        return self.represent_sequence("tag:yaml.org,2002:seq", names, flow_style=True)

    def represent_line(self, line: _InlineMap) -> yaml.MappingNode:
        """Represent a map on one line."""
        return self.represent_mapping("tag:yaml.org,2002:map", line, flow_style=True)


_SpecDumper.add_representer(str, _SpecDumper.represent_text)
_SpecDumper.add_representer(_InlineList, _SpecDumper.represent_names)
_SpecDumper.add_representer(_InlineMap, _SpecDumper.represent_line)


class _SpecLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a map.

        Raises an error for a duplicate key, because otherwise the last one would win silently.
        """
        names = [str(key.value) for key, _value in node.value]
        twice = {one for one in names if names.count(one) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"duplicate key {min(twice)!r}", node.start_mark)
        return super().construct_mapping(node, deep)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node.

        Raises an error for an alias, because aliases let a small file expand to a huge one.
        """
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", self.get_mark())
        return super().compose_node(parent, index)


def _parse_yaml(text: str, name: str) -> object:
    if len(text) > MAX_SPEC_CHARACTERS:
        raise ConfigError(f"{name} has {len(text)} characters, expected at most {MAX_SPEC_CHARACTERS}")
    try:
        return yaml.load(text, _SpecLoader)  # noqa: S506 - a SafeLoader that takes less
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(f"{name} is not YAML (line {mark.line + 1 if mark else 1}): {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is not YAML: {type(error).__name__}") from None


def _format_error(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    said = error["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else str(said)
