"""Ways to ask a ClickHouse server: its HTTP interface and its native one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.autopilot.sources.clickhouse import ClickHouseLog
from neve.errors import EnvironmentFault, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.autopilot.sources.config import ClickHouseConfig

SECONDS = 60


def clickhouse_log(config: ClickHouseConfig) -> ClickHouseLog:
    """The query log of the server that is configured."""
    ask = _http if config.interface == "http" else _native

    def rows(statement: str) -> Iterator[Sequence[Any]]:
        return ask(config, statement)

    return ClickHouseLog(rows, f"{config.host}:{config.port}", config.cluster)


def _http(config: ClickHouseConfig, statement: str) -> Iterator[Sequence[Any]]:
    try:
        from clickhouse_connect import get_client  # noqa: PLC0415 - an extra
        from clickhouse_connect.driver.exceptions import ClickHouseError  # noqa: PLC0415
    except ImportError:
        raise _missing("clickhouse-connect") from None
    try:
        client = get_client(
            host=config.host,
            port=config.port,
            username=config.user,
            password=config.password.get_secret_value(),
            secure=config.tls,
            connect_timeout=SECONDS,
        )
        try:
            with client.query_rows_stream(statement) as stream:
                yield from stream
        finally:
            client.close()
    except (ClickHouseError, OSError) as error:
        raise _failed(config, error) from error


def _native(config: ClickHouseConfig, statement: str) -> Iterator[Sequence[Any]]:
    try:
        from clickhouse_driver import Client  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
        from clickhouse_driver.errors import Error  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise _missing("clickhouse-driver") from None
    client = Client(
        config.host,
        port=config.port,
        user=config.user,
        password=config.password.get_secret_value(),
        secure=config.tls,
        connect_timeout=SECONDS,
        client_name="neve-autopilot",
    )
    try:
        yield from client.execute_iter(statement)
    except (Error, OSError, EOFError) as error:
        raise _failed(config, error) from error
    finally:
        client.disconnect()


def _missing(package: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"asking ClickHouse needs the package {package}, which is not installed", hint="pip install 'neve[clickhouse]'"
    )


def _failed(config: ClickHouseConfig, error: Exception) -> InputError:
    words = (str(error).splitlines() or [""])[0][:200]
    return InputError(
        f"can't read system.query_log of {config.host}:{config.port} ({config.interface}): {words}",
        hint="check autopilot.logs.clickhouse, and that the server has a <query_log> section",
    )
