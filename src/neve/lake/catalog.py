"""Translate the catalog settings into the properties of pyiceberg and of Spark."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit

from neve.errors import ConfigError
from neve.lake.config import CatalogConfig, LakeConfig, S3Config
from neve.model.settings import redact_uri

Properties = dict[str, str]

COUNTED_FILE_IO = "neve.lake.storage.file_io.CountedFileIO"  # pyiceberg loads it by its name
BUSY_TIMEOUT_MS = 30_000  # maximum wait for another writer's lock on the SQLite file


def pyiceberg_properties(catalog: CatalogConfig, lake: LakeConfig, s3: S3Config) -> Properties:
    """Return the properties for `pyiceberg.catalog.load_catalog`."""
    return {
        **_PYICEBERG[catalog.kind](catalog, lake),
        **_s3_for_pyiceberg(lake, s3),
        "py-io-impl": COUNTED_FILE_IO,
        **catalog.properties,
    }


def spark_properties(catalog: CatalogConfig, lake: LakeConfig, s3: S3Config) -> Properties:
    """Return the `spark.sql.catalog.…` keys of the same catalog."""
    prefix = f"spark.sql.catalog.{catalog.name}"
    options = {**_SPARK[catalog.kind](catalog, lake), **_s3_for_spark(lake, s3), **catalog.properties}
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.cache-enabled": "false",  # another process may have committed: never use a cached table
        **{f"{prefix}.{key}": value for key, value in options.items()},
    }


def sqlite_path(catalog: CatalogConfig) -> Path:
    """Return the file of the SQLite catalog."""
    return Path(catalog.path).expanduser().resolve()


def _sqlite(catalog: CatalogConfig, lake: LakeConfig) -> Properties:
    return {
        "type": "sql",
        "uri": f"sqlite:///{sqlite_path(catalog)}?timeout={BUSY_TIMEOUT_MS // 1000}",
        "schema_version": "v1",
        "warehouse": lake.location,
    }


def _sqlite_spark(catalog: CatalogConfig, lake: LakeConfig) -> Properties:
    return {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{sqlite_path(catalog)}?busy_timeout={BUSY_TIMEOUT_MS}",
        "jdbc.schema-version": "V1",
        "warehouse": lake.location,
    }


def _postgres(catalog: CatalogConfig, lake: LakeConfig) -> Properties:
    user, password = quote(catalog.user, safe=""), quote(catalog.password.get_secret_value(), safe="")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    return {
        "type": "sql",
        "uri": f"postgresql+psycopg2://{login}{_postgres_address(catalog)}",
        "schema_version": "v1",
        "warehouse": lake.location,
    }


def _postgres_spark(catalog: CatalogConfig, lake: LakeConfig) -> Properties:
    options = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:postgresql://{_postgres_address(catalog)}",
        "jdbc.schema-version": "V1",
        "jdbc.user": catalog.user,
        "jdbc.password": catalog.password.get_secret_value(),
        "warehouse": lake.location,
    }
    return {key: value for key, value in options.items() if value}


def _postgres_address(catalog: CatalogConfig) -> str:
    parts = urlsplit(catalog.uri)
    if parts.scheme not in ("postgres", "postgresql") or not parts.hostname or parts.username or parts.password:
        raise ConfigError(
            f"catalog.uri is {redact_uri(catalog.uri)!r}, expected postgresql://host:port/database",
            hint="user and password have keys of their own: catalog.user and catalog.password",
        )
    return f"{parts.netloc}{parts.path}" + (f"?{parts.query}" if parts.query else "")


def _rest(catalog: CatalogConfig, lake: LakeConfig) -> Properties:
    if not catalog.uri.startswith(("http://", "https://")):
        raise ConfigError(
            f"catalog.uri is {redact_uri(catalog.uri)!r}, expected the http:// or https:// URL of a REST catalog"
        )
    options = {
        "type": "rest",
        "uri": catalog.uri,
        "warehouse": catalog.warehouse or lake.location,
        "token": catalog.token.get_secret_value(),
        "credential": catalog.credential.get_secret_value(),
    }
    return {key: value for key, value in options.items() if value}


def _glue(_catalog: CatalogConfig, lake: LakeConfig) -> Properties:
    return {"type": "glue", "warehouse": lake.location}


_PYICEBERG: dict[str, Callable[[CatalogConfig, LakeConfig], Properties]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "rest": _rest,
    "glue": _glue,
}
_SPARK: dict[str, Callable[[CatalogConfig, LakeConfig], Properties]] = {
    "sqlite": _sqlite_spark,
    "postgres": _postgres_spark,
    "rest": _rest,
    "glue": _glue,
}


def _s3_for_pyiceberg(lake: LakeConfig, s3: S3Config) -> Properties:
    if not lake.on_s3:
        return {}
    options = {
        "s3.endpoint": s3.endpoint,
        "s3.region": s3.region,
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": s3.secret_key.get_secret_value(),
        "s3.force-virtual-addressing": "" if s3.path_style else "true",
    }
    return {key: value for key, value in options.items() if value}


def _s3_for_spark(lake: LakeConfig, s3: S3Config) -> Properties:
    if not lake.on_s3:
        return {}
    options = {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": s3.endpoint,
        "client.region": s3.region,
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": s3.secret_key.get_secret_value(),
        "s3.path-style-access": str(s3.path_style).lower(),
    }
    return {key: value for key, value in options.items() if value}
