"""Checks of the installation: packages, Java, jars, storage, catalog, tables and state store, each with a remedy."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from neve.app.serve.tls import apply_shared_tls, list_certificates
from neve.app.wiring import build_documents, build_state
from neve.errors import IncompatibleTable, LakeError, NeveError
from neve.lake.catalog import pyiceberg_properties, sqlite_path
from neve.lake.commit.stream_properties import find_stream_summary, read_stream_properties
from neve.lake.duckdb import connect
from neve.lake.spark.jars import find_cache_dir, local_paths, select_jars
from neve.lake.spark.java import find_java
from neve.lake.tables import find_pending_changes
from neve.local_folders import NETWORK_HINT, find_file_system, is_network_file_system
from neve.model.commits import BATCH_ID
from neve.model.settings import redact_uri
from neve.model.tables import TABLES
from neve.state.sqlite_documents import open_state_file
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.tls.config import TlsConfig

Status = Literal["ok", "note", "wrong"]

RENEWAL_TIME = timedelta(days=21)  # a certificate that expires sooner is reported

PACKAGES = ("neve", "pyspark", "pyiceberg", "pyarrow", "duckdb", "ptars", "opentelemetry-proto")


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    status: Status
    detail: str
    remedy: str | None = None


def examine(settings: Settings, lake: Lake, *, config_file: str, start_spark: bool = False) -> Iterator[Finding]:
    """Check everything that a command may need; a failed check does not prevent the following ones."""
    yield Finding("python", "ok", platform.python_version())
    yield Finding("packages", "ok", ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES))
    yield Finding("configuration", "ok" if Path(config_file).exists() else "note", _config(config_file))
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("java", _java),
        ("jars", lambda: _jars(settings)),
        ("duckdb", lambda: _duckdb(lake)),
        ("warehouse", lambda: _warehouse(lake)),
        ("catalog", lambda: _catalog(lake)),
        ("tables", lambda: _tables(lake)),
        ("streams", lambda: _streams(lake)),
        ("state", lambda: _state(settings)),
    ]
    checks += [
        (section, partial(_certificate, section, config))
        for section, config in list_certificates(apply_shared_tls(settings)).items()
    ]
    if settings.state.documents:
        checks.append(("documents", lambda: _documents(settings)))
    if start_spark:
        checks.append(("spark", lambda: _spark(lake)))
    for what, check in checks:
        yield _run_check(what, check)


def _run_check(what: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except NeveError as error:
        return Finding(what, "wrong", error.message, error.hint)
    except Exception as error:
        return Finding(what, "wrong", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")


def _certificate(section: str, config: TlsConfig) -> Finding:
    from neve.tls.certificates import has_public_key_file, load_certificate  # noqa: PLC0415 - for those who use TLS

    loaded = load_certificate(config, section)
    left = loaded.expires_at - datetime.now(UTC)
    detail = f"certificate of {loaded.name}, expires at {loaded.expires_at:%Y-%m-%dT%H:%M:%SZ}"
    if left < RENEWAL_TIME:
        return Finding(section, "note", f"{detail}, in {left.days} days", "renew it; the ports read the new files")
    if has_public_key_file(config):
        return Finding(section, "note", f"{detail}; every user may read {config.key}", f"run `chmod o-r {config.key}`")
    return Finding(section, "ok", detail)


def _config(config_file: str) -> str:
    if Path(config_file).exists():
        return str(Path(config_file).resolve())
    return f"no {config_file}: all settings have their defaults"


def _java() -> Finding:
    java = find_java()
    return Finding("java", "ok", f"{java.version} at {java.path}")


def _jars(settings: Settings) -> Finding:
    jars = select_jars(settings.catalog.kind, on_s3=settings.lake.on_s3)
    folder = find_cache_dir() / "jars"
    missing = [jar.file_name for jar in jars if not (folder / jar.file_name).exists()]
    if missing:
        return Finding(
            "jars", "note", f"not yet in {folder}: {', '.join(missing)}", "downloaded when Spark first starts"
        )
    local_paths(jars)
    return Finding("jars", "ok", f"{len(jars)} in {folder}, hashes verified")


def _duckdb(lake: Lake) -> Finding:
    with connect(lake.s3, on_s3=lake.lake.on_s3):
        return Finding("duckdb", "ok", "starts, with the iceberg, avro and httpfs extensions")


def _warehouse(lake: Lake) -> Finding:
    if lake.lake.on_s3:
        return _bucket(lake)
    folder = Path(lake.lake.location.removeprefix("file://"))
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(above, os.W_OK):
        return Finding("warehouse", "wrong", f"{above} can't be written to", "change its owner, or lake.warehouse")
    free = os.statvfs(above)
    return Finding("warehouse", "ok", f"{folder}, {free.f_bavail * free.f_frsize / 1e9:.0f} GB free")


def _bucket(lake: Lake) -> Finding:
    from pyiceberg.io import load_file_io  # noqa: PLC0415 - only for those who keep tables in object storage

    location = f"{lake.lake.location}/.neve-doctor-{uuid4()}"
    io = load_file_io(pyiceberg_properties(lake.catalog_config, lake.lake, lake.s3), location)
    with io.new_output(location).create() as stream:
        stream.write(b"neve doctor")
    io.delete(location)
    return Finding("warehouse", "ok", f"{lake.lake.location}, writable")


def _catalog(lake: Lake) -> Finding:
    config = lake.catalog_config
    where = config.path if config.kind == "sqlite" else redact_uri(config.uri)
    if not lake.exists:
        return Finding("catalog", "note", f"{config.kind} {where}, not created yet", "run `neve init`")
    namespaces = lake.catalog.list_namespaces()
    found = Finding(
        "catalog", "ok", f"{config.kind} {where}".strip() + f", {format_count(len(namespaces), 'namespace')}"
    )
    return _note_network_disk(found, sqlite_path(config) if config.kind == "sqlite" else None)


def _tables(lake: Lake) -> Finding:
    names = set(lake.table_names())
    missing = [table.name for table in TABLES if table.name not in names]
    if missing:
        return Finding("tables", "wrong", f"missing: {', '.join(missing)}", "run `neve init`")
    try:
        older = [name for name, changes in find_pending_changes(lake) if changes]
    except IncompatibleTable as error:
        return Finding("tables", "wrong", error.message, error.hint)
    if older:
        return Finding("tables", "note", f"created by an older release: {', '.join(older)}", "run `neve init`")
    return Finding("tables", "ok", f"{len(TABLES)} tables, up to date")


def _streams(lake: Lake) -> Finding:
    """Check that each table still has the snapshots with the positions of its streams."""
    tables = [lake.table_metadata(name) for name in lake.table_names()]
    known = [(table, stream) for table in tables for stream in read_stream_properties(table)]
    gone = [
        f"{stream} in {table.name()[-1]}"
        for table, stream in known
        if (words := find_stream_summary(table, stream)) is not None and BATCH_ID not in words
    ]
    if gone:
        return Finding(
            "streams",
            "note",
            f"another program expired the snapshots with the positions of: {', '.join(gone)}; "
            "streams continue from the table properties",
            "let only `neve maintain expire` expire snapshots of the lake's tables",
        )
    return Finding("streams", "ok", f"{format_count(len(known), 'position')}, snapshots present")


def _state(settings: Settings) -> Finding:
    config, where = settings.state, settings.state.display_address
    state = build_state(settings) if config.file is None else open_state_file(config)
    if config.file is not None and not config.file.exists():
        return Finding("state", "note", f"{where}, not created yet", "created with the first API key or run")
    try:
        state.ping()
    except LakeError as error:
        # The usual hint refers to this command.
        return Finding("state", "wrong", error.message, "check state.url, state.user, state.password and state.path")
    finally:
        state.close()
    return _note_network_disk(Finding("state", "ok", where), settings.state.file)


def _note_network_disk(found: Finding, file: Path | None) -> Finding:
    """Turn the finding about an SQLite file into a note if the file is on a network file system."""
    kind = find_file_system(file.resolve()) if file is not None else ""
    if not is_network_file_system(kind):
        return found
    detail = f"{found.detail}; it is on {kind}, where SQLite's locks are unreliable: use it from one machine only"
    return Finding(found.what, "note", detail, NETWORK_HINT)


def _documents(settings: Settings) -> Finding:
    documents = build_documents(settings)
    try:
        documents.now()
    finally:
        documents.close()
    return Finding("documents", "ok", settings.state.documents)


def _spark(lake: Lake) -> Finding:
    return Finding("spark", "ok", f"{lake.spark.version} on {lake.spark_config.connect or lake.spark_config.master}")
