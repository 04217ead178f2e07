"""Settings of the raw zone."""

from pydantic import Field, field_validator

from neve.model.settings import Section

MB = 1024 * 1024


class RawConfig(Section):
    """Durable storage of received messages until they are in the tables."""

    location: str = Field("lake/raw", description="folder or s3:// prefix for received messages")
    segment_bytes: int = Field(64 * MB, ge=4096, le=1024 * MB, description="size at which a segment is sealed")
    segment_seconds: float = Field(
        2.0,
        gt=0,
        le=3600,
        description="age at which a segment is sealed, in seconds; only sealed segments are ingested",
    )
    linger_ms: int = Field(
        0,
        ge=0,
        le=10_000,
        description="milliseconds that a request waits for others, to sync them together; on s3:// at least 200",
    )
    min_free_bytes: int = Field(
        512 * MB, ge=0, description="requests are rejected while the disk has less free space (folders only)"
    )
    max_backlog_bytes: int = Field(
        64 * 1024 * MB, ge=MB, description="requests are rejected while more bytes wait for ingestion"
    )
    keep_seconds: float = Field(
        3600, ge=0, description="seconds to keep segments after all of their records are committed"
    )

    @field_validator("location")
    @classmethod
    def _known_place(cls, value: str) -> str:
        scheme, separator, _rest = value.partition("://")
        if separator and scheme not in ("file", "s3"):
            raise ValueError("should be a folder or an s3:// prefix")
        return value.removeprefix("file://")

    @property
    def on_s3(self) -> bool:
        """Return whether the zone is in object storage."""
        return self.location.startswith("s3://")
