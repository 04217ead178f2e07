"""One Spark for a process group: lent by who tends, borrowed by the API."""

from __future__ import annotations

import socket
from typing import Any, cast

import pytest

from neve.api.ports import find_free_port
from neve.app.serve import spark_sharing
from neve.app.serve.parts import build_parts
from neve.app.serve.spark_sharing import (
    MOST_REQUESTS,
    PLUGIN,
    PLUGINS,
    PORT,
    START_PORT_VARIABLE,
    TOKEN_VARIABLE,
    is_spark_shared,
    listen_for_start_requests,
    new_connect_token,
    request_spark,
    with_connect_server,
    with_remote_spark,
)
from neve.app.settings import Settings
from neve.errors import EnvironmentFault, LakeError, QueryCancelled
from neve.lake.config import LakeConfig, SparkConfig
from neve.lake.lake import Lake

ALL = ("receiver", "api", "tend")


def with_section(section: str, **values: object) -> Settings:
    """Settings of which some differ from the defaults."""
    plain = Settings()
    return plain.model_copy(update={section: getattr(plain, section).model_copy(update=values)})


@pytest.mark.parametrize(
    ("settings", "processes", "shared"),
    [
        (Settings(), ALL, True),
        (Settings(), ("api", "receiver"), False),
        (Settings(), ("receiver", "tend"), False),
        (with_section("query", spark_bytes=0), ALL, False),
        (with_section("spark", connect="sc://cluster:15002"), ALL, False),
        (with_section("spark", master="spark://cluster:7077"), ALL, True),
    ],
)
def test_a_group_shares_its_spark_where_there_is_one_and_someone_asks(
    settings: Settings, processes: tuple[str, ...], shared: bool
) -> None:
    """Whoever named a server has it already."""
    assert is_spark_shared(settings, processes) is shared


def test_who_lends_keeps_what_the_user_set() -> None:
    """Further plugins too."""
    lake = Lake(spark_config=SparkConfig(conf={PLUGINS: "a.Plugin", "spark.x": "1"}))
    conf = with_connect_server(lake, 4711).spark_config.conf
    assert (conf[PLUGINS], conf[PORT], conf["spark.x"]) == (f"a.Plugin,{PLUGIN}", "4711", "1")


def test_no_secret_is_in_the_settings_of_who_lends() -> None:
    """They stand on a command line; the word is in the environment, another one for each start."""
    word = new_connect_token()[TOKEN_VARIABLE]
    assert len(word) > 30
    assert word != new_connect_token()[TOKEN_VARIABLE]
    assert word not in str(with_connect_server(Lake(), 4711).spark_config)


def test_who_borrows_leaves_results_where_they_would_be() -> None:
    """On this machine for an embedded Spark, though the tables are elsewhere."""
    lake = Lake(lake=LakeConfig(warehouse="s3://bucket/lake"))
    with_it = with_remote_spark(lake, 4711)
    assert with_it.spark_config.connect == "sc://localhost:4711"
    assert with_it.exchange.folder == lake.exchange.folder
    cluster = Lake(lake=LakeConfig(warehouse="s3://bucket/lake"), spark_config=SparkConfig(master="spark://c:7077"))
    assert with_remote_spark(cluster, 4711).exchange.folder == cluster.exchange.folder


class Sparks:
    """A lake that counts how often its Spark is asked for, and may fail to start it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked = 0
        self.error = error

    @property
    def spark(self) -> None:
        """Start it."""
        self.asked += 1
        if self.error:
            raise self.error


def go_on() -> None:
    """Have no reason to give up."""


def listen(monkeypatch: pytest.MonkeyPatch, lake: Sparks) -> int:
    """Serve requests for the lake's Spark, with the token `word`."""
    port = find_free_port()
    monkeypatch.setenv(START_PORT_VARIABLE, str(port))
    monkeypatch.setenv(TOKEN_VARIABLE, "word")
    assert listen_for_start_requests(cast("Lake", lake)) is not None
    return port


