"""What users set about recommendations."""

from pydantic import Field

from neve.lake.prices import PricesConfig
from neve.model.section import Section

MB = 1024 * 1024


class RecommendConfig(Section):
    """When a layout is recommended."""

    filtered_share: float = Field(
        0.30, gt=0, le=1, description="a column in the filters of more than this share of queries may part or sort"
    )
    ordered_share: float = Field(
        0.20, gt=0, le=1, description="a column in ORDER BY (with a filter or a LIMIT) of more than this share may sort"
    )
    promoted_share: float = Field(
        1 / 3, gt=0, le=1, description="a key of a map in the filters of at least this share becomes a column"
    )
    min_reduction: float = Field(
        0.30, gt=0, lt=1, description="the least reduction of scanned bytes, by the lower bound of its interval"
    )
    min_table_bytes: int = Field(512 * MB, ge=0, description="smaller tables are left as they are")
    min_queries: int = Field(20, ge=1, description="fewer queries of a table in the log say too little")
    sample_rows: int = Field(2_000_000, ge=1000, description="rows that are sampled of a table")
    ranking_rows: int = Field(20_000, ge=500, description="rows of the sample that candidates are ranked on")
    sample_files: int = Field(2000, ge=1, description="data files that the sample comes from, at most")
    seed: int = Field(7, description="of the sample: the same seed and files give the same rows")
    confidence: float = Field(0.90, gt=0, lt=1, description="of the interval of an estimate")
    resamples: int = Field(16, ge=4, description="samples that are drawn from the sample for the interval")
    finalists: int = Field(8, ge=1, description="candidates that are estimated on the whole sample")
    candidates: int = Field(500, ge=1, description="candidates that are ranked, at most")
    identity_values: int = Field(1000, ge=1, description="distinct values that a column may be partitioned by as it is")
    keep_time_partition: bool = Field(
        True, description="tables partitioned by organization_id keep their partition by time, which retention goes by"
    )
    settle_days: float = Field(14, ge=0, description="days after a change of a layout in which it is left alone")
    return_margin: float = Field(
        0.10, ge=0, description="how much larger the gain must be to go back to a layout that was left"
    )
    rewrite_bytes_per_s: float = Field(
        6.0 * MB, gt=0, description="bytes that one core rewrites in a second; 6 MB were measured on spans with Spark"
    )
    payback_days: float = Field(30, gt=0, description="days in which a rewrite must have saved what it costs")
    prices: PricesConfig = Field(PricesConfig(), description="what storage, requests and machines cost")
