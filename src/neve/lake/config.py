"""Settings of the catalog, the warehouse, object storage and Spark, and the prices of storage and machines."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from neve.model.settings import Section, as_text

CatalogKind = Literal["sqlite", "postgres", "rest", "glue"]


class LakeConfig(Section):
    """Location of the tables."""

    warehouse: str = Field("lake/warehouse", description="folder or s3:// prefix for the table files")
    exchange: str = Field(
        "",
        description="folder or s3:// prefix through which Spark tasks exchange rows; all of them must reach it; "
        "a local folder must belong to Neve's user and not be writable by others (empty: a private "
        "temporary folder with a local Spark, else .exchange in the warehouse)",
    )

    @field_validator("warehouse")
    @classmethod
    def _known_place(cls, value: str) -> str:
        scheme, separator, _rest = value.partition("://")
        if separator and scheme not in ("file", "s3"):
            raise ValueError("should be a folder or an s3:// prefix")
        return value

    @property
    def on_s3(self) -> bool:
        """Return whether the warehouse is in object storage."""
        return self.warehouse.startswith("s3://")

    @property
    def location(self) -> str:
        """The warehouse as a URI."""
        if "://" in self.warehouse:
            return self.warehouse
        # Not `as_uri`: neither pyiceberg nor Spark decodes %20 to a space.
        return f"file://{Path(self.warehouse).expanduser().resolve()}"


class CatalogConfig(Section):
    """Iceberg catalog."""

    kind: CatalogKind = Field("sqlite", description="sqlite, postgres, rest or glue")
    name: str = Field("neve", pattern=r"^[a-z][a-z0-9_]*$", description="name of the catalog in Spark SQL")
    path: str = Field("lake/catalog.db", description="file of the sqlite catalog")
    uri: str = Field("", description="postgresql://host:port/database, or the URL of a REST catalog")
    user: str = Field("", description="user of a PostgreSQL catalog")
    password: SecretStr = Field(SecretStr(""), description="password of a PostgreSQL catalog")
    token: SecretStr = Field(SecretStr(""), description="bearer token of a REST catalog")
    credential: SecretStr = Field(SecretStr(""), description="client id:secret of a REST catalog with OAuth2")
    warehouse: str = Field("", description="name of the warehouse in a REST catalog, if it differs from lake.warehouse")
    properties: dict[str, str] = Field({}, description="additional Iceberg catalog properties, passed on unchanged")

    _plain_properties = field_validator("properties", mode="before")(as_text)


class S3Config(Section):
    """Access to object storage. Empty values use the default AWS credential chain."""

    endpoint: str = Field("", description="URL of an S3-compatible server; empty: AWS")
    region: str = Field("us-east-1", description="region of the bucket")
    access_key: str = Field("", description="access key; empty: the default AWS credential chain")
    secret_key: SecretStr = Field(SecretStr(""), description="secret key")
    path_style: bool = Field(
        True, description="path-style addressing of buckets, which most S3-compatible servers need"
    )


class SparkConfig(Section):
    """Spark: embedded, a cluster, or Spark Connect."""

    master: str = Field("local[*]", min_length=1, description="Spark master; local[*] runs Spark in this process")
    connect: str = Field(
        "", pattern=r"^(sc://.+)?$", description="sc:// URL of a Spark Connect server; replaces the master"
    )
    driver_memory: str = Field("2g", pattern=r"^\d+[mg]$", description="memory of the local driver")
    parallelism: int = Field(
        0,
        ge=0,
        le=100_000,
        description="tasks to run at a time; 0: as many as Spark reports, which is 2 before executors of a dynamic "
        "allocation have started",
    )
    conf: dict[str, str] = Field({}, description="additional Spark configuration; overrides Neve's own")
    log_file: str = Field("lake/spark.log", description="log file of the local JVM; empty: standard error")

    @property
    def is_local(self) -> bool:
        """Return whether Spark runs in this process."""
        return not self.connect and self.master.startswith("local")

    _plain_conf = field_validator("conf", mode="before")(as_text)


class PricesConfig(Section):
    """Prices in dollars. The defaults are close to S3 and on-demand machines."""

    put_per_1000: float = Field(0.005, ge=0, description="dollars per 1,000 write requests")
    get_per_1000: float = Field(0.0004, ge=0, description="dollars per 1,000 read requests")
    list_per_1000: float = Field(0.005, ge=0, description="dollars per 1,000 list requests")
    compute_per_core_hour: float = Field(0.05, ge=0, description="dollars per core hour")
    storage_gb_month: float = Field(0.023, ge=0, description="dollars per gigabyte and month of storage")
    scan_per_tb: float = Field(
        0.1, ge=0, description="dollars per terabyte that a query scans; engines that bill by it charge about 5"
    )
