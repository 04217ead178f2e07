"""What is wrong with a configuration, in words: the key, the value, what was expected, the nearest right key."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, SecretStr

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

HIDDEN = "********"


def complain(
    root: type[BaseModel], error: ValidationError, file: str, origins: Mapping[tuple[str, ...], str]
) -> Iterator[str]:
    """One line for each thing that is wrong."""
    for detail in error.errors(include_url=False, include_context=False):
        keys = tuple(str(part) for part in detail["loc"])
        yield f"{_where(keys, file, origins)}: {_what(root, keys, detail)}"


def _where(keys: tuple[str, ...], file: str, origins: Mapping[tuple[str, ...], str]) -> str:
    for set_keys, variable in origins.items():
        shared = min(len(keys), len(set_keys))
        if keys[:shared] == set_keys[:shared]:
            return variable
    return f"{file}: {'.'.join(keys)}"


def _what(root: type[BaseModel], keys: tuple[str, ...], detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return f"unknown key {keys[-1]!r}{_nearest(root, keys)}"
    if _section(root, keys):
        return f"got {type(detail['input']).__name__}, expected keys and values"
    value = HIDDEN if _is_secret(root, keys) else _shown(detail["input"])
    expected = detail["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    return f"got {value}, which {expected[0].lower()}{expected[1:]}"


def _shown(value: object) -> str:
    """A value as it was written; of a list or a map only that it is one, for what is in it may be secret."""
    return type(value).__name__ if isinstance(value, dict | list) else repr(value)


def _nearest(root: type[BaseModel], keys: tuple[str, ...]) -> str:
    section = _section(root, keys[:-1])
    known = list(section.model_fields) if section else []
    near = difflib.get_close_matches(keys[-1], known, n=1, cutoff=0.6)
    if near:
        return f", did you mean {near[0]!r}?"
    return f", expected one of {', '.join(known)}" if known else ""


def _section(root: type[BaseModel], keys: tuple[str, ...]) -> type[BaseModel] | None:
    section: Any = root
    for key in keys:
        field = section.model_fields.get(key)
        section = field.annotation if field else None
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            return None
    found: type[BaseModel] = section
    return found


def _is_secret(root: type[BaseModel], keys: tuple[str, ...]) -> bool:
    """Whether a value is a secret, or would hold one: a text in the place of a map of secrets is shown to nobody."""
    found: Any = root
    for key in keys:
        field = next((model.model_fields[key] for model in _models_in(found) if key in model.model_fields), None)
        found = field.annotation if field else found  # the number of an item, or the key of a map
    return SecretStr.__name__ in str(found)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
