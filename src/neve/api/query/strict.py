"""JSON that strangers send: an object of known keys, checked before anything is done with it."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from neve.api.query.errors import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_SHOWN = 80
Model = TypeVar("Model", bound=BaseModel)


def read_model(body: bytes, model: type[Model]) -> Model:
    """What a body says; raises `Failure` with the key, the value and what was expected."""
    document = parse(body)
    if not isinstance(document, dict):
        raise bad(f"the body is {shown(document)}, expected a JSON object")
    return checked(document, model)


def checked(document: Mapping[str, Any], model: type[Model]) -> Model:
    """Known keys with right values; raises `Failure` about the first that is not."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise _complaint(document, str(first["loc"][0]), first["type"], model) from None


def parse(body: bytes) -> Any:
    """The JSON of a body; raises `Failure`."""
    try:
        document = json.loads(body.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
        json.dumps(document, ensure_ascii=False).encode()  # half a character passes as text until it is written
    except UnicodeError:
        raise bad("the body has a character that is no text, expected UTF-8") from None
    except RecursionError:
        raise bad("the body is nested too deeply") from None
    except ValueError as error:
        raise bad(f"the body is no JSON: {error}") from None
    return document


def bad(message: str, hint: str | None = None) -> Failure:
    """A request that is wrong in itself."""
    return Failure(400, "bad_request", message, hint=hint)


def shown(value: object) -> str:
    """A value as it was sent, or the beginning of one that is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _complaint(document: Mapping[str, Any], key: str, kind: str, model: type[BaseModel]) -> Failure:
    if kind == "extra_forbidden":
        near = get_close_matches(key, model.model_fields, n=1)
        hint = f"did you mean {near[0]!r}?" if near else None
        return bad(f"unknown key {shown(key)}, expected one of {', '.join(model.model_fields)}", hint)
    expected = model.model_fields[key].description
    if key not in document:
        return bad(f"{key} is missing, expected {expected}")
    return bad(f"{key} is {shown(document[key])}, expected {expected}")
