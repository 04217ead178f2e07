"""The values of `neve.yaml` and of `NEVE_…` variables as one tree, before they are validated.

Imports YAML only where there is something to parse, so that a command without a configuration file starts faster.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "NEVE_"
NESTED = "__"
CONFIG_FILE = "neve.yaml"
# Variables that configure the process, and are not keys of the tree.
NOT_KEYS = ("NEVE_CONFIG", "NEVE_CACHE", "NEVE_OUTSIDE")


@dataclass(frozen=True)
class GivenValues:
    """Values that a user set, the file, and the variables by the keys that they set."""

    values: dict[str, Any]
    file: Path
    origins: dict[tuple[str, ...], str]


def read_values(path: str | None = None, environment: Mapping[str, str] = os.environ) -> GivenValues:
    """Read the file and the variables, which override it; raises `ConfigError` if one of them can't be parsed."""
    file = config_file(path, environment)
    values = _read_file(file, required=bool(path or environment.get("NEVE_CONFIG")))
    overrides = _read_environment(environment)
    for keys, value, variable in overrides:
        _set_value(values, keys, value, variable)
    return GivenValues(values, file, {keys: variable for keys, _value, variable in overrides})


def config_file(path: str | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the configuration file: the given one, otherwise `neve.yaml` if that exists."""
    return Path(path or environment.get("NEVE_CONFIG") or CONFIG_FILE)


def _read_file(path: Path, *, required: bool) -> dict[str, Any]:
    if not path.exists():
        if required:
            raise ConfigError(f"the configuration file {path} does not exist")
        return {}
    import yaml  # noqa: PLC0415 - see above

    try:
        values = yaml.safe_load(path.read_text())
    except yaml.MarkedYAMLError as error:
        # The error's own message quotes the line, which may contain a secret.
        mark = error.context_mark or error.problem_mark
        raise ConfigError(f"{path} is not YAML{f' (line {mark.line + 1})' if mark else ''}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not UTF-8: {type(error).__name__}") from None
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {type(values).__name__}, expected keys and values")
    return _without_nulls(values)


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    """Remove keys without a value: they count as not set, for example a section whose lines are all commented out."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value is not None
    }


def _read_environment(environment: Mapping[str, str]) -> list[tuple[tuple[str, ...], Any, str]]:
    found = []
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in NOT_KEYS:
            keys = tuple(variable.removeprefix(PREFIX).lower().split(NESTED))
            found.append((keys, _parse_value(text, variable), variable))
    return found


def _parse_value(text: str, variable: str) -> Any:
    """Return a text unchanged, or parsed if it looks like a list or a map."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    import yaml  # noqa: PLC0415 - see above

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{variable} looks like a list or a map, but is not valid YAML or JSON") from None


def _set_value(values: dict[str, Any], keys: tuple[str, ...], value: Any, variable: str) -> None:
    *above, last = keys
    for key in above:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{variable} sets a key below {key}, but {key} has a plain value in the file")
    values[last] = value
