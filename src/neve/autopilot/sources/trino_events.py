"""Trino's event listener: completed queries as JSON, from files or a topic."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neve.autopilot.parse.moments import moment_of
from neve.autopilot.parse.prepared import filled
from neve.autopilot.sources.lines import documents, files_of
from neve.autopilot.sources.record import LoggedQuery, TableRead, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.sources.record import Record

ENGINE = "trino"
READING = {"", "SELECT", "INSERT", "DELETE", "UPDATE", "MERGE"}


@dataclass(frozen=True)
class TrinoEvents:
    """Files or folders of events, one JSON object a line."""

    place: str
    catalog: str = ""

    @property
    def name(self) -> str:
        """For reports."""
        return f"trino events {self.place}"

    def queries(self, since: datetime) -> Iterator[Record]:
        """Completed queries since a moment; events of other kinds are passed over."""
        for file in files_of(self.place, since):
            for number, document in documents(file):
                if isinstance(document, Unreadable):
                    yield document
                    continue
                record = logged(document, self.catalog, f"{file.name}:{number}")
                if isinstance(record, Unreadable) or (record is not None and record.at >= since):
                    yield record


def logged(event: dict[str, Any], catalog: str, where: str) -> Record | None:
    """The query of an event; `None` for an event that is not about a query that ended."""
    event = _unwrapped(event)
    metadata, inputs = event.get("metadata"), event.get("ioMetadata")
    if not isinstance(metadata, dict) or not isinstance(inputs, dict):
        return None  # created, or a split
    try:
        return _logged(event, metadata, inputs, catalog)
    except (KeyError, TypeError, ValueError, AttributeError):
        return Unreadable("no event of a completed query", where)


def _logged(event: dict[str, Any], metadata: dict[str, Any], inputs: dict[str, Any], catalog: str) -> LoggedQuery:
    context, statistics = event.get("context") or {}, event.get("statistics") or {}
    kind = str(context.get("queryType") or "")
    return LoggedQuery(
        query_id=str(metadata["queryId"]),
        engine=ENGINE,
        at=moment(event["createTime"]),
        text=filled(str(metadata["query"]), str(metadata.get("preparedQuery") or "")),
        dialect=ENGINE,
        catalog=str(context.get("catalog") or ""),
        schema=str(context.get("schema") or ""),
        only_catalog=catalog,
        finished=metadata.get("queryState") == "FINISHED",
        seconds=_seconds(event, statistics),
        bytes_read=statistics.get("physicalInputBytes"),
        reads=tuple(_reads(inputs.get("inputs") or [])),
        left_out="" if kind in READING else "no query",
    )


def moment(value: Any) -> datetime:
    """A time of an event: text, or seconds since 1970 as older listeners write it."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    found = moment_of(str(value))
    if found is None:
        raise ValueError(value)
    return found


def _unwrapped(event: dict[str, Any]) -> dict[str, Any]:
    """The Kafka listener puts the event into a payload."""
    inner = event.get("eventPayload")
    return inner if isinstance(inner, dict) else event


def _seconds(event: dict[str, Any], statistics: dict[str, Any]) -> float | None:
    if "endTime" in event:
        return (moment(event["endTime"]) - moment(event["createTime"])).total_seconds()
    wall = statistics.get("wallTime")
    return float(wall) if isinstance(wall, int | float) else None


def _reads(inputs: list[dict[str, Any]]) -> Iterator[TableRead]:
    """What was read of each table; one that is read in several places has several inputs."""
    sums: dict[tuple[str, ...], TableRead] = {}
    for one in inputs:
        table = (str(one["catalogName"]), str(one["schema"]), str(one["table"]))
        known = sums.get(table, TableRead(table, None, None))
        named = [column["name"] if isinstance(column, dict) else column for column in one.get("columns") or []]
        sums[table] = TableRead(
            table,
            _sum(known.bytes, one.get("physicalInputBytes")),
            _sum(known.rows, one.get("physicalInputRows")),
            tuple(dict.fromkeys((*known.columns, *map(str, named)))),
        )
    yield from sums.values()


def _sum(before: int | None, more: Any) -> int | None:
    return before if more is None else (before or 0) + int(more)
