"""The composition root: builds the lake, the state store, the bus, policies and the compactor from the settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import ConfigError, LakeError
from neve.ingest.watch.places import Places
from neve.lake.catalog import sqlite_path
from neve.lake.lake import Lake
from neve.lake.storage.paths import OwnFolders
from neve.logger import get_logger
from neve.model.properties import LAKE_FORMAT
from neve.state.config import check_bus_config
from neve.state.sqlite_documents import open_state_file

if TYPE_CHECKING:
    from neve.app.settings import Settings
    from neve.compact.budgets import OrganizationBudget
    from neve.compact.compactor import Compactor
    from neve.jobs.policies import Policies, PolicyStore
    from neve.state.bus import Bus
    from neve.state.documents import Documents
    from neve.state.store import StateStore


log = get_logger("neve.serve")
SQLITE_BESIDE = ("-wal", "-shm", "-journal")
STATE_FORMAT = ("release", "format")  # space and key of the document with the format of the store


def build_lake(settings: Settings) -> Lake:
    """Build the configured lake."""
    return Lake(settings.lake, settings.catalog, settings.s3, settings.spark)


def build_source_lake(settings: Settings, lake: Lake) -> Lake:
    """Return the lake that spans are read from: the configured one, or that of another catalog."""
    catalog = settings.tail.source.catalog
    return lake if catalog is None else replace(build_lake(settings), catalog_config=catalog)


def build_state(settings: Settings) -> StateStore:
    """Build the configured state store; no connection is opened before its first use."""
    from neve.state.store import StateStore  # noqa: PLC0415 - SQLAlchemy, which most commands do not need

    return StateStore(settings.state)


def build_documents(settings: Settings) -> Documents:
    """Open the documents that processes share, in the configured store; the caller closes them.

    Raises `LakeError` for a file that a newer release has changed in a way that this one would misread.
    """
    documents = _open_documents(settings)
    if settings.state.file is not None and not settings.state.documents:  # a server may not respond now
        check_state_format(documents)
    return documents


def check_state_format(documents: Documents) -> None:
    """Raise `LakeError` if a newer release has changed the state store in a way that this one would misread."""
    found = documents.get(*STATE_FORMAT) or {}
    if (stored := found.get("format", LAKE_FORMAT)) != LAKE_FORMAT:
        documents.close()
        raise LakeError(
            f"the state store has format {stored} of release {found.get('release')}, expected at most {LAKE_FORMAT}",
            hint="use the release that ran `neve init` on this lake last",
        )


def _open_documents(settings: Settings) -> Documents:
    config = settings.state
    if config.documents:
        from neve.state.redis_documents import RedisDocuments  # noqa: PLC0415 - for those who have a server

        return RedisDocuments(config.documents, config.documents_password)
    if config.file is not None:
        return open_state_file(config)
    from neve.state.sql_documents import SqlDocuments  # noqa: PLC0415 - SQLAlchemy, for those with a server

    return SqlDocuments(build_state(settings))


def build_own_folders(settings: Settings, lake: Lake) -> OwnFolders:
    """Return the folders that only Neve itself may read: they contain rows of every organization."""
    state = str(settings.state.file or "")
    catalog = str(sqlite_path(settings.catalog)) if settings.catalog.kind == "sqlite" else ""
    files = [file + ending for file in (state, catalog) if file for ending in ("", *SQLITE_BESIDE)]
    folders = (lake.lake.location, settings.raw.location, settings.ingest.checkpoints, lake.exchange_folder)
    return OwnFolders((*(_absolute(folder) for folder in folders), *files))


def build_places(settings: Settings, lake: Lake) -> Places:
    """Build the places in which organizations may announce files; raises `ConfigError` for a place in the lake."""
    own = build_own_folders(settings, lake)
    for organization, places in settings.watch.places.items():
        for place in places:
            if own.holds(place):
                raise ConfigError(
                    f"watch.places has {place!r} of {organization}, which is in a folder of the lake itself; "
                    f"expected a place outside of {', '.join(own.folders)}",
                    hint="files there contain rows of all organizations, and are never ingested",
                )
    return Places(settings.watch.places, own)


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).expanduser().resolve())


def build_bus(settings: Settings) -> Bus | None:
    """Open the bus that commits are announced on; None if they are announced in the state store."""
    check_bus_config(settings.bus)
    if settings.bus.kind == "kafka":
        from neve.state.kafka_bus import KafkaBus  # noqa: PLC0415 - for those who have the client

        return KafkaBus(settings.bus)
    if settings.bus.kind == "sql":
        log.warning("bus.kind sql is ignored: commits are announced in the state store", hint="remove bus.kind")
    return None


def build_compactor(settings: Settings, lake: Lake) -> Compactor:
    """Build the compactor of a lake; the budgets of organizations come from the policies."""
    from neve.compact.compactor import Compactor  # noqa: PLC0415 - Spark's worth of imports, for those who compact

    documents = build_documents(settings)
    return Compactor(
        lake,
        documents=documents,
        config=settings.compact,
        prices=settings.prices,
        budgets=compact_budgets(build_policy_store(settings, documents).load()),
    )


def build_policy_store(settings: Settings, documents: Documents) -> PolicyStore:
    """Build the policy store of a lake; raises `ConfigError` for an invalid file."""
    from neve.jobs.policies import PolicyStore  # noqa: PLC0415 - only for those who run or show jobs

    return PolicyStore(documents, load_configured_policies(settings))


def load_configured_policies(settings: Settings) -> Policies:
    """Load the policies of the settings and of the files in their folder; raises `ConfigError` for invalid ones."""
    from neve.jobs.policies import load_policies  # noqa: PLC0415 - as above
    from neve.jobs.policy import build_default_policy  # noqa: PLC0415

    # The autopilot runs by itself if its section is configured.
    hour = settings.autopilot.start_hour if "autopilot" in settings.model_fields_set else None
    return load_policies(settings.policies, settings.policies_folder, build_default_policy(hour))


def compact_budgets(policies: Policies) -> tuple[OrganizationBudget, ...]:
    """Return the compaction budgets of organizations."""
    from neve.compact.budgets import OrganizationBudget  # noqa: PLC0415 - only for those who compact

    return tuple(
        OrganizationBudget(one.organization, one.dollars_per_day, one.bytes_per_day) for one in policies.budgets()
    )
