"""What is asked over HTTP: a JSON object of known keys, checked before anything is done with it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from neve.api.query.strict import read_model
from neve.query.request import Request, TimeRange

if TYPE_CHECKING:
    from neve.lake.scopes import Caller

MAX_BODY_BYTES = 1_000_000
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
    return read_model(body, Question)
