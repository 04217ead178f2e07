"""Table properties: the keys that Neve sets and reads, and their defaults."""

FORMAT_VERSION = "format-version"
FORMAT_VERSION_DEFAULT = 2
TARGET_FILE_SIZE_BYTES = "write.target-file-size-bytes"
TARGET_FILE_SIZE_BYTES_DEFAULT = 512 * 1024 * 1024  # 512 MB
BLOOM_FILTER_PREFIX = "write.parquet.bloom-filter-enabled.column."
METRICS_PREFIX = "write.metadata.metrics.column."
LAYOUT_ZORDER = "neve.layout.zorder"  # column names separated by commas; without it the table's sort order applies
# Format of what Neve writes. A release that changes it in a way that this one would misread raises it by one, and
# `neve init` stores it in the tables and in the state store. Without it, the format is 1.
LAKE_FORMAT_PROPERTY = "neve.format"
LAKE_FORMAT = 1
DEDUPLICATE = "neve.deduplicate"  # true: rows of one record_id are one record; default: only in Neve's own tables

BASE_PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    "write.metadata.metrics.default": "none",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
    TARGET_FILE_SIZE_BYTES: str(TARGET_FILE_SIZE_BYTES_DEFAULT),
}
