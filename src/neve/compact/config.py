"""What users set about compaction."""

from typing import Literal

from pydantic import Field

from neve.model.section import Section

MB = 1024 * 1024
GB = 1024 * MB

StrategyName = Literal["adaptive", "small_files", "deletes", "time_series", "dimensional", "cost"]


class CompactConfig(Section):
    """When files are rewritten, how, and how much of it one run may do."""

    strategy: StrategyName = Field(
        "adaptive",
        description="adaptive (the others, as each partition needs them), small_files, deletes, time_series, "
        "dimensional or cost",
    )
    target_bytes: int = Field(
        0,
        ge=0,
        description="size that files should have where the table has no write.target-file-size-bytes; 0: 512 MB",
    )
    executor: Literal["auto", "arrow", "spark"] = Field(
        "auto", description="who rewrites: arrow (quick, plain files only), spark (everything), or auto"
    )

    fragments: int = Field(
        12, ge=2, description="so many fragments (an eighth of the target or less) are packed at once"
    )
    minor_seconds: int = Field(
        3600, ge=0, description="fewer fragments, but at least two, are packed when the last time is this long ago"
    )
    undersized_files: int = Field(
        5, ge=2, description="so many undersized files are packed even where they do not fill a target file"
    )
    full_days: float = Field(0, ge=0, description="every partition is rewritten whole after so many days; 0: never")
    delete_files: int = Field(2, ge=1, description="a file is rewritten when so many position-delete files apply to it")
    delete_ratio: float = Field(
        0.1, gt=0, le=1, description="a file is rewritten when more than this share of its rows is deleted"
    )
    layout_share: float = Field(
        0.2, gt=0, le=1, description="a partition is laid out anew when this share of its bytes is not yet"
    )
    old_specs: bool = Field(True, description="rewrite files of older partition specs into today's")

    time_column: str = Field("", description="column with the time of a record; empty: found by name and partitioning")
    hot_seconds: int = Field(
        900, ge=0, description="files with records of this time before now are left to the writers that add to them"
    )
    deduplicate: bool = Field(
        True,
        description="remove records that are there twice, in the lake's own tables and where neve.deduplicate is true",
    )
    close_seconds: int = Field(
        86_400,
        ge=0,
        description="a partition is closed, and looked through for duplicates, this long after its last time",
    )
    duplicate_partitions: int = Field(
        16, ge=0, description="how many closed partitions one run looks through for duplicates"
    )

    queries_per_day: float = Field(
        100, ge=0, description="queries a day that read a partition, for what a rewrite saves"
    )
    payback_days: float = Field(
        30, gt=0, description="strategy cost: what a rewrite costs must be saved within so many days"
    )

    group_bytes: int = Field(2 * GB, ge=MB, description="bytes that are rewritten by one task, at about")
    group_files: int = Field(5000, ge=2, description="files that are rewritten by one task, at most")
    max_bytes: int = Field(100 * GB, ge=0, description="bytes that one run rewrites, at most; 0: no limit")
    max_files: int = Field(20_000, ge=0, description="files that one run rewrites, at most; 0: no limit")
    max_seconds: float = Field(3600, ge=0, description="seconds that one run is expected to take, at most; 0: no limit")
    max_dollars: float = Field(0, ge=0, description="dollars that rewrites may cost in an hour, at most; 0: no limit")
    concurrency: int = Field(2, ge=1, le=1024, description="groups that are rewritten at a time")
    cores: int = Field(
        0,
        ge=0,
        le=4096,
        description="cores that one run keeps busy, at most; 0: all of Spark's, in `neve serve` a share",
    )
    groups_per_commit: int = Field(64, ge=1, description="groups that are published in one commit")
    sort_memory_bytes: int = Field(
        512 * MB, ge=MB, description="rows that a task sorts in memory; what is more goes through temporary files"
    )
    verify: Literal["sample", "full", "count"] = Field(
        "sample",
        description="what must be equal before a rewrite is published: the number of rows and a hash of record_id or "
        "of some columns (sample), of all columns (full), or the number alone (count)",
    )
    thorough_seconds: int = Field(
        86_400,
        ge=0,
        description="every partition is looked at this often, also where a table's summary says all is well",
    )
    lease_seconds: float = Field(
        60, gt=0, description="a compactor that does not renew its lease of a table for so long is taken for dead"
    )
    plan_memory: str = Field(
        "512MB", pattern=r"^\d+(MB|GB)$", description="memory for the metadata of a table while it is planned for"
    )
