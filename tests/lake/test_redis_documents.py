"""The address of a Redis and its errors, which hold no secret; and what it is left with."""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from redis import Redis as RedisClient

from neve.app.settings import Settings
from neve.app.wiring import build_documents
from neve.errors import ConfigError, EnvironmentFault, LakeError
from neve.state.config import RedisAddress, StateConfig, parse_redis_url
from neve.state.redis_documents import RedisDocuments
from neve.state.sql_documents import SqlDocuments
from neve.state.sqlite_documents import SqliteDocuments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.parts.redis import Redis

SECRET = "hunter2"  # noqa: S105 - a secret that is not one
PASSWORD = SecretStr(SECRET)


@contextmanager
def answering(words: bytes) -> Iterator[str]:
    """A server that says the same to whatever it is asked; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                while connection.recv(4096):
                    connection.sendall(words)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"
    thread.join()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://cache", RedisAddress("cache", 6379, 0, secure=False)),
        ("redis://cache/", RedisAddress("cache", 6379, 0, secure=False)),
        ("redis://cache:6380/12", RedisAddress("cache", 6380, 12, secure=False)),
        ("redis://[::1]:6380/1", RedisAddress("::1", 6380, 1, secure=False)),
        ("rediss://cache/2", RedisAddress("cache", 6379, 2, secure=True)),
        (
            "rediss://cache?ssl_ca_certs=%2Fetc%2Fca.pem",
            RedisAddress("cache", 6379, 0, secure=True, authority="/etc/ca.pem"),
        ),
    ],
)
def test_the_address_is_read_in_parts(url: str, address: RedisAddress) -> None:
    """With the usual port and the first database where it says none."""
    assert parse_redis_url(url) == address


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}@cache/0",
        f"rediss://u:{SECRET}@cache/0",
        f"redis://u:{SECRET}/x@cache/0",
        f"u:{SECRET}@cache",
        f"redis{SECRET}@cache",
        f"redis://cache/0?password={SECRET}",
        f"rediss://cache/0?username={SECRET}",
        f"rediss://cache/0?{SECRET}",
        f"redis://cache/0#{SECRET}",
        f"redis://[{SECRET}/0",
        "redis://cache/0?ssl_ca_certs=ca.pem",
        "redis://cache/zero",
        "redis://cache/-1",
        "redis://cache/1_0",
        "redis://cache/0/1",
        "redis:///0",
        "redis://cache:port/0",
        "unix:///run/redis.sock",
        "postgresql://db/neve",
        "cache",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_secrets(url: str) -> None:
    """Before anything is opened, with the key that a password has."""
    documents = RedisDocuments(url, PASSWORD)
    with pytest.raises(ConfigError, match=r"state\.documents is .+, expected redis://host:port/database") as caught:
        documents.get("plans", "k")
    assert SECRET not in str(caught.value)
    assert "state.documents_password" in str(caught.value)


def test_a_server_that_does_not_answer_is_said_without_secrets() -> None:
    """Which store it was, what the client says, and what to look at; whatever was asked of it."""
    documents = RedisDocuments("redis://127.0.0.1:9/0", PASSWORD)
    uses = (
        lambda: documents.put("plans", "k", {}),
        lambda: documents.get("plans", "k"),
        lambda: documents.delete("plans", "k"),
        lambda: documents.swap("plans", "k", None, {}),
        lambda: list(documents.entries("plans")),
        documents.now,
    )
    for use in uses:
        with pytest.raises(LakeError, match=r"the document store \(redis://127.0.0.1:9/0\) failed: Conn") as caught:
            use()
        assert SECRET not in str(caught.value)
        assert "state.documents_password" in str(caught.value.hint)


def test_a_server_that_repeats_the_password_is_not_repeated() -> None:
    """Neither in the error nor in what led to it."""
    with answering(f"-ERR unknown command 'AUTH', with args beginning with: '{SECRET}'\r\n".encode()) as url:
        documents = RedisDocuments(url, PASSWORD)
        with pytest.raises(LakeError, match="unknown command 'AUTH'") as caught:
            documents.get("plans", "k")
        documents.close()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_server_of_another_kind_is_said() -> None:
    """In one line."""
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        documents = RedisDocuments(url)
        with pytest.raises(LakeError, match="failed: InvalidResponse"):
            documents.get("plans", "k")
        documents.close()


def test_a_machine_without_the_client_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(EnvironmentFault, match="needs the package redis, which is not installed") as caught:
        RedisDocuments("redis://cache/0").get("plans", "k")
    assert caught.value.hint == "pip install 'neve[redis]'"


@pytest.mark.parts
def test_a_password_opens_the_store(redis: Redis) -> None:
    """A wrong one and none are refused, and not said."""
    with RedisClient.from_url(redis.uri) as admin:
        admin.config_set("requirepass", SECRET)
        try:
            right = RedisDocuments(redis.uri, PASSWORD)
            right.put("plans", "k", {"n": 1})
            assert right.get("plans", "k") == {"n": 1}
            right.close()
            for wrong in (SecretStr("hunter3"), None):
                refused = RedisDocuments(redis.uri, wrong)
                with pytest.raises(LakeError, match="failed: Authentication") as caught:
                    refused.get("plans", "k")
                assert "hunter" not in str(caught.value)
                refused.close()
        finally:
            admin.config_set("requirepass", "")


@pytest.mark.parts
def test_a_connection_that_was_cut_costs_no_answer(redis: Redis) -> None:
    """The next use opens another one, and the script of a swap is sent anew."""
    documents = RedisDocuments(redis.uri)
    documents.put("plans", "k", {"n": 1})
    with RedisClient.from_url(redis.uri) as admin:
        admin.client_kill_filter(_type="normal", skipme=True)
        admin.script_flush()
    assert documents.swap("plans", "k", {"n": 1}, {"n": 2})
    assert documents.get("plans", "k") == {"n": 2}
    documents.close()


@pytest.mark.parts
def test_what_is_forgotten_leaves_nothing(redis: Redis) -> None:
    """Neither a value nor a key, whichever way it went."""
    documents = RedisDocuments(redis.uri)
    with RedisClient.from_url(redis.uri) as admin:
        admin.flushall()
        for key in ("deleted", "swapped"):
            documents.put("plans", key, {})
        assert admin.dbsize() == 2
        documents.delete("plans", "deleted")
        assert documents.swap("plans", "swapped", {}, None)
        assert admin.dbsize() == 0
    documents.close()


def test_the_settings_say_where_documents_are() -> None:
    """In the file or on the server of the state store, unless a Redis is named."""
    assert isinstance(build_documents(Settings()), SqliteDocuments)
    server = StateConfig(url="postgresql://db/neve")
    assert isinstance(build_documents(Settings(state=server)), SqlDocuments)
    redis = StateConfig(documents="redis://cache/0", documents_password=PASSWORD)
    assert isinstance(build_documents(Settings(state=redis)), RedisDocuments)
    assert SECRET not in repr(redis)
