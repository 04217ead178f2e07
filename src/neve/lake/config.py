"""What users set about the catalog, the warehouse, object storage and Spark."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from neve.model.section import Section

CatalogKind = Literal["sqlite", "postgres", "rest", "glue"]


class LakeConfig(Section):
    """Where the tables live."""

    warehouse: str = Field("lake/warehouse", description="folder or s3:// prefix that holds the tables' files")
    exchange: str = Field(
        "",
        description="folder or s3:// prefix where Spark tasks hand each other rows; must be reachable by all of them; "
        "a local folder must belong to the user of Neve, and nobody else may write to it "
        "(empty: a private temporary folder of the user where Spark is local, else .exchange in the warehouse)",
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
        """Whether the warehouse is in object storage."""
        return self.warehouse.startswith("s3://")

    @property
    def location(self) -> str:
        """The warehouse as a URI."""
        if "://" in self.warehouse:
            return self.warehouse
        # Not `as_uri`: neither pyiceberg nor Spark takes %20 for a space.
        return f"file://{Path(self.warehouse).expanduser().resolve()}"


def as_text(values: object) -> object:
    """A map whose values are written plainly: 4 for "4", true for "true"."""
    if not isinstance(values, dict):
        return values
    return {key: _plainly(value) for key, value in values.items()}


def _plainly(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class CatalogConfig(Section):
    """Which catalog knows the tables."""

    kind: CatalogKind = Field("sqlite", description="sqlite, postgres, rest or glue")
    name: str = Field("neve", pattern=r"^[a-z][a-z0-9_]*$", description="name of the catalog in Spark SQL")
    path: str = Field("lake/catalog.db", description="file of the sqlite catalog")
    uri: str = Field("", description="postgresql://host:port/database, or the URL of a REST catalog")
    user: str = Field("", description="user of a PostgreSQL catalog")
    password: SecretStr = Field(SecretStr(""), description="password of a PostgreSQL catalog")
    token: SecretStr = Field(SecretStr(""), description="bearer token of a REST catalog")
    credential: SecretStr = Field(SecretStr(""), description="client id:secret of a REST catalog that speaks OAuth2")
    warehouse: str = Field("", description="name of the warehouse in a REST catalog, where that is not lake.warehouse")
    properties: dict[str, str] = Field({}, description="further Iceberg catalog properties, passed on as they are")

    _plain_properties = field_validator("properties", mode="before")(as_text)


class S3Config(Section):
    """How to reach object storage; empty values leave it to the usual AWS chain."""

    endpoint: str = Field("", description="URL of an S3-compatible server; empty for AWS")
    region: str = Field("us-east-1", description="region of the bucket")
    access_key: str = Field("", description="access key; empty for the usual AWS chain")
    secret_key: SecretStr = Field(SecretStr(""), description="secret key")
    path_style: bool = Field(True, description="address buckets by path, as most S3-compatible servers want it")


class SparkConfig(Section):
    """Where Spark runs."""

    master: str = Field("local[*]", min_length=1, description="Spark master; local[*] is embedded in the process")
    connect: str = Field(
        "", pattern=r"^(sc://.+)?$", description="sc:// URL of a Spark Connect server; master is unused then"
    )
    driver_memory: str = Field("2g", pattern=r"^\d+[mg]$", description="memory of the embedded driver")
    conf: dict[str, str] = Field({}, description="further Spark configuration; wins over what Neve sets")
    log_file: str = Field(
        "lake/spark.log", description="where the embedded JVM's messages go; empty for standard error"
    )

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in this process."""
        return not self.connect and self.master.startswith("local")

    _plain_conf = field_validator("conf", mode="before")(as_text)
