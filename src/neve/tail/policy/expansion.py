"""Variables in a collector's configuration: ${env:NAME}, ${env:NAME:-default}, ${NAME}, and $$ for a dollar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from neve.tail.policy.complaints import joined
from neve.tail.policy.yaml_text import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.tail.policy.complaints import Complaints

_VARIABLE = re.compile(r"\$\$|\$\{([^{}]*)\}")
_NAME = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL
)


def expand(value: Any, environment: Mapping[str, str], path: str, complaints: Complaints) -> Any:
    """A value with its variables filled in; one that is nothing but a variable has the type that its text reads as."""
    if isinstance(value, dict):
        return {key: expand(each, environment, joined(path, str(key)), complaints) for key, each in value.items()}
    if isinstance(value, list):
        return [expand(each, environment, joined(path, at), complaints) for at, each in enumerate(value)]
    if not isinstance(value, str):
        return value
    if not _is_unicode(value):
        complaints.wrong(path, value, "text in Unicode")
    whole = _VARIABLE.fullmatch(value)
    if whole and whole[1] is not None:
        return _as_yaml(_look_up(whole[1], environment, path, complaints))
    return _VARIABLE.sub(lambda found: _fill(found, environment, path, complaints), value)


def _fill(found: re.Match[str], environment: Mapping[str, str], path: str, complaints: Complaints) -> str:
    return "$" if found[1] is None else _look_up(found[1], environment, path, complaints)


def _look_up(reference: str, environment: Mapping[str, str], path: str, complaints: Complaints) -> str:
    parts = _NAME.fullmatch(reference)
    if parts is None or parts["scheme"] not in (None, "env"):
        complaints.add(path, f"got ${{{reference}}}, expected a variable of the environment such as ${{env:NAME}}")
        return ""
    found: str | None = environment.get(parts["name"], parts["default"])
    if found is None:
        complaints.add(path, f"the variable {parts['name']} of ${{{reference}}} is not set, and there is no default")
        return ""
    return found


def _is_unicode(text: str) -> bool:
    """YAML can say halves of characters, which no table holds."""
    return not any(0xD800 <= ord(character) < 0xE000 for character in text)


def _as_yaml(text: str) -> Any:
    try:
        return parse(text)
    except yaml.YAMLError:
        return text
