"""Stores of documents: the behaviours in this folder hold for each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest
from redis import Redis as RedisClient

from neve.app.settings import Settings
from neve.app.wiring import build_documents
from neve.state.config import StateConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from neve.state.documents import Documents
    from tests.parts.postgres import Postgres
    from tests.parts.redis import Redis

_numbers = itertools.count()
# For a process of its own, which is to start quickly: what `opened` does here.
OPENED = """
import json
import sys
from types import SimpleNamespace
from neve.app.wiring import build_documents
from neve.state.config import StateConfig
documents = build_documents(SimpleNamespace(state=StateConfig(**json.loads(sys.argv[1]))))
"""


def opened(config: StateConfig) -> Documents:
    """The documents of a store, as the commands open them."""
    return build_documents(Settings(state=config))


def argument(config: StateConfig) -> str:
    """A store in words for a process of its own."""
    return config.model_dump_json(exclude={"password", "documents_password"})


def sqlite(folder: Path, _part: None) -> StateConfig:
    """The embedded default."""
    return StateConfig(path=str(folder / "deep" / "state.db"))


def postgres(_folder: Path, part: Postgres) -> StateConfig:
    """A database of its own, whose language does not order words by code point where the server knows one."""
    database = f"documents{next(_numbers)}"
    connection = psycopg2.connect(host=part.host, port=part.port, user=part.user, dbname="postgres")
    connection.autocommit = True
    with connection.cursor() as cursor:
        try:
            cursor.execute(f'CREATE DATABASE "{database}" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE "en-US"')
        except psycopg2.Error:  # built without ICU
            cursor.execute(f'CREATE DATABASE "{database}"')
    connection.close()
    return StateConfig(url=f"postgresql://{part.host}:{part.port}/{database}", user=part.user)


def redis(folder: Path, part: Redis) -> StateConfig:
    """An empty Redis; API keys stay in a file."""
    with RedisClient.from_url(part.uri) as client:
        client.flushall()
    return StateConfig(path=str(folder / "state.db"), documents=part.uri)


STORES: dict[str, Callable[[Path, Any], StateConfig]] = {"sqlite": sqlite, "postgres": postgres, "redis": redis}


@pytest.fixture(
    params=["sqlite", *(pytest.param(name, marks=pytest.mark.parts) for name in ("postgres", "redis"))],
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateConfig:
    """A store that nobody has used yet."""
    part = None if request.param == "sqlite" else request.getfixturevalue(request.param)
    return STORES[request.param](tmp_path, part)


@pytest.fixture
def documents(store: StateConfig) -> Iterator[Documents]:
    """Its documents, closed at the end."""
    found = opened(store)
    yield found
    found.close()
