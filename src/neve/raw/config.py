"""What users set about the raw zone."""

from pydantic import Field, field_validator

from neve.model.section import Section

MB = 1024 * 1024


class RawConfig(Section):
    """Where received bytes are kept until they are in the tables."""

    location: str = Field("lake/raw", description="folder or s3:// prefix that holds what was received")
    segment_bytes: int = Field(64 * MB, ge=4096, le=1024 * MB, description="a segment is sealed when it is this large")
    segment_seconds: float = Field(
        2.0, gt=0, le=3600, description="a segment is sealed when it is this old; only sealed segments are ingested"
    )
    linger_ms: int = Field(
        0,
        ge=0,
        le=10_000,
        description="how long a request waits for others to be made durable with; on s3:// at least 200",
    )
    min_free_bytes: int = Field(
        512 * MB, ge=0, description="requests are refused while the disk has less room than this (folders only)"
    )
    max_backlog_bytes: int = Field(
        64 * 1024 * MB, ge=MB, description="requests are refused while more than this waits to be ingested"
    )
    keep_seconds: float = Field(
        3600, ge=0, description="how long segments are kept after everything in them was committed"
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
        """Whether the zone is in object storage."""
        return self.location.startswith("s3://")
