"""What a Trino coordinator still remembers of its queries: texts and times, for minutes to hours, no bytes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

from neve.autopilot.parse.prepared import filled
from neve.autopilot.sources.record import LoggedQuery
from neve.errors import EnvironmentFault, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.autopilot.sources.config import TrinoConfig
    from neve.autopilot.sources.record import Record

ENGINE = "trino"
MOST_ROWS = 1_000  # at a time
STATEMENT = """/* neve:autopilot */
SELECT query_id, state, query, created, date_diff('millisecond', created, "end") / 1000.0
FROM system.runtime.queries WHERE created >= from_unixtime(?)"""


@dataclass(frozen=True)
class TrinoRuntime:
    """`system.runtime.queries` of a coordinator."""

    config: TrinoConfig

    @property
    def name(self) -> str:
        """For reports."""
        return f"trino {self.config.host}:{self.config.port}"

    def queries(self, since: datetime) -> Iterator[Record]:
        """The queries since a moment; the schema that names without one were looked for in is not told."""
        connection = _connect(self.config)
        from trino.exceptions import Error, TrinoConnectionError, TrinoQueryError  # noqa: PLC0415 - an extra

        try:
            cursor = connection.cursor()
            cursor.execute(STATEMENT, (since.timestamp(),))
            while rows := cursor.fetchmany(MOST_ROWS):
                yield from (self._record(row) for row in rows)
        except (Error, TrinoConnectionError, TrinoQueryError, OSError) as error:
            raise InputError(
                f"can't read system.runtime.queries of {self.name}: {type(error).__name__}",
                hint="check autopilot.logs.trino.host, port, user and password",
            ) from error

    def _record(self, row: list[Any]) -> LoggedQuery:
        query_id, state, text, created, seconds = row
        return LoggedQuery(
            query_id=str(query_id),
            engine=ENGINE,
            at=created.astimezone(UTC),
            text=filled(str(text)),
            dialect=ENGINE,
            catalog=self.config.catalog,
            only_catalog=self.config.catalog,
            finished=state == "FINISHED",
            seconds=None if seconds is None else float(seconds),
        )


def _connect(config: TrinoConfig) -> Any:
    try:
        from trino.auth import BasicAuthentication  # noqa: PLC0415 - an extra
        from trino.dbapi import connect  # noqa: PLC0415
    except ImportError:
        raise EnvironmentFault(
            "asking Trino needs the package trino, which is not installed", hint="pip install 'neve[trino]'"
        ) from None
    password = config.password.get_secret_value()
    return connect(  # type: ignore[no-untyped-call]
        host=config.host,
        port=config.port,
        user=config.user,
        source="neve-autopilot",
        http_scheme="https" if config.tls else "http",
        auth=BasicAuthentication(config.user, password) if password else None,
        request_timeout=60,
    )
