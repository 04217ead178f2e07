"""The composition root: settings in, parts out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.ingest.watch.places import Places
from neve.lake.bus_config import check_bus
from neve.lake.catalog import sqlite_path
from neve.lake.lake import Lake
from neve.lake.paths import OwnFolders
from neve.lake.redis_documents import RedisDocuments
from neve.lake.sql_bus import SqlBus
from neve.lake.sql_documents import SqlDocuments
from neve.lake.state import State

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.compact.compactor import Compactor
    from neve.lake.bus import Bus
    from neve.lake.documents import Documents

SQLITE_BESIDE = ("-wal", "-shm", "-journal")


def build_lake(settings: Settings) -> Lake:
    """The lake that the settings describe."""
    return Lake(settings.lake, settings.catalog, settings.s3, settings.spark)


def build_state(settings: Settings) -> State:
    """The state store that the settings describe; nothing is opened before it is used."""
    return State(settings.state)


def build_documents(settings: Settings) -> Documents:
    """The documents that processes share, in the store that the settings describe; whoever asks closes them."""
    if settings.state.documents:
        return RedisDocuments(settings.state.documents, settings.state.documents_password)
    return SqlDocuments(build_state(settings))


def build_own_folders(settings: Settings, lake: Lake) -> OwnFolders:
    """What only Neve itself reads: it holds rows of every organization."""
    state = str(settings.state.file or "")
    catalog = str(sqlite_path(settings.catalog)) if settings.catalog.kind == "sqlite" else ""
    files = [file + ending for file in (state, catalog) if file for ending in ("", *SQLITE_BESIDE)]
    folders = (lake.lake.location, settings.raw.location, settings.ingest.checkpoints, lake.exchange.folder)
    return OwnFolders((*(_absolute(folder) for folder in folders), *files))


def build_places(settings: Settings, lake: Lake) -> Places:
    """Where each organization may announce files; raises `ConfigError` for a place in the lake itself."""
    own = build_own_folders(settings, lake)
    for organization, places in settings.watch.places.items():
        for place in places:
            if own.holds(place):
                raise ConfigError(
                    f"watch.places has {place!r} of {organization}, which is in a folder of the lake itself; "
                    f"expected a place outside of {', '.join(own.folders)}",
                    hint="files there hold rows of every organization, and are never ingested again",
                )
    return Places(settings.watch.places, own)


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).expanduser().resolve())


def build_bus(settings: Settings) -> Bus:
    """The bus that commits are announced on; whoever asks closes it."""
    check_bus(settings.bus)
    if settings.bus.kind == "kafka":
        from neve.lake.kafka_bus import KafkaBus  # noqa: PLC0415 - for those who have the client

        return KafkaBus(settings.bus)
    return SqlBus(build_state(settings), settings.bus)


def build_compactor(settings: Settings, lake: Lake) -> Compactor:
    """The compactor of a lake; what organizations may spend stands in the policies."""
    from neve.app.policies import build_policy_store, compact_budgets  # noqa: PLC0415 - for those who tend
    from neve.compact.compactor import Compactor  # noqa: PLC0415 - Spark's worth of imports, for those who compact

    documents = build_documents(settings)
    return Compactor(
        lake,
        documents=documents,
        config=settings.compact,
        prices=settings.prices,
        budgets=compact_budgets(build_policy_store(settings, documents).load()),
    )
