"""What is asked over HTTP: a JSON object of known keys, checked before anything is done with it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from neve.api.query.errors import Failure
from neve.query.request import Request, TimeRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.scopes import Caller

MAX_BODY_BYTES = 1_000_000
LONGEST_SHOWN = 80
RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)

Format = Literal["json", "jsonl", "csv", "parquet", "arrow"]
Scalar = str | int | float | bool | None


def moment(value: object) -> datetime | None:
    """A time of RFC 3339 in UTC; raises `ValueError` for anything else.

    >>> moment("2026-01-01T01:00:00+01:00").isoformat()
    '2026-01-01T00:00:00+00:00'
    """
    if value is None:
        return None
    if not isinstance(value, str) or not RFC_3339.fullmatch(value):
        raise ValueError("not a time of RFC 3339")
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("no such time in UTC") from error


Moment = Annotated[
    datetime | None,
    BeforeValidator(moment),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
]


class Question(BaseModel):
    """One statement, and within which bounds it is to be answered."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    sql: str = Field(min_length=1, description="one statement that reads, in DuckDB's SQL", examples=["SELECT 1"])
    parameters: list[Scalar] | dict[str, Scalar] = Field(
        default_factory=list,
        description="a list of values for `?` or `$1`, or an object of values for `$name`: texts, numbers, booleans "
        "and nulls",
    )
    since: Moment = Field(None, description="a time of RFC 3339 with its zone: rows before it are left out")
    until: Moment = Field(None, description="a time of RFC 3339 with its zone: rows from it on are left out")
    format: Format | None = Field(
        None, description="one of json, jsonl, csv, parquet, arrow; null: what the header `Accept` says, else json"
    )
    limit: int | None = Field(None, ge=1, le=2**53, description="rows, from 1, that the result is cut off after")
    timeout_seconds: float | None = Field(
        None,
        gt=0,
        le=86_400,
        description="seconds, up to 86400, that the answer may take; the server's limit holds too",
    )
    partial: bool = Field(False, description="a boolean: whether files that can't be read may be left out")
    fresh: bool = Field(False, description="a boolean: whether the result must not be one that was kept")

    def request(self, caller: Caller) -> Request:
        """The question as the query room takes it."""
        return Request(
            sql=self.sql,
            organization=caller.organization,
            parameters=self.parameters,
            time=TimeRange(self.since, self.until),
            limit=self.limit,
            timeout_seconds=self.timeout_seconds,
            partial=self.partial,
            fresh=self.fresh,
            key_id=caller.key_id,
        )


def read_question(body: bytes) -> Question:
    """The question in a body; raises `Failure` with the key, the value and what was expected."""
    document = _parse(body)
    if not isinstance(document, dict):
        raise _bad(f"the body is {_shown(document)}, expected a JSON object")
    try:
        return Question.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise _complaint(document, str(first["loc"][0]), first["type"]) from None


def _parse(body: bytes) -> Any:
    try:
        document = json.loads(body.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
        json.dumps(document, ensure_ascii=False).encode()  # half a character passes as text until it is written
    except UnicodeError:
        raise _bad("the body has a character that is no text, expected UTF-8") from None
    except RecursionError:
        raise _bad("the body is nested too deeply") from None
    except ValueError as error:
        raise _bad(f"the body is no JSON: {error}") from None
    return document


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _complaint(document: dict[str, Any], key: str, kind: str) -> Failure:
    if kind == "extra_forbidden":
        near = get_close_matches(key, Question.model_fields, n=1)
        hint = f"did you mean {near[0]!r}?" if near else None
        return _bad(f"unknown key {_shown(key)}, expected one of {', '.join(Question.model_fields)}", hint)
    expected = Question.model_fields[key].description
    if key not in document:
        return _bad(f"{key} is missing, expected {expected}")
    return _bad(f"{key} is {_shown(document[key])}, expected {expected}")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _bad(message: str, hint: str | None = None) -> Failure:
    return Failure(400, "bad_request", message, hint=hint)
