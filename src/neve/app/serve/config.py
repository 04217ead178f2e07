"""What users set about `neve serve`."""

from typing import Literal

from pydantic import Field

from neve.app.serve.choice import PARTS, PartName
from neve.model.section import Section

StreamName = Literal["raw", "events", "kafka", "kafka-events"]


class ServeConfig(Section):
    """Which parts run, how they are watched, and how they end and begin again."""

    only: tuple[PartName, ...] = Field(PARTS, min_length=1, description="parts that run")
    streams: tuple[StreamName, ...] = Field(("raw", "events"), description="streams that the part ingest takes in")
    host: str = Field("127.0.0.1", min_length=1, description="address of health and metrics")
    port: int = Field(9090, ge=0, le=65_535, description="port of health and metrics of all parts; 0 takes a free one")
    drain_seconds: float = Field(30, ge=0, le=3600, description="seconds in which all ends when told to stop")
    workers: int = Field(
        2,
        ge=1,
        le=64,
        description="jobs that run at a time; of two or more, one only rolls up and indexes: nothing long is before it",
    )
    restart_first_seconds: float = Field(
        1, gt=0, le=3600, description="seconds until a part that failed is started again; twice as many each time"
    )
    restart_most_seconds: float = Field(30, gt=0, le=3600, description="most seconds until it is started again")
