"""The composition root: settings in, parts out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.lake import Lake
from neve.lake.redis_documents import RedisDocuments
from neve.lake.sql_documents import SqlDocuments
from neve.lake.state import State

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.compact.compactor import Compactor
    from neve.lake.documents import Documents


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


def build_compactor(settings: Settings, lake: Lake) -> Compactor:
    """The compactor of a lake."""
    from neve.compact.compactor import Compactor  # noqa: PLC0415 - Spark's worth of imports, for those who compact

    return Compactor(lake, documents=build_documents(settings), config=settings.compact, prices=settings.prices)
