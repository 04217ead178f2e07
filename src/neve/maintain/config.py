"""What users set about maintenance."""

from pydantic import Field

from neve.model.organization import PATTERN
from neve.model.section import Section


class ExpireConfig(Section):
    """Which snapshots a table remembers; what a branch or a table property says of itself wins."""

    max_age_hours: float = Field(
        120, ge=1, description="snapshots that are older are forgotten, and their files removed"
    )
    min_snapshots: int = Field(5, ge=1, description="how many snapshots of each branch are kept whatever their age")
    max_snapshots: int = Field(
        2000,
        ge=0,
        description="how many snapshots of each branch are kept before their age: every commit reads and writes the "
        "list of them; 0: any number",
    )
    carry_positions: bool = Field(
        True,
        description="write the position of a stream that rests into a new, empty snapshot, so that its old one can go; "
        "false keeps every snapshot since that one",
    )


class OrphansConfig(Section):
    """Which files that no snapshot knows are removed."""

    older_than_hours: float = Field(
        72, ge=24, description="younger files are left alone: a writer may be about to commit them"
    )
    delete: bool = Field(False, description="let `neve maintain all` remove orphans; otherwise it only lists them")


class ManifestsConfig(Section):
    """When manifests are written anew."""

    min_manifests: int = Field(20, ge=2, description="fewer manifests than this are left as they are")


class DeletesConfig(Section):
    """When position deletes are written anew."""

    min_files: int = Field(5, ge=1, description="how many delete files fewer must come of it")


class RetentionRule(Section):
    """How long rows are kept; of the rules that fit, the one that says most counts (organization, table, signal)."""

    table: str = Field("*", min_length=1, description="name of a table, or a pattern such as metrics_*")
    organization: str = Field("", pattern=f"^$|{PATTERN}", description="organization; empty for all")
    signal: str = Field("", pattern=r"^(logs|metrics|traces)?$", description="logs, metrics or traces; empty for all")
    days: float = Field(ge=0, le=36_500, description="rows with an older time are deleted; 0 keeps them for good")
    column: str = Field("", description="time column; empty for timestamp, quarantined_at, recorded_at or decided_at")


class TagsConfig(Section):
    """Tags that Neve sets by itself, so that a table can be read as it was."""

    enabled: bool = Field(False, description="set tags")
    hourly: int = Field(24, ge=0, le=24 * 366, description="how many hourly tags are kept")
    daily: int = Field(7, ge=0, le=3660, description="how many daily tags are kept")
    monthly: int = Field(12, ge=0, le=1200, description="how many monthly tags are kept")


class StatisticsConfig(Section):
    """Statistics for the planners of query engines."""

    enabled: bool = Field(False, description="let `neve maintain all` compute statistics")
    columns: dict[str, tuple[str, ...]] = Field(
        {}, description="columns whose distinct values are counted, by table; others: those that it is laid out by"
    )


class MaintainConfig(Section):
    """How tables are kept small and quick to plan."""

    expire: ExpireConfig = Field(ExpireConfig(), description="which snapshots are remembered")
    orphans: OrphansConfig = Field(OrphansConfig(), description="which unknown files are removed")
    manifests: ManifestsConfig = Field(ManifestsConfig(), description="when manifests are written anew")
    deletes: DeletesConfig = Field(DeletesConfig(), description="when position deletes are written anew")
    retention: tuple[RetentionRule, ...] = Field((), description="how long rows are kept; without a rule, for good")
    retention_exact: bool = Field(
        True,
        description="delete to the row, which writes files of the partition at the boundary anew; false waits until a "
        "whole partition is past its time",
    )
    tags: TagsConfig = Field(TagsConfig(), description="tags that are set automatically")
    statistics: StatisticsConfig = Field(StatisticsConfig(), description="statistics for query planners")
    history_days: int = Field(90, ge=1, le=3660, description="how long runs are remembered")
    lease_seconds: float = Field(
        300, ge=10, le=86_400, description="a table whose maintainer was killed can be maintained again after this time"
    )
