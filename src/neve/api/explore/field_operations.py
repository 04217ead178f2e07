"""Operations about fields of records, their values, records over time and near one, and their models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from neve.api.control.operations import QueryParameters
from neve.api.explore.operations import LogDocument, RangeQuery, read_operation
from neve.api.query.errors import Failure
from neve.api.query.models import Document, UtcTime, parse_json
from neve.explore.fields import FIELD_COLUMNS, MAX_BARS, MAX_FIELDS, MAX_GROUPS, MAX_VALUES, SAMPLED_RECORDS
from neve.explore.nearby_logs import MAX_NEARBY

if TYPE_CHECKING:
    from neve.api.query.operations import Operation

__all__ = ["FIELD_OPERATIONS", "FieldsQuery", "HistogramQuery", "NearbyQuery", "ValuesQuery"]

MOST_FIELDS = 10  # of one request
LONGEST_FIELD = 500
COLUMNS = "; ".join(f"of {table}: {', '.join(names)}" for table, names in FIELD_COLUMNS.items())


def _parse(text: str) -> Any:
    try:
        return parse_json(text.encode())
    except Failure as error:
        raise ValueError(error.message) from error


def check_parameters(text: str) -> str:
    """Return the text of a JSON object of scalars."""
    values = _parse(text)
    if not isinstance(values, dict) or not all(isinstance(one, str | int | float | None) for one in values.values()):
        raise ValueError("not an object of values")
    return text


def check_names(text: str) -> str:
    """Return the text of a JSON array of names of fields."""
    names = _parse(text)
    if not isinstance(names, list) or not 1 <= len(names) <= MOST_FIELDS:
        raise ValueError("not an array of names")
    if not all(isinstance(one, str) and 0 < len(one) <= LONGEST_FIELD for one in names):
        raise ValueError("not an array of names")
    return text


class FieldsQuery(RangeQuery):
    """Records of a table within a range that a condition selects."""

    table: Literal["logs", "spans", "metrics"] = Field("logs", description="one of logs, spans, metrics")
    where: str = Field("", max_length=20_000, description="a condition in SQL; empty: every record")
    parameters: Annotated[str, AfterValidator(check_parameters)] = Field(
        "{}", max_length=20_000, description="a JSON object of values for `$name` in the condition"
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the program."""
        return self.model_dump(mode="json")


class ValuesQuery(FieldsQuery):
    """Fields whose values are counted."""

    fields: Annotated[str, AfterValidator(check_names)] = Field(
        description=f"a JSON array of 1 to {MOST_FIELDS} names: columns ({COLUMNS}), or else attributes"
    )
    limit: int = Field(20, ge=1, le=MAX_VALUES, description=f"a maximum number of values, from 1 to {MAX_VALUES}")

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the program."""
        return {**super().arguments, "fields": json.loads(self.fields)}


class HistogramQuery(FieldsQuery):
    """Records over time."""

    since: UtcTime = Field(description="an RFC 3339 time with a time zone; records before it are excluded")
    until: UtcTime = Field(description="an RFC 3339 time with a time zone; records at or after it are excluded")
    by: str = Field("", max_length=LONGEST_FIELD, description=f"a column to group by ({COLUMNS}); empty: none")
    bars: int = Field(120, ge=1, le=MAX_BARS, description=f"a maximum number of bars, from 1 to {MAX_BARS}")


class NearbyQuery(QueryParameters):
    """The time of a log, and the number of logs on each side of it."""

    time: UtcTime = Field(description="the RFC 3339 time of the log")
    service: str | None = Field(None, max_length=1000, description="the name of the only service; empty: logs without")
    limit: int = Field(10, ge=1, le=MAX_NEARBY, description=f"a number of logs, from 1 to {MAX_NEARBY}")


class AttributeDocument(Document):
    """An attribute that records have."""

    kind: Literal["attribute", "resource"]
    name: str
    records: int = Field(description="records of the sample that have it")


class FieldsDocument(Document):
    """Fields of records."""

    table: str
    columns: list[str] = Field(description="columns whose values can be counted")
    attributes: list[AttributeDocument] = Field(description="the most frequent first")
    sampled: int = Field(description=f"at most so many records were read: {SAMPLED_RECORDS}")
    more: bool = Field(description=f"whether there are more than {MAX_FIELDS} attributes")


class ValueDocument(Document):
    """A value, cut at 200 characters; null: records without the column."""

    value: str | None
    records: int


class FieldValuesDocument(Document):
    """Values of one field, the most frequent first."""

    field: str
    values: list[ValueDocument]
    more: bool = Field(description="whether there are more values than `limit`")


class ValuesDocument(Document):
    """Values of fields."""

    table: str
    fields: list[FieldValuesDocument]


class BarsDocument(Document):
    """Records with one value, by bar."""

    value: str | None
    records: list[int]


class HistogramDocument(Document):
    """Records over time, by the values of a column."""

    table: str
    start_unix_seconds: int = Field(description="beginning of the first bar")
    step_seconds: int = Field(description="length of a bar")
    bars: int
    groups: list[BarsDocument] = Field(description=f"the {MAX_GROUPS} largest")
    left_out: int = Field(description="records of other values")


class NearbyDocument(Document):
    """Logs before and after one, in the order of time."""

    record_id: str
    since: str = Field(description="15 minutes before the log; earlier logs are not searched")
    until: str = Field(description="15 minutes after the log; later logs are not searched")
    before: list[LogDocument]
    after: list[LogDocument]


FIELD_OPERATIONS: tuple[Operation, ...] = (
    read_operation("/fields", "listFields", "Columns and attributes of records", FieldsDocument, query=FieldsQuery),
    read_operation(
        "/fields/values", "countValues", "Values of fields with their counts", ValuesDocument, query=ValuesQuery
    ),
    read_operation("/histogram", "countOverTime", "Records over time", HistogramDocument, query=HistogramQuery),
    read_operation(
        "/logs/{record_id}/nearby", "listNearbyLogs", "Logs before and after one", NearbyDocument, query=NearbyQuery
    ),
)
