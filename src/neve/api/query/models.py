"""Request and response models of the query API, and strict validation of JSON bodies.

The OpenAPI description is built from the same models.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from neve.api.query.errors import Failure
from neve.query.request import Request, TimeRange, split_zone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.query.execution import RunningQuery
    from neve.state.scopes import Caller


LONGEST_SHOWN = 80
Model = TypeVar("Model", bound=BaseModel)


def read_model(body: bytes, model: type[Model]) -> Model:
    """Parse a body; raises `Failure` with the key, the value and what was expected."""
    document = parse_json(body)
    if not isinstance(document, dict):
        raise bad_request(f"the body is {format_value(document)}, expected a JSON object")
    return validate_document(document, model)


def validate_document(document: Mapping[str, Any], model: type[Model]) -> Model:
    """Validate the keys and values; raises `Failure` about the first wrong one."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise _describe_error(document, str(first["loc"][0]), first["type"], model) from None


def parse_json(body: bytes) -> Any:
    """Parse the JSON of a body; raises `Failure`."""
    try:
        document = json.loads(body.decode(), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
        json.dumps(document, ensure_ascii=False).encode()  # lone surrogates are valid text until they are encoded
    except UnicodeError:
        raise bad_request("the body is not valid UTF-8") from None
    except RecursionError:
        raise bad_request("the body is nested too deeply") from None
    except ValueError as error:
        raise bad_request(f"the body is not JSON: {error}") from None
    return document


def bad_request(message: str, hint: str | None = None) -> Failure:
    """Return the failure of an invalid request."""
    return Failure(400, "bad_request", message, hint=hint)


def format_value(value: object) -> str:
    """Return a value as it was sent; a long one is truncated."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _reject_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _reject_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def _describe_error(document: Mapping[str, Any], key: str, kind: str, model: type[BaseModel]) -> Failure:
    if kind == "extra_forbidden":
        near = get_close_matches(key, model.model_fields, n=1)
        hint = f"did you mean {near[0]!r}?" if near else None
        return bad_request(f"unknown key {format_value(key)}, expected one of {', '.join(model.model_fields)}", hint)
    expected = model.model_fields[key].description
    if key not in document:
        return bad_request(f"{key} is missing, expected {expected}")
    return bad_request(f"{key} is {format_value(document[key])}, expected {expected}")


MAX_BODY_BYTES = 1_000_000
MAX_QUESTIONS = 10
RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)

Format = Literal["json", "jsonl", "csv", "parquet", "arrow", "columns"]
Scalar = str | int | float | bool | None


def parse_time(value: object) -> datetime | None:
    """Parse an RFC 3339 time to UTC; raises `ValueError` for anything else.

    >>> parse_time("2026-01-01T01:00:00+01:00").isoformat()
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


UtcTime = Annotated[
    datetime | None,
    BeforeValidator(parse_time),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
]


class Question(BaseModel):
    """One statement with its parameters, time range and limits."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    sql: str = Field(min_length=1, description="one read-only statement in DuckDB's SQL dialect", examples=["SELECT 1"])
    parameters: list[Scalar] | dict[str, Scalar] = Field(
        default_factory=list,
        description="a list of values for `?` or `$1`, or an object of values for `$name`: strings, numbers, booleans "
        "and nulls",
    )
    since: UtcTime = Field(None, description="an RFC 3339 time with a time zone; rows before it are excluded")
    until: UtcTime = Field(None, description="an RFC 3339 time with a time zone; rows at or after it are excluded")
    format: Format | None = Field(
        None, description="one of json, jsonl, csv, parquet, arrow, columns; null: from the header `Accept`, else json"
    )
    limit: int | None = Field(
        None, ge=1, le=2**53, description="a maximum number of rows, from 1; more rows are cut off"
    )
    timeout_seconds: float | None = Field(
        None,
        gt=0,
        le=86_400,
        description="a timeout in seconds, up to 86400; the server's limit applies too",
    )
    partial: bool = Field(False, description="a boolean: skip files that can't be read")
    timezone: str = Field(
        "UTC",
        max_length=64,
        description="the name of a time zone, such as Europe/Berlin, for times without a zone, days and times of the "
        "result",
    )
    fresh: bool = Field(False, description="a boolean: bypass the result cache")

    def request(self, caller: Caller, *, is_from_page: bool = False) -> Request:
        """Return the request for the query service."""
        zone, sql = split_zone(self.sql)
        return Request(
            sql=sql,
            organization=caller.organization,
            parameters=self.parameters,
            time=TimeRange(self.since, self.until),
            limit=self.limit,
            timeout_seconds=self.timeout_seconds,
            partial=self.partial,
            fresh=self.fresh,
            key_id=caller.key_id,
            time_zone=zone or self.timezone,
            is_from_page=is_from_page,
        )


class Questions(BaseModel):
    """Several statements, which run one after the other."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    questions: list[Question] = Field(
        min_length=1, max_length=MAX_QUESTIONS, description=f"a list of 1 to {MAX_QUESTIONS} questions of `/query`"
    )


