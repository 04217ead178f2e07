"""DuckDB over the lake's tables: extensions from the installed packages, nothing downloaded."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from neve.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from neve.lake.config import S3Config

EXTENSIONS = ("avro", "httpfs", "iceberg")


def connect(
    s3: S3Config,
    *,
    on_s3: bool,
    threads: int = 0,
    memory_limit: str = "4GB",
    extensions: Sequence[str] = EXTENSIONS,
) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB that can read Iceberg tables, or what the extensions let it."""
    connection = duckdb.connect(config={"memory_limit": memory_limit, **({"threads": threads} if threads else {})})
    prepare(connection, s3, on_s3=on_s3, extensions=extensions)
    return connection


def prepare(
    connection: duckdb.DuckDBPyConnection, s3: S3Config, *, on_s3: bool, extensions: Sequence[str] = EXTENSIONS
) -> None:
    """Make a DuckDB one that reads the lake."""
    for statement in preparations(s3, on_s3=on_s3, extensions=extensions):
        connection.execute(statement)


def preparations(s3: S3Config, *, on_s3: bool, extensions: Sequence[str] = EXTENSIONS) -> list[str]:
    """UTC, the extensions, and the key to object storage where one is needed, as statements."""
    chain = ("aws",) if on_s3 and not s3.access_key else ()
    return [
        "SET TimeZone = 'UTC'",
        "SET autoinstall_known_extensions = false",
        *(f"LOAD {literal(str(extension_path(name)))}" for name in (*extensions, *chain)),
        *([secret(s3)] if on_s3 else []),
    ]


def confine(connection: duckdb.DuckDBPyConnection, locations: list[str]) -> None:
    """Let statements reach these tables' files and nothing else of the machine, for good."""
    for statement in confinement(locations):
        connection.execute(statement)


def confinement(locations: list[str]) -> list[str]:
    """The same as statements, which come last: nothing can be set after them."""
    folders = [location.removeprefix("file://").rstrip("/") + "/" for location in locations]
    return [
        f"SET allowed_directories = [{', '.join(map(literal, folders))}]",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    ]


def extension_path(name: str) -> Path:
    """Where an extension's package keeps it."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None:
        raise EnvironmentFault(f"the package duckdb-extension-{name} is not installed", hint="pip install neve")
    folder = Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}"
    path = folder / f"{name}.duckdb_extension"
    if not path.exists():
        raise EnvironmentFault(
            f"duckdb is {duckdb.__version__}, but duckdb-extension-{name} has no build for that version",
            hint="install both in the same version",
        )
    return path


def scan(table: Table) -> str:
    """The SQL that reads a table at its current snapshot."""
    return f"iceberg_scan({literal(table.metadata_location)})"


def secret(s3: S3Config, scope: Sequence[str] = ()) -> str:
    """The statement that gives DuckDB the key to object storage, for all of it or for objects below some prefixes."""
    options = {
        "TYPE": "s3",
        "PROVIDER": "config" if s3.access_key else "credential_chain",
        "REGION": literal(s3.region),
        "URL_STYLE": literal("path" if s3.path_style else "vhost"),
    }
    if s3.access_key:
        options |= {"KEY_ID": literal(s3.access_key), "SECRET": literal(s3.secret_key.get_secret_value())}
    if s3.endpoint:
        scheme, _, host = s3.endpoint.rpartition("://")
        options |= {"ENDPOINT": literal(host), "USE_SSL": str(scheme != "http").lower()}
    if scope:
        options["SCOPE"] = f"[{', '.join(map(literal, scope))}]"
    return f"CREATE OR REPLACE SECRET lake ({', '.join(f'{key} {value}' for key, value in options.items())})"


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