def test_a_request_starts_spark_and_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every session that is opened later asks again: the worker process may have been restarted."""
    lake = Sparks()
    port = listen(monkeypatch, lake)
    for asked in (1, 2):
        request_spark(port, "word", go_on)
        assert lake.asked == asked


def test_a_caller_without_the_token_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other users of the machine reach the port, too."""
    lake = Sparks()
    port = listen(monkeypatch, lake)
    for token in ("", "other", "word and more", "w" * 100_000):
        with pytest.raises(LakeError):
            request_spark(port, token, go_on)
    assert lake.asked == 0


@pytest.mark.parametrize(
    ("error", "expected"),
    [(EnvironmentFault("no Java was found"), "no Java was found"), (ValueError("secret"), "did not start: ValueError")],
)
def test_the_reason_of_a_failed_start_reaches_the_query(
    monkeypatch: pytest.MonkeyPatch, error: Exception, expected: str
) -> None:
    """Without details of errors that are not meant for users."""
    port = listen(monkeypatch, Sparks(error))
    with pytest.raises(LakeError, match=expected):
        request_spark(port, "word", go_on)


def test_a_query_that_is_cancelled_does_not_wait_for_spark() -> None:
    """Its timeout ends the wait in the same way."""
    checks = 0

    def check() -> None:
        nonlocal checks
        checks += 1
        if checks == 3:
            raise QueryCancelled("the query was cancelled")

    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(QueryCancelled):
        request_spark(silent.getsockname()[1], "word", check)


def test_a_spark_that_does_not_start_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker process may hang."""
    monkeypatch.setattr(spark_sharing, "START_SECONDS", 0)
    monkeypatch.setattr(spark_sharing, "CHECK_SECONDS", 0.01)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(LakeError, match="does not respond: timed out"),
    ):
        request_spark(silent.getsockname()[1], "word", go_on)


def test_connections_that_fail_do_not_end_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than may be open at once, as when the process has too many open files."""
    failures = iter(range(MOST_REQUESTS + 1))

    class Door(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            client, address = super().accept()
            if next(failures, None) is None:
                return client, address
            client.close()
            raise OSError("too many open files")

    def create(address: tuple[str, int], **_further: object) -> socket.socket:
        door = Door()
        door.bind(address)
        door.listen()
        return door

    monkeypatch.setattr(spark_sharing, "PAUSE_SECONDS", 0)
    with monkeypatch.context() as patch:
        patch.setattr(socket, "create_server", create)
        port = listen(monkeypatch, lake := Sparks())
    for _attempt in range(MOST_REQUESTS + 1):
        with pytest.raises(LakeError):
            request_spark(port, "word", go_on)
    request_spark(port, "word", go_on)
    assert lake.asked == 1


def test_a_worker_process_that_is_away_is_named() -> None:
    """It is being restarted."""
    with pytest.raises(LakeError, match="does not respond"):
        request_spark(find_free_port(), "word", go_on)


def test_a_borrowing_lake_asks_for_spark_before_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was started alone asks nobody."""
    monkeypatch.delenv(START_PORT_VARIABLE, raising=False)
    assert with_remote_spark(Lake(), 4711).request_spark is None
    monkeypatch.setenv(START_PORT_VARIABLE, str(find_free_port()))
    with pytest.raises(LakeError, match="Spark of this service does not respond"):
        with_remote_spark(Lake(), 4711).new_session({})


@pytest.mark.parametrize("part", ["ingest", "compact"])
def test_a_missing_java_is_reported_at_the_start(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though Spark starts later, with the first data."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentFault, match="no Java was found"):
        build_parts(Settings(), Lake(), [part], "host-1")


def test_parts_without_spark_need_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler only queues jobs."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert [part.name for part in build_parts(Settings(), Lake(), ["scheduler"], "host-1")] == [
        "announcer",
        "scheduler",
    ]
