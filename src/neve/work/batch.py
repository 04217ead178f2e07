"""When gathered announcements become work."""

from pydantic import Field

from neve.model.section import Section

MB = 1024 * 1024


class Batch(Section):
    """Announcements of one table and window are gathered until one of these is reached."""

    count: int = Field(12, ge=1, description="files that were announced")
    bytes: int = Field(256 * MB, ge=1, description="bytes that were announced")
    age_seconds: float = Field(60, ge=0, description="seconds since the first of them")
