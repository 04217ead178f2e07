"""Policies as they are written: in the settings, in a folder of YAML files, or by a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import TypeAdapter, ValidationError

from neve.errors import ConfigError
from neve.work.policies import Policies
from neve.work.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_core import ErrorDetails

PATTERNS = ("*.yaml", "*.yml")
KEY = "policies"
_LIST = TypeAdapter(tuple[Policy, ...])


def gathered(settings: Sequence[Policy], folder: str, defaults: Policy) -> Policies:
    """The policies of the settings, then those of a folder's files in the order of their names."""
    found = [("the settings", policy) for policy in settings]
    found += [(str(path), policy) for path in _files(folder) for policy in read_file(path)]
    _check_names(found)
    return Policies(tuple(policy for _where, policy in found), defaults)


def read_file(path: Path) -> tuple[Policy, ...]:
    """The policies of a file: a list of them, one alone, or either below the key `policies`."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.context_mark or error.problem_mark
        line = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{path} is not YAML{line}", hint="a text that begins with * needs quotes") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML in UTF-8: {type(error).__name__}") from None
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None
    if isinstance(value, dict) and set(value) == {KEY}:
        value = value[KEY]
    return read_policies([value] if isinstance(value, dict) else value, str(path))


def read_policies(value: object, where: str) -> tuple[Policy, ...]:
    """Policies of plain values; raises `ConfigError` that names the place, the policy, the key and the value."""
    if value is None:
        return ()
    try:
        return _LIST.validate_python(value)
    except ValidationError as error:
        raise ConfigError("\n".join(_complaints(error, value, where))) from None


def _files(folder: str) -> list[Path]:
    if not folder:
        return []
    if not Path(folder).is_dir():
        raise ConfigError(f"policies_folder is {folder!r}, expected a folder of YAML files")
    return sorted((path for pattern in PATTERNS for path in Path(folder).glob(pattern)), key=lambda path: path.name)


def _check_names(found: Sequence[tuple[str, Policy]]) -> None:
    first: dict[str, str] = {}
    for where, policy in found:
        if policy.name in first:
            raise ConfigError(
                f"{where}: policy {policy.name!r} is in {first[policy.name]} already, expected another name"
            )
        first[policy.name] = where


def _complaints(error: ValidationError, value: object, where: str) -> Iterator[str]:
    """One line for each thing that is wrong."""
    for detail in error.errors(include_url=False, include_context=False):
        place = place_of(detail["loc"], value)
        yield f"{where}: {place}: {_what(detail)}" if place else f"{where}: {_what(detail)}"


def place_of(keys: Sequence[int | str], value: object) -> str:
    """Where something is in a list of policies: the policy by its name, where it has one.

    >>> place_of((0, "tasks", "compact", "cron"), [{"name": "nightly"}])
    "policy 'nightly': tasks.compact.cron"
    """
    if not keys:
        return ""
    first, *others = keys
    one = value[first] if isinstance(value, list | tuple) and isinstance(first, int) else None
    name = one.get("name") if isinstance(one, dict) else None
    policy = f"policy {name!r}" if isinstance(name, str) else f"policy {first}"
    rest = ".".join(str(key) for key in others if key != "[key]")
    return f"{policy}: {rest}" if rest else policy


def _what(detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return "unknown key"
    if detail["type"] == "missing":
        return "is missing"
    given: Any = detail["input"]
    shown = type(given).__name__ if isinstance(given, dict | list) else repr(given)
    expected = detail["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    return f"got {shown}, which {expected[0].lower()}{expected[1:]}"
