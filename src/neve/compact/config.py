"""Settings of compaction."""

from typing import Literal

from pydantic import Field

from neve.model.settings import Section

MB = 1024 * 1024
GB = 1024 * MB

StrategyName = Literal["adaptive", "small_files", "deletes", "time_series", "dimensional", "cost"]


class CompactConfig(Section):
    """Triggers and methods of compaction, and limits of one run."""

    strategy: StrategyName = Field(
        "adaptive",
        description="adaptive (chooses for each partition), small_files, deletes, time_series, dimensional or cost",
    )
    target_bytes: int = Field(
        0,
        ge=0,
        description="target file size for tables without write.target-file-size-bytes; 0: 512 MB",
    )
    executor: Literal["auto", "arrow", "spark"] = Field(
        "auto", description="executor: arrow (fast, files without deletes only), spark (everything), or auto"
    )

    fragments: int = Field(
        12, ge=2, description="number of fragments (files of at most an eighth of the target) that triggers a merge"
    )
    minor_seconds: int = Field(
        3600, ge=0, description="seconds since the last merge after which two or more fragments are merged"
    )
    undersized_files: int = Field(
        5, ge=2, description="number of undersized files that triggers a merge, even if they do not fill a target file"
    )
    full_days: float = Field(0, ge=0, description="days between full rewrites of each partition; 0: never")
    delete_files: int = Field(
        2, ge=1, description="number of position-delete files that triggers a rewrite of their data file"
    )
    delete_ratio: float = Field(0.1, gt=0, le=1, description="share of deleted rows that triggers a rewrite of a file")
    layout_share: float = Field(
        0.2,
        gt=0,
        le=1,
        description="share of bytes not yet in the table's sort order that triggers a rewrite of a partition",
    )
    old_specs: bool = Field(True, description="rewrite files of older partition specs with the current spec")

    time_column: str = Field("", description="column with the record time; empty: detected by name and partitioning")
    hot_seconds: int = Field(
        30,
        ge=0,
        description="files with records younger than this are not rewritten: writers still add to their partition",
    )
    deduplicate: bool = Field(
        True,
        description="remove duplicate records, in the lake's own tables and in tables with the property "
        "neve.deduplicate=true",
    )
    close_seconds: int = Field(
        86_400,
        ge=0,
        description="seconds after its last record time until a partition is closed and checked for duplicates",
    )
    duplicate_partitions: int = Field(
        16, ge=0, description="maximum number of closed partitions that one run checks for duplicates"
    )

    queries_per_day: float = Field(
        100, ge=0, description="expected queries per day on a partition, to estimate the savings of a rewrite"
    )
    payback_days: float = Field(30, gt=0, description="strategy cost: days within which a rewrite must pay for itself")

    group_bytes: int = Field(2 * GB, ge=MB, description="approximate number of bytes that one task rewrites")
    group_files: int = Field(5000, ge=2, description="maximum number of files that one task rewrites")
    max_bytes: int = Field(100 * GB, ge=0, description="maximum number of bytes that one run rewrites; 0: unlimited")
    max_files: int = Field(20_000, ge=0, description="maximum number of files that one run rewrites; 0: unlimited")
    max_seconds: float = Field(3600, ge=0, description="maximum expected duration of one run in seconds; 0: unlimited")
    max_dollars: float = Field(0, ge=0, description="maximum cost of rewrites per hour in dollars; 0: unlimited")
    concurrency: int = Field(2, ge=1, le=1024, description="file groups to rewrite at a time")
    cores: int = Field(
        0,
        ge=0,
        le=4096,
        description="maximum number of cores that one run uses; 0: all of Spark's, a share of them in `neve serve`",
    )
    groups_per_commit: int = Field(64, ge=1, description="file groups to publish in one commit")
    sort_memory_bytes: int = Field(
        512 * MB, ge=MB, description="memory for sorting in one task; larger inputs use temporary files"
    )
    verify: Literal["sample", "full", "count"] = Field(
        "sample",
        description="proof required before a rewrite is published: row count and a hash of record_id or of some "
        "columns (sample), of all columns (full), or the row count alone (count)",
    )
    thorough_seconds: int = Field(
        86_400,
        ge=0,
        description="seconds between full checks of every partition, even if the table's summary shows no problem",
    )
    lease_seconds: float = Field(
        60, gt=0, description="seconds until the lease of a compactor expires if it is not renewed"
    )
    plan_memory: str = Field(
        "512MB", pattern=r"^\d+(MB|GB)$", description="memory for the metadata of a table during planning"
    )
