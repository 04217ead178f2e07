"""What the paths of the query API answer with, as data: the answers are made of it, and so is their description."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from neve.query.running import Running


class Document(BaseModel):
    """An answer, made of an object of the query room."""

    model_config = ConfigDict(from_attributes=True)

    @property
    def plain(self) -> dict[str, Any]:
        """As values of JSON."""
        return self.model_dump(mode="json")


class ErrorDocument(Document):
    """What is wrong."""

    code: str = Field(description="a short name that does not change")
    message: str = Field(description="what failed, for people")
    hint: str | None = Field(description="what to do about it")
    limit: str | None = Field(description="which limit it is: concurrency, memory, seconds, scan_bytes or rows")


class FailureDocument(Document):
    """The answer to a request that failed."""

    error: ErrorDocument
    id: str | None = Field(description="the query that it is about")


class ScanDocument(Document):
    """One table of a statement."""

    table: str
    snapshot: int | None = Field(description="the snapshot that was read")
    files: int = Field(description="files that were read")
    bytes: int = Field(description="their bytes")
    pruned_files: int = Field(description="files that did not have to be read")
    pruned_bytes: int = Field(description="their bytes")
    predicate: str = Field(description="the condition that files were told apart by")


class StatisticsDocument(Document):
    """What an answer took."""

    scans: list[ScanDocument]
    engine: str = Field(description="duckdb or spark")
    cache: str = Field(description="hit, miss or off")
    rollup: str = Field(description="the table of rolled-up points that the answer comes from, if any")
    rows: int
    planning_seconds: float
    seconds: float
    partial: bool = Field(description="whether files were left out that could not be read")
    truncated: bool = Field(description="whether rows were left out that `limit` was too small for")
    notes: list[str] = Field(description="what was decided, and why")
    files: int
    bytes: int
    pruned_files: int
    pruned_bytes: int


class ResultColumn(Document):
    """A column of a result."""

    name: str
    type: str = Field(description="as Arrow calls it")


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


class ColumnDocument(Document):
    """A column of a table."""

    name: str
    type: str = Field(description="as Iceberg calls it")
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
    earliest: datetime | None = Field(description="the first time in it")
    latest: datetime | None = Field(description="the last time in it")
    columns: list[ColumnDocument]


class TablesDocument(Document):
    """The tables."""

    tables: list[TableDocument]


class QueryDocument(Document):
    """A query that runs or ended lately."""

    id: str
    state: str = Field(description="running, done, failed or cancelled")
    sql: str
    key_id: str = Field(description="the key that it was asked with")
    started: datetime
    error: str = Field(description="why it failed")
    statistics: StatisticsDocument


class QueriesDocument(Document):
    """Queries that run."""

    queries: list[QueryDocument]


def query_document(running: "Running") -> QueryDocument:
    """A query as it is now."""
    return QueryDocument(
        id=running.id,
        state=running.state,
        sql=running.sql,
        key_id=running.key_id,
        started=running.started,
        error=running.error,
        statistics=StatisticsDocument.model_validate(running.statistics.as_document()),
    )
