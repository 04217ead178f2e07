"""The base of every part of the configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration: frozen, and without room for unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
