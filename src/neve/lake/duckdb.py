"""DuckDB connections that read the lake's tables. Extensions come from installed packages, nothing is downloaded."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from neve.errors import EnvironmentFault, LakeError
from neve.lake.storage.paths import S3_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """Open an in-memory DuckDB that can read Iceberg tables, as far as the installed extensions support it.

    It is for statements of Neve itself. The signatures of extensions are not checked, which takes 0.25 CPU seconds for
    each: extensions are installed like DuckDB itself, whose library nobody checks at start either.
    """
    config = {"memory_limit": memory_limit, "allow_unsigned_extensions": "true"}
    connection = duckdb.connect(config={**config, **({"threads": threads} if threads else {})})
    prepare(connection, s3, on_s3=on_s3, extensions=extensions)
    return connection


def prepare(
    connection: duckdb.DuckDBPyConnection, s3: S3Config, *, on_s3: bool, extensions: Sequence[str] = EXTENSIONS
) -> None:
    """Configure a DuckDB connection to read the lake."""
    for statement in setup_statements(s3, on_s3=on_s3, extensions=extensions):
        connection.execute(statement)


@contextmanager
def open_scratch_database(
    s3: S3Config, *, on_s3: bool, memory_mb: int, threads: int = 0
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB with its own file, which is deleted at the end, so that memory does not grow with its tables."""
    folder = Path(tempfile.mkdtemp(prefix="neve-scratch-"))
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_mb}MB",
        "temp_directory": str(folder),
        "preserve_insertion_order": "false",
        **({"threads": threads} if threads else {}),
    }
    connection = duckdb.connect(str(folder / "scratch.duckdb"), config=settings)
    try:
        prepare(connection, s3, on_s3=on_s3, extensions=("httpfs",) if on_s3 else ())
        yield connection
    finally:
        connection.close()
        shutil.rmtree(folder, ignore_errors=True)


def setup_statements(s3: S3Config, *, on_s3: bool, extensions: Sequence[str] = EXTENSIONS) -> list[str]:
    """Return the setup statements: UTC, the extensions, and the credentials of object storage if they are needed."""
    chain = ("aws",) if on_s3 and not s3.access_key else ()
    return [
        "SET TimeZone = 'UTC'",
        "SET autoinstall_known_extensions = false",
        *(f"LOAD {quote_literal(str(extension_path(name)))}" for name in (*extensions, *chain)),
        *([secret_statement(s3)] if on_s3 else []),
    ]


def confinement_statements(locations: list[str]) -> list[str]:
    """Return statements that restrict a connection permanently to the files of these tables.

    They must come last: after them, only the time zone can be changed.
    """
    folders = [location.removeprefix("file://").rstrip("/") + "/" for location in locations]
    return [
        f"SET allowed_directories = [{', '.join(map(quote_literal, folders))}]",
        "SET enable_external_access = false",
        "SET allowed_configs = ['TimeZone']",
        "SET lock_configuration = true",
    ]


def extension_path(name: str) -> Path:
    """Return the path of an extension in its package."""
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


def scan_sql(table: Table) -> str:
    """Return the SQL that reads a table at its current snapshot."""
    return f"iceberg_scan({quote_literal(table.metadata_location)})"


def secret_statement(s3: S3Config, scope: Sequence[str] = ()) -> str:
    """Return the statement that sets the credentials of object storage, for all objects or for some prefixes."""
    options = {
        "TYPE": "s3",
        "PROVIDER": "config" if s3.access_key else "credential_chain",
        "REGION": quote_literal(s3.region),
        "URL_STYLE": quote_literal("path" if s3.path_style else "vhost"),
    }
    if s3.access_key:
        options |= {"KEY_ID": quote_literal(s3.access_key), "SECRET": quote_literal(s3.secret_key.get_secret_value())}
    if s3.endpoint:
        scheme, _, host = s3.endpoint.rpartition("://")
        options |= {"ENDPOINT": quote_literal(host), "USE_SSL": str(scheme != "http").lower()}
    if scope:
        options["SCOPE"] = f"[{', '.join(map(quote_literal, scope))}]"
    return f"CREATE OR REPLACE SECRET lake ({', '.join(f'{key} {value}' for key, value in options.items())})"


def quote_literal(text: str) -> str:
    """Quote a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def to_duckdb_path(path: str) -> str:
    """Return a path in DuckDB's form.

    >>> to_duckdb_path("file:///lake/m.avro"), to_duckdb_path("s3a://lake/m.avro")
    ('/lake/m.avro', 's3://lake/m.avro')
    """
    scheme, separator, rest = path.partition(":")
    if not separator or path.startswith("/"):
        return path
    if scheme == "file":
        return "/" + rest.lstrip("/")
    if scheme in S3_SCHEMES:
        return f"s3:{rest}"
    raise LakeError(
        f"can't read the manifest {path}: {scheme} is an unknown storage, expected file or s3",
        hint="tables in other storage can be queried through Spark, but not compacted",
    )


def find_link_path(root: str, path: str) -> str:
    """Return the path of a file in a folder of links to local files, or its own path if there is no such folder.

    Names in the folder are hashes of paths, which SQL can compute as well. They are short because DuckDB resolves every
    folder of a path each time that it opens a file.

    >>> find_link_path("/links", "file:///lake/a.parquet"), find_link_path("/links", "s3a://lake/a.parquet")
    ('/links/6cdee5aa1f728d203c934aeb4fe4814b.parquet', 's3://lake/a.parquet')
    """
    plain = to_duckdb_path(path)
    if not root or not plain.startswith("/"):
        return plain
    return f"{root}/{hashlib.md5(plain.encode(), usedforsecurity=False).hexdigest()}.parquet"
