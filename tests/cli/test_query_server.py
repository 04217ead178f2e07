"""`neve query --server`: what the server says, also when it says it late or not at all."""

from __future__ import annotations

import io
import socket
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.query.config import QueryConfig
from neve.query.service import QueryService
from tests.api.querying import serving
from tests.cli.runner import run
from tests.query.lakes import make_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Fails behind the first rows: a batch is a million of them.
LATE = "SELECT CASE WHEN i < 5000000 THEN 1 ELSE CAST('no ' || i AS INTEGER) END AS n FROM range(6000000) AS r(i)"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[str]:
    """A server of a lake."""
    service = QueryService(make_lake(tmp_path_factory.mktemp("far")), QueryConfig(threads=1))
    with serving(service) as client:
        yield f"http://127.0.0.1:{client.port}"
    service.close()


def test_an_answer(config: str, address: str) -> None:
    """Comes as one of this process does, cut off where that is asked for."""
    ended = run(
        "-c",
        config,
        "query",
        "--server",
        address,
        "SELECT n FROM range(9) AS r(n)",
        "--json",
        "--limit",
        "1",
        "--fresh",
    )
    assert (ended.code, ended.json) == (0, {"n": 0})
    timed = run("-c", config, "query", "--server", address, "SELECT 1", "--timing")
    assert "duckdb" in timed.errors


def test_an_error_behind_the_first_rows_is_said(config: str, address: str, tmp_path: Path) -> None:
    """In the words of the server, which knows why."""
    ended = run("-c", config, "query", "--server", address, LATE, "-o", str(tmp_path / "out.csv"))
    assert ended.code == 1
    assert (
        f"error: {address} closed the connection during the response: Conversion Error: Could not convert string 'no 5"
        in ended.errors
    )


def test_a_server_that_dies_behind_the_first_rows_is_said(config: str, tmp_path: Path) -> None:
    """There is nobody to ask for the reason."""
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, pa.schema([("n", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch({"n": list(range(1000))}))
    body = stream.getvalue()[:-1000]
    reply = b"HTTP/1.1 200 OK\r\nNeve-Query-Id: 1\r\nContent-Length: 99999\r\n\r\n" + body
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_reply_once, args=(listening, reply), daemon=True).start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        ended = run("-c", config, "query", "--server", address, "SELECT 1", "-o", str(tmp_path / "out.csv"))
    assert ended.code == 1
    assert f"error: {address} closed the connection during the response: " in ended.errors
    assert "hint: retry" in ended.errors


def _reply_once(listening: socket.socket, reply: bytes) -> None:
    connection, _ = listening.accept()
    listening.close()
    with connection:
        connection.recv(65_536)
        connection.sendall(reply)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("http://127.0.0.1:99999", "--server is 'http://127.0.0.1:99999', expected http://HOST:PORT"),
        ("127.0.0.1:x", "--server is '127.0.0.1:x', expected http://HOST:PORT"),
        ("ftp://127.0.0.1", "--server is 'ftp://127.0.0.1', expected http://HOST:PORT"),
        ("http://", "--server is 'http://', expected http://HOST:PORT"),
    ],
)
def test_an_address_that_is_none_is_said(config: str, given: str, words: str) -> None:
    """With what was expected."""
    ended = run("-c", config, "query", "--server", given, "SELECT 1")
    assert ended.code == 1
    assert words in ended.errors


def test_whose_rows_a_server_gives_is_the_keys_matter(config: str, address: str) -> None:
    """So an organization beside it is refused, and not passed over."""
    ended = run("-c", config, "query", "--server", address, "--org", "other", "SELECT 1")
    assert ended.code == 1
    assert "--org is 'other', expected none together with --server" in ended.errors
