"""Settings of maintenance."""

from pydantic import Field

from neve.model.settings import ORGANIZATION_PATTERN, Section


class ExpireConfig(Section):
    """Snapshot expiry. Settings of a branch or a table property override it."""

    max_age_hours: float = Field(
        120, ge=1, description="hours after which snapshots are expired and their files removed"
    )
    min_snapshots: int = Field(
        5, ge=1, description="minimum number of snapshots to keep for each branch, whatever their age"
    )
    max_snapshots: int = Field(
        2000,
        ge=0,
        description="maximum number of snapshots to keep for each branch, whatever their age, because every "
        "commit reads and writes the whole list; 0: unlimited",
    )
    carry_positions: bool = Field(
        True,
        description="copy the position of an idle stream into a new, empty snapshot, so that the old one can "
        "expire; false: keep every snapshot since then",
    )


class OrphansConfig(Section):
    """Removal of files that no snapshot references."""

    older_than_hours: float = Field(
        72, ge=24, description="younger files are kept, because a writer may be about to commit them"
    )
    delete: bool = Field(False, description="let `neve maintain all` remove orphan files; otherwise it only lists them")


class ManifestsConfig(Section):
    """Rewrites of manifests."""

    min_manifests: int = Field(20, ge=2, description="minimum number of manifests for a rewrite")


class DeletesConfig(Section):
    """Rewrites of position deletes."""

    min_files: int = Field(5, ge=1, description="minimum reduction of the number of delete files")


class RetentionRule(Section):
    """Retention of rows. The most specific matching rule applies (organization, table, signal)."""

    table: str = Field("*", min_length=1, description="table name, or a pattern such as metrics_*")
    organization: str = Field("", pattern=f"^$|{ORGANIZATION_PATTERN}", description="organization; empty: all")
    signal: str = Field("", pattern=r"^(logs|metrics|traces)?$", description="logs, metrics or traces; empty: all")
    days: float = Field(ge=0, le=36_500, description="days after which rows are deleted; 0: never")
    column: str = Field("", description="time column; empty: timestamp, quarantined_at, recorded_at or decided_at")


class TagsConfig(Section):
    """Automatic tags, for reading a table as of an earlier time."""

    enabled: bool = Field(False, description="create tags")
    hourly: int = Field(24, ge=0, le=24 * 366, description="hourly tags to keep")
    daily: int = Field(7, ge=0, le=3660, description="daily tags to keep")
    monthly: int = Field(12, ge=0, le=1200, description="monthly tags to keep")


class StatisticsConfig(Section):
    """Statistics for the planners of query engines."""

    enabled: bool = Field(False, description="let `neve maintain all` compute statistics")
    columns: dict[str, tuple[str, ...]] = Field(
        {}, description="columns whose distinct values are counted, by table; default: the columns of its layout"
    )


class MaintainConfig(Section):
    """Maintenance of table metadata, files and retention."""

    expire: ExpireConfig = Field(ExpireConfig(), description="snapshot expiry")
    orphans: OrphansConfig = Field(OrphansConfig(), description="removal of orphan files")
    manifests: ManifestsConfig = Field(ManifestsConfig(), description="rewrites of manifests")
    deletes: DeletesConfig = Field(DeletesConfig(), description="rewrites of position deletes")
    retention: tuple[RetentionRule, ...] = Field(
        (), description="retention of rows; without a rule, rows are kept forever"
    )
    retention_exact: bool = Field(
        True,
        description="delete exactly to the row, which rewrites files of the partition at the boundary; false: "
        "wait until a whole partition has expired",
    )
    tags: TagsConfig = Field(TagsConfig(), description="automatic tags")
    statistics: StatisticsConfig = Field(StatisticsConfig(), description="statistics for query planners")
    history_days: int = Field(90, ge=1, le=3660, description="days to keep the history of runs")
    lease_seconds: float = Field(
        300, ge=10, le=86_400, description="seconds until the lease of a killed maintenance run expires"
    )