def read_question(body: bytes) -> Question:
    """Parse the query of a body; raises `Failure` with the key, the value and what was expected."""
    return read_model(body, Question)


class Document(BaseModel):
    """An answer, made of an object of the query room."""

    model_config = ConfigDict(from_attributes=True)

    @property
    def plain(self) -> dict[str, Any]:
        """Return the document as JSON values."""
        return self.model_dump(mode="json")


class ErrorDocument(Document):
    """An error."""

    code: str = Field(description="stable error code")
    message: str = Field(description="description of the error")
    hint: str | None = Field(description="remedy")
    limit: str | None = Field(description="exceeded limit: concurrency, memory, seconds, scan_bytes or rows")


class FailureDocument(Document):
    """The response to a failed request."""

    error: ErrorDocument
    id: str | None = Field(description="id of the query")


class ScanDocument(Document):
    """One table of a statement."""

    table: str
    snapshot: int | None = Field(description="snapshot that was read")
    files: int = Field(description="files that were read")
    bytes: int = Field(description="their bytes")
    pruned_files: int = Field(description="files that were skipped")
    pruned_bytes: int = Field(description="their bytes")
    predicate: str = Field(description="condition that selected the files")


class StatisticsDocument(Document):
    """Statistics of a query."""

    scans: list[ScanDocument]
    engine: str = Field(description="duckdb or spark")
    cache: str = Field(description="hit, miss or off")
    rollup: str = Field(description="rollup table that answered the query, if any")
    rows: int
    planning_seconds: float
    seconds: float
    partial: bool = Field(description="whether unreadable files were skipped")
    truncated: bool = Field(description="whether rows beyond `limit` were cut off")
    notes: list[str] = Field(description="decisions of the planner with reasons")
    files: int
    bytes: int
    pruned_files: int
    pruned_bytes: int


class ResultColumn(Document):
    """A column of a result."""

    name: str
    type: str = Field(description="Arrow type")


class AnswerDocument(Document):
    """A result as JSON; one that failed in the middle has `error` in the place of `statistics`."""

    id: str
    columns: list[ResultColumn]
    rows: list[list[Any]] = Field(
        description="values in the order of the columns: ids as hex, times as RFC 3339, maps as objects, and numbers "
        'that JSON lacks as "NaN", "Infinity" and "-Infinity"'
    )
    statistics: StatisticsDocument | None = None
    error: ErrorDocument | None = None


class ColumnsDocument(Document):
    """A result as columns; one that failed has `error`."""

    id: str | None
    columns: list[ResultColumn] = Field(default_factory=list)
    pieces: list[list[list[Any]]] = Field(
        default_factory=list, description="parts of the result: each has the values of every column"
    )
    statistics: StatisticsDocument | None = None
    error: ErrorDocument | None = None


class ResultsDocument(Document):
    """The results of several statements, in their order. One that failed does not end the others."""

    results: list[ColumnsDocument]


class ColumnDocument(Document):
    """A column of a table."""

    name: str
    type: str = Field(description="Iceberg type")
    comment: str
    required: bool


class TableDocument(Document):
    """A table."""

    name: str
    comment: str
    rows: int
    files: int
    bytes: int
    snapshot: int | None
    earliest: datetime | None = Field(description="earliest time")
    latest: datetime | None = Field(description="latest time")
    columns: list[ColumnDocument]


class TablesDocument(Document):
    """The tables."""

    tables: list[TableDocument]


class QueryDocument(Document):
    """One query that is running or ended recently."""

    id: str
    state: str = Field(description="running, done, failed or cancelled")
    sql: str
    key_id: str = Field(description="API key of the caller")
    started: datetime
    error: str = Field(description="error message")
    statistics: StatisticsDocument


class QueriesDocument(Document):
    """Running queries."""

    queries: list[QueryDocument]


def query_document(running: RunningQuery) -> QueryDocument:
    """Return the current state of a query."""
    return QueryDocument(
        id=running.id,
        state=running.state,
        sql=running.sql,
        key_id=running.key_id,
        started=running.started,
        error=running.error,
        statistics=StatisticsDocument.model_validate(running.statistics.as_document()),
    )
