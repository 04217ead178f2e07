"""YAML as the collector reads it: `on` and `no` are words, `1e3` is a number, a time is text, no key stands twice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

_RESOLVERS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0b[0-1_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?", "-+0123456789."),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("merge", r"<<", "<"),
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own name for it

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A map; raises where a key stands twice."""
        seen: set[str] = set()
        for key, _value in node.value:
            name = str(key.value)
            if name in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} stands twice", key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    digits = text.lstrip("+-")
    if digits.startswith("0") and digits.isdigit() and len(digits) > 1:
        text = text.replace("0", "0o", 1)  # as C writes octal numbers
    return int(text, 0)


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).replace("_", "").lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


for _name, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)


def parse(text: str) -> Any:
    """What a YAML text says; raises `yaml.YAMLError`."""
    return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader with fewer kinds of scalars


def read_document(path: Path) -> dict[str, Any]:
    """The keys and values of a file; raises `ConfigError`."""
    try:
        document = parse(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{path} is not YAML{line}: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML in UTF-8: {type(error).__name__}") from None
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path} holds {type(document).__name__}, expected the collector's tail_sampling")
    return document
