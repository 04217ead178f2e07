"""Read a collector's YAML: parse it as the collector does, expand variables, and find the `tail_sampling` section.

`on` and `no` are texts, `1e3` is a number, a time is text, and a duplicate key is an error. Variables are
${env:NAME}, ${env:NAME:-default} and ${NAME}, and $$ is a dollar. The file is a whole configuration,
`tail_sampling:`, or its body alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from neve.errors import ConfigError
from neve.tail.policy.config.problems import format_value, join_path

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from pathlib import Path

    from neve.tail.policy.config.problems import ConfigProblems


MAX_DEPTH = 64  # of a text from the network; the deepest policy files that people write have about 12
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
        """Construct a map, or raise an error if a key is duplicate."""
        seen: set[str] = set()
        for key, _value in node.value:
            name = str(key.value)
            if name in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {name!r}", key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    digits = text.lstrip("+-")
    if digits.startswith("0") and digits.isdigit() and len(digits) > 1:
        text = text.replace("0", "0o", 1)  # octal numbers as in C
    return int(text, 0)


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).replace("_", "").lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


for _name, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)


def parse_yaml(text: str) -> Any:
    """Parse a YAML text.

    Raises `yaml.YAMLError`.
    """
    return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader with fewer kinds of scalars


def read_document(path: Path) -> dict[str, Any]:
    """Read the keys and values of a file.

    Raises `ConfigError`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {type(error).__name__}") from None
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None
    return read_text(text, str(path))


def read_text(text: str, source: str) -> dict[str, Any]:
    """Read the keys and values of a text; `source` names it in messages.

    Raises `ConfigError`.
    """
    try:
        document = parse_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{source} is not YAML{line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not UTF-8: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{source} has {type(document).__name__} at the top, expected the collector's tail_sampling")
    return document


def find_expensive_part(text: str) -> str:
    """Return what would make a short text expensive to read, or nothing.

    An alias makes it a large document. The time that PyYAML needs grows with the square of the nesting, so that this
    stops reading where a text is nested too deeply.
    """
    depth = 0
    try:
        for event in yaml.parse(text, _Loader):
            if isinstance(event, yaml.AliasEvent):
                return "have an alias (*name), expected its value instead"
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                return f"are nested more than {MAX_DEPTH} levels deep"
    except yaml.YAMLError:  # reading the document reports it
        return ""
    return ""


_VARIABLE = re.compile(r"\$\$|\$\{([^{}]*)\}")
_NAME = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL
)


def expand_variables(value: Any, environment: Mapping[str, str], path: str, problems: ConfigProblems) -> Any:
    """Expand variables in a value, where a value of a single variable gets the type of the variable's text."""
    if isinstance(value, dict):
        return {
            key: expand_variables(each, environment, join_path(path, str(key)), problems) for key, each in value.items()
        }
    if isinstance(value, list):
        return [expand_variables(each, environment, join_path(path, at), problems) for at, each in enumerate(value)]
    if not isinstance(value, str):
        return value
    if not _is_unicode(value):
        problems.wrong(path, value, "text in Unicode")
    whole = _VARIABLE.fullmatch(value)
    if whole and whole[1] is not None:
        return _parse_scalar(_look_up_variable(whole[1], environment, path, problems))
    return _VARIABLE.sub(lambda found: _replace_match(found, environment, path, problems), value)


def _replace_match(found: re.Match[str], environment: Mapping[str, str], path: str, problems: ConfigProblems) -> str:
    return "$" if found[1] is None else _look_up_variable(found[1], environment, path, problems)


def _look_up_variable(reference: str, environment: Mapping[str, str], path: str, problems: ConfigProblems) -> str:
    parts = _NAME.fullmatch(reference)
    if parts is None or parts["scheme"] not in (None, "env"):
        problems.add(path, f"got ${{{reference}}}, expected a variable of the environment such as ${{env:NAME}}")
        return ""
    found: str | None = environment.get(parts["name"], parts["default"])
    if found is None:
        problems.add(path, f"the variable {parts['name']} of ${{{reference}}} is not set, and there is no default")
        return ""
    return found


def _is_unicode(text: str) -> bool:
    """Return whether a text is valid Unicode, as YAML can contain lone surrogates, which no table can store."""
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)


def _parse_scalar(text: str) -> Any:
    try:
        return parse_yaml(text)
    except yaml.YAMLError:
        return text


PROCESSOR = "tail_sampling"
PROCESSORS = "processors"
POLICIES = "policies"


def find_body(document: Mapping[str, Any], processor: str | None, problems: ConfigProblems) -> tuple[Any, str]:
    """Return the keys and values of the processor, and their path."""
    path = ""
    if isinstance(document.get(PROCESSORS), dict):
        document, path = document[PROCESSORS], PROCESSORS
    names = [name for name in document if name == PROCESSOR or str(name).startswith(f"{PROCESSOR}/")]
    if processor is not None:
        return _find_processor(document, processor, names, path, problems)
    if len(names) == 1:
        return document[names[0]] or {}, join_path(path, names[0])
    if names:
        problems.add(path, f"several tail samplers: {', '.join(names)}; name one of them")
    elif path:
        problems.add(path, f"no {PROCESSOR} among the processors {', '.join(map(str, document))}")
    return ({}, path) if names or path else (document, "")


def _find_processor(
    document: Mapping[str, Any], processor: str, names: list[str], path: str, problems: ConfigProblems
) -> tuple[Any, str]:
    if processor not in names:
        problems.add(path, f"there is no {processor!r}; there are {', '.join(names) or 'no tail samplers'}")
        return {}, path
    return document[processor] or {}, join_path(path, processor)


def is_valid_body(body: Any, path: str, problems: ConfigProblems) -> bool:
    """Return whether the body can be read, and add a problem if not."""
    if problems.lines:
        return False
    if not isinstance(body, dict):
        problems.add(path, f"got {format_value(body)}, expected keys and values")
    elif not isinstance(body.get(POLICIES), list):
        found = "missing" if POLICIES not in body else f"got {format_value(body[POLICIES])}"
        problems.add(join_path(path, POLICIES), f"{found}, expected a list of policies")
    else:
        return True
    return False
